// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Finds the first matching rule for a packet, among any number of rules over header fields. Go
 * package `classifier` compiles rules to lists, search trees and groups of bit vectors, and writes
 * these into memory that all sets of rules share; the functions here read a packet's fields and search
 * there. A cube may have up to eight sets, numbered from 0: the control plane uses
 * classifier.New(env, 0). Another rule, or a field that no rule has matched before, changes neither
 * programs nor maps.
 *
 *	struct pcn_classify_match match;
 *	int found = pcn_classify_packet(ctx, md, &match, pcn_classify_set(md, 0));
 *
 *	if (found < 0)
 *		return pcn_pkt_drop(ctx, md, X_TRUNCATED);
 *	if (!found)
 *		return pcn_pkt_drop(ctx, md, X_NO_RULE);
 *	... match.result is what the control plane gave to the rule ...
 *
 * A cube that searches several sets, or that writes to the key, takes a key from pcn_classify_key, reads
 * the packet by pcn_classify_read, and searches each set by pcn_classify. That is one call more per
 * packet. */
#ifndef PCN_CLASSIFY_H
#define PCN_CLASSIFY_H

#include <pcn/classify_key.h>
#include <pcn/classify_search.h>

/* The set of the cube with a number, for the functions below. */
PCN_INLINE __u32 pcn_classify_set(const struct pcn_md *md, const __u32 number)
{
	return pcn_instance(md) * PCN_CLASSIFY_SETS + number;
}

/* The fields that the rules of a set match, for pcn_classify_read; combine those of several sets that
 * search the same key. */
PCN_INLINE __u32 pcn_classify_fields(__u32 set)
{
	const struct pcn_classify_root *root = bpf_map_lookup_elem(&classify_sets, &set);

	return root ? root->fields : 0;
}

#endif
