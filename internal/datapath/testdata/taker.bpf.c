// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent cube for tests that takes offers: it turns them, passes them or sends them to its
 * control plane, as a constant says. Other packets pass. */
#include <pcn/cube.h>

/* 0 pass, 1 turn, 2 slow path */
PCN_CONFIG(__u32, offered) = 0;

PCN_INGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	if (!pcn_offered(md) || !offered)
		return pcn_pkt_pass(ctx, md);
	return offered == 1 ? pcn_pkt_turn(ctx, md) : pcn_pkt_controller(ctx, md, 1);
}

PCN_TAKES_OFFERS;
PCN_LICENSE;
