// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube that floods each packet: to all ports, or to a set in which no, every or every other port
 * wants a tag. */
#include <pcn/cube.h>

/* 0: to all ports; else the set, whose members define the tags */
PCN_CONFIG(__u32, set) = 0;

PCN_INGRESS
{
	if (set)
		return pcn_pkt_flood_set(ctx, md, set, PCN_TAG(ETH_P_8021Q, 100), 0);
	return pcn_pkt_flood(ctx, md);
}

PCN_LICENSE;
