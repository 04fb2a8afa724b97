// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A monitor that drops packets of an odd length. */
#include <pcn/monitor.h>

PCN_INGRESS
{
	return md->packet_len & 1 ? pcn_monitor_drop(ctx, md) : pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
