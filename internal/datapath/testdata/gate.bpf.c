// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent cube for tests: it appends its letter to the first bytes of the payload, so
 * that the order of cubes shows in the packet. */
#include <pcn/cube.h>

PCN_CONFIG(__u32, letter) = 'a';
/* 0 pass, 1 drop, 2 slow path */
PCN_CONFIG(__u32, what_in) = 0;
PCN_CONFIG(__u32, what_out) = 0;

PCN_INLINE int act(struct CTXTYPE *ctx, struct pcn_md *md, __u32 what)
{
	struct pcn_cursor c;
	pcn_cursor_open(&c, ctx, 64);
	struct ethhdr *eth = pcn_parse_eth(&c);
	__u8 *at = eth ? pcn_cursor_take(&c, 16) : NULL;

	if (at) {
#pragma unroll
		for (int i = 0; i < 15; i++) {
			if (!at[i]) {
				at[i] = letter;
				break;
			}
		}
	}
	if (what == 1)
		return pcn_pkt_drop(ctx, md, 0);
	if (what == 2)
		return pcn_pkt_controller(ctx, md, 1);
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return act(ctx, md, what_in);
}

PCN_EGRESS
{
	return act(ctx, md, what_out);
}

PCN_LICENSE;
