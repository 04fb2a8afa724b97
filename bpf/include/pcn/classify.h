// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Finds the first matching rule for a packet, among any number of rules over header fields. Go
 * package `classifier` compiles rules to lists, search trees and groups of bit vectors, and writes
 * these into the maps that PCN_CLASSIFIER declares; the functions here read a packet's fields and
 * search the maps.
 *
 *	PCN_CLASSIFIER(rules);
 *	...
 *	struct pcn_classify_key key;
 *	struct pcn_classify_match match;
 *
 *	if (pcn_classify_read(ctx, md, &key, rules_fields))
 *		return pcn_pkt_drop(ctx, md, X_TRUNCATED);
 *	if (!pcn_classify_rules(&key, &match))
 *		return pcn_pkt_drop(ctx, md, X_NO_RULE);
 *	... match.result is what the control plane gave to the rule ... */
#ifndef PCN_CLASSIFY_H
#define PCN_CLASSIFY_H

#include <pcn/classify_key.h>
#include <pcn/classify_tree.h>
#include <pcn/map.h>

/* PCN_CLASSIFIER(rules); declares the storage of a rule set: maps of four sizes, the constants
 * NAME_size and NAME_slot, which select the map in use and the slot in it, and the constant
 * NAME_fields. The control plane uses classifier.New(env, "rules"). Programs search it with
 *
 *	int pcn_classify_rules(const struct pcn_classify_key *key, struct pcn_classify_match *match)
 *
 * which returns 1 and the first of the matching rules, or 0. It is a separate function, so that the
 * verifier checks it once rather than for each combination of what is known about a packet. */
#define PCN_CLASSIFIER(name)                                                                       \
	PCN_CONFIG(__u32, name##_size) PCN_TRY(1) PCN_TRY(2) PCN_TRY(3) = 0;                       \
	PCN_CONFIG(__u32, name##_slot) = 0;                                                        \
	PCN_CONFIG(__u32, name##_fields) PCN_TRY(31) = 0;                                          \
	PCN_CLASSIFY_MAP(name##_small, 1 << 10);                                                   \
	PCN_CLASSIFY_MAP(name##_medium, 1 << 13);                                                  \
	PCN_CLASSIFY_MAP(name##_large, 1 << 16);                                                   \
	PCN_CLASSIFY_MAP(name##_huge, 1 << 18);                                                    \
	PCN_INLINE void *pcn_classify_set_##name(void)                                             \
	{                                                                                          \
		__u32 slot = name##_slot;                                                          \
		if (name##_size == 0)                                                              \
			return bpf_map_lookup_elem(&name##_small, &slot);                          \
		if (name##_size == 1)                                                              \
			return bpf_map_lookup_elem(&name##_medium, &slot);                         \
		if (name##_size == 2)                                                              \
			return bpf_map_lookup_elem(&name##_large, &slot);                          \
		return bpf_map_lookup_elem(&name##_huge, &slot);                                   \
	}                                                                                          \
	__attribute__((noinline)) int pcn_classify_group_##name(                                   \
		const struct pcn_classify_key *key PCN_NONNULL,                                    \
		struct pcn_classify_match *match PCN_NONNULL, __u32 at)                            \
	{                                                                                          \
		void *set = pcn_classify_set_##name();                                             \
		return set ? pcn_classify_columns(set, key, at, match) : 0;                        \
	}                                                                                          \
	__attribute__((noinline)) int pcn_classify_list_##name(                                    \
		const struct pcn_classify_key *key PCN_NONNULL,                                    \
		struct pcn_classify_match *match PCN_NONNULL, __u32 at)                            \
	{                                                                                          \
		void *set = pcn_classify_set_##name();                                             \
		if (set)                                                                           \
			pcn_classify_list(set, key, at, match);                                    \
		return 0;                                                                          \
	}                                                                                          \
	static long pcn_classify_step_##name(__u64 turn, struct pcn_classify_row *row)             \
	{                                                                                          \
		return pcn_classify_step(turn, row,                                                \
					 (struct pcn_classify_fns){ pcn_classify_group_##name,     \
								    pcn_classify_list_##name,      \
								    NULL });                       \
	}                                                                                          \
	__attribute__((noinline)) int pcn_classify_sequence_##name(                                \
		const struct pcn_classify_key *key PCN_NONNULL,                                    \
		struct pcn_classify_match *match PCN_NONNULL, __u32 at)                            \
	{                                                                                          \
		void *set = pcn_classify_set_##name();                                             \
		struct pcn_classify_block *block = set ? pcn_classify_at(set, at) : NULL;          \
		if (!block)                                                                        \
			return 0;                                                                  \
		struct pcn_classify_row row = { key, match, block->sequence.first, match->order }; \
		bpf_loop(block->sequence.count, pcn_classify_step_##name, &row, 0);                \
		return 0;                                                                          \
	}                                                                                          \
	__attribute__((noinline)) int pcn_classify_##name(                                         \
		const struct pcn_classify_key *key PCN_NONNULL,                                    \
		struct pcn_classify_match *match PCN_NONNULL)                                      \
	{                                                                                          \
		void *set = pcn_classify_set_##name();                                             \
		return set && pcn_classify_search(                                                 \
				      set, key, match,                                             \
				      (struct pcn_classify_fns){ pcn_classify_group_##name,        \
								 pcn_classify_list_##name,         \
								 pcn_classify_sequence_##name });  \
	}                                                                                          \
	_Static_assert(1, "")

/* Internal: two slots, so that programs with new constants start with a set of their own. */
#define PCN_CLASSIFY_MAP(name, blocks)                                                         \
	PCN_MAP_OF_MAPS(name, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, 2, BPF_MAP_TYPE_ARRAY, __u32, \
			pcn_classify_bytes, blocks, BPF_F_MMAPABLE)

#endif
