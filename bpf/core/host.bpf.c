// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The cube at the other end, where the programs of a service are loaded on trial: a transparent cube needs one that has
 * the port, and a crossing one that it leads to. Whatever comes in may go back. */
#include <pcn/cube.h>

PCN_INGRESS
{
	return pcn_pkt_send(ctx, md, bpf_get_prandom_u32() & 1);
}

PCN_LICENSE;
