// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests: reads a packet once, adds a state to the key, and searches two sets of rules. */
#include <pcn/cube.h>
#include <pcn/classify.h>

enum twosets_reason {
	TWOSETS_TRUNCATED = PCN_REASON_FIRST,
	TWOSETS_NONE,	/* neither set has a rule for the packet */
	TWOSETS_FIRST,	/* a rule of the first set matches */
	TWOSETS_SECOND, /* a rule of the second set, which matches on the state */
};
PCN_REASONS(twosets_reason);

PCN_INGRESS
{
	__u32 first = pcn_classify_set(md, 0), second = pcn_classify_set(md, 1);
	__u32 fields = pcn_classify_fields(first) | pcn_classify_fields(second);
	struct pcn_classify_key *key = pcn_classify_key();
	struct pcn_classify_match match;

	if (!key || pcn_classify_read(ctx, key, fields, md->in_port, md->traffic_class))
		return pcn_pkt_drop(ctx, md, TWOSETS_TRUNCATED);
	if (pcn_classify(key, &match, first))
		return pcn_pkt_drop(ctx, md, TWOSETS_FIRST);
	key->word[PCN_CLASSIFY_PORTS] |= 5 << 8; /* the state */
	if (pcn_classify(key, &match, second))
		return pcn_pkt_drop(ctx, md, TWOSETS_SECOND);
	return pcn_pkt_drop(ctx, md, TWOSETS_NONE);
}

PCN_LICENSE;
