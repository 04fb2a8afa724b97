// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent cube for tests: it appends its letter to the first bytes of the payload, and
 * redirects packets. */
#include <pcn/cube.h>

PCN_CONFIG(__u32, letter) = 'd';
/* The output plus 1; 0: the packet continues. */
PCN_CONFIG(__u32, in_to) PCN_TRY(1) = 0;
PCN_CONFIG(__u32, out_to) PCN_TRY(1) = 0;

PCN_INLINE int act(struct CTXTYPE *ctx, struct pcn_md *md, __u32 to)
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
	if (!to)
		return pcn_pkt_pass(ctx, md);
	md->md[1] = letter; /* another cube must not see it */
	return pcn_pkt_redirect(ctx, md, to - 1);
}

PCN_INGRESS
{
	return act(ctx, md, in_to);
}

PCN_EGRESS
{
	return act(ctx, md, out_to);
}

PCN_LICENSE;
