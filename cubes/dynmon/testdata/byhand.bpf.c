// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The counter that TestTimedCostOfACounter injects, as a cube of its own. */
#include <pcn/cube.h>

PCN_MAP(counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, 1);

PCN_INGRESS
{
	__u32 zero = 0;

	pcn_count_packet(&counts, &zero, md->packet_len);
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
