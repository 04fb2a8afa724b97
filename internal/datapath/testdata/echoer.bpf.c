// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests: a transparent one appends its letter to the first bytes of the payload, and sends
 * packets back to where they came from. */
#include <pcn/cube.h>

PCN_CONFIG(__u32, letter) = 'e';
PCN_CONFIG(bool, replies) = true;

PCN_INLINE void append(struct CTXTYPE *ctx, __u8 what)
{
	struct pcn_cursor c;
	pcn_cursor_open(&c, ctx, 64);
	struct ethhdr *eth = pcn_parse_eth(&c);
	__u8 *at = eth ? pcn_cursor_take(&c, 16) : NULL;

	if (!at)
		return;
#pragma unroll
	for (int i = 0; i < 15; i++) {
		if (!at[i]) {
			at[i] = what;
			break;
		}
	}
}

PCN_INGRESS
{
	append(ctx, letter);
	if (!replies)
		return pcn_pkt_pass(ctx, md);
	md->md[1] = letter; /* the egress program sees it, another cube must not */
	return pcn_pkt_reply(ctx, md);
}

PCN_EGRESS
{
	append(ctx, md->md[1] ? letter - 'a' + 'A' : letter);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
