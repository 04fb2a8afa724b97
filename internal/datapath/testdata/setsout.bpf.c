// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The same with an egress program, which every copy must run. */
#include "sets.h"

PCN_EGRESS
{
	struct pcn_cursor c;

	/* the words that identified the set are gone */
	if (md->md[0] || md->md[1])
		return pcn_pkt_drop(ctx, md, SETS_WORDS);
	pcn_cursor_open(&c, ctx, 40);
	__u8 *bytes = pcn_cursor_take(&c, 40);
	if (bytes)
		bytes[39]++;
	return pcn_pkt_pass(ctx, md);
}
