// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Testing the rules of a leaf, one after the other. Include <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_LEAF_H
#define PCN_CLASSIFY_LEAF_H

#include <pcn/classify_key.h>
#include <pcn/classify_tree.h>

/* Internal: 0 if the first words of a key match a rule. */
PCN_INLINE __u64 pcn_classify_differs(const struct pcn_classify_rule *rule,
				      const struct pcn_classify_key *key)
{
	__u64 ports = key->word[PCN_CLASSIFY_PORTS];
	__u64 source = (__u16)((ports >> 48) - rule->source);
	__u64 destination = (__u16)((ports >> 32) - rule->destination);

	/* Else clang makes branches of the subtractions below. */
	asm("" : "+r"(source), "+r"(destination));
	return ((key->word[PCN_CLASSIFY_LINK] & rule->mask[0]) ^ rule->value[0]) |
	       ((key->word[PCN_CLASSIFY_SRC] & rule->mask[1]) ^ rule->value[1]) |
	       ((key->word[PCN_CLASSIFY_DST] & rule->mask[2]) ^ rule->value[2]) |
	       (rule->sources - source) >> 63 | (rule->destinations - destination) >> 63;
}

/* Internal: 0 if the order of a rule is not before those that are wanted. */
PCN_INLINE __u64 pcn_classify_early(const struct pcn_classify_rule *rule,
				    const struct pcn_classify_key *key)
{
	return ((__u64)rule->order - key->from) >> 63;
}

/* Internal: 0 if the remaining words of a key match a rule. */
PCN_INLINE __u64 pcn_classify_more_differs(const struct pcn_classify_more *m,
					   const struct pcn_classify_more *n,
					   const struct pcn_classify_key *key)
{
	return ((key->word[PCN_CLASSIFY_PORTS] & m->mask[0]) ^ m->value[0]) |
	       ((key->word[PCN_CLASSIFY_SRC_LOW] & m->mask[1]) ^ m->value[1]) |
	       ((key->word[PCN_CLASSIFY_DST_LOW] & m->mask[2]) ^ m->value[2]) |
	       ((key->word[PCN_CLASSIFY_SRC_MAC] & n->mask[0]) ^ n->value[0]) |
	       ((key->word[PCN_CLASSIFY_DST_MAC] & n->mask[1]) ^ n->value[1]) |
	       ((key->word[PCN_CLASSIFY_MARK] & n->mask[2]) ^ n->value[2]);
}

/* Internal: 1 if a key matches one of the exceptions, of which the first is in a block. */
PCN_GLOBAL int pcn_classify_excepted(struct pcn_classify_part *m PCN_NONNULL,
				     const struct pcn_classify_key *key PCN_NONNULL, __u32 at)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_EXCEPTIONS && at; i++) {
		const struct pcn_classify_more *more = &pcn_classify_at(m, at + 1)->more;
		const struct pcn_classify_more *rest = &pcn_classify_at(m, at + 2)->more;

		asm volatile("" ::: "memory"); /* as in pcn_classify_misses */
		if (!(pcn_classify_differs(&pcn_classify_at(m, at)->rule, key) |
		      pcn_classify_more_differs(more, rest, key)))
			return 1;
		at = rest->exception;
	}
	return 0;
}

/* Internal: 0 if a key matches a LONG rule, whose first words match. */
PCN_INLINE __u64 pcn_classify_long_differs(void *m, const struct pcn_classify_key *key, __u32 at)
{
	const struct pcn_classify_more *more = &pcn_classify_at(m, at + 1)->more;
	const struct pcn_classify_more *rest = &pcn_classify_at(m, at + 2)->more;

	if (pcn_classify_more_differs(more, rest, key))
		return 1;
	return rest->exception ? pcn_classify_excepted(m, key, rest->exception) : 0;
}

/* Internal: the rule that a reference leads to. */
PCN_INLINE struct pcn_classify_rule *pcn_classify_rule_at(void *m, __u32 reference)
{
	return &pcn_classify_at(m, reference)->rule;
}

/* Internal: 0 if a key matches the rule that a reference leads to. There are few branches: which part
 * differs is unpredictable, and each branch would double the verifier's work per rule. */
PCN_INLINE __u64 pcn_classify_misses(void *m, const struct pcn_classify_key *key, __u32 reference)
{
	/* Recompute what depends on the key each time: keeping it would use stack. */
	asm volatile("" ::: "memory");
	const struct pcn_classify_rule *rule = pcn_classify_rule_at(m, reference);
	__u64 differs = pcn_classify_differs(rule, key) | pcn_classify_early(rule, key);

	if (differs || !(reference & PCN_CLASSIFY_LONG))
		return differs;
	return pcn_classify_long_differs(m, key, reference);
}

/* Internal: makes a rule the match if it precedes the match so far. */
PCN_INLINE void pcn_classify_found(struct pcn_classify_match *match,
				   const struct pcn_classify_rule *rule)
{
	if (rule->order >= match->order)
		return;
	match->order = rule->order;
	match->result = rule->result;
}

/* Internal: 1 if the word of the j-th rule of a leaf block that tells most about it matches a key. */
PCN_INLINE int pcn_classify_tells(const struct pcn_classify_key *key,
				  const struct pcn_classify_leaf *leaf, int j)
{
	return (key->word[leaf->words >> 3 * j & 7] & leaf->mask[j]) == leaf->value[j];
}

/* Internal: makes the j-th rule of a leaf block the match and returns 1, if it matches the key. */
PCN_INLINE int pcn_classify_entry(void *m, const struct pcn_classify_key *key,
				  const struct pcn_classify_leaf *leaf, int j,
				  struct pcn_classify_match *match)
{
	if (!j)
		PCN_CLASSIFY_CHECKPOINT();
	if (!pcn_classify_tells(key, leaf, j))
		return 0;
	__u32 reference = leaf->rules >> PCN_CLASSIFY_REFERENCE * j;
	if (pcn_classify_misses(m, key, reference))
		return 0;
	pcn_classify_found(match, pcn_classify_rule_at(m, reference));
	return 1;
}

/* Internal: tests the rules of a leaf block. Returns the next block, or 0 if there is none or a
 * rule matched. */
PCN_INLINE __u32 pcn_classify_entries(void *m, const struct pcn_classify_key *key,
				      const struct pcn_classify_leaf *leaf,
				      struct pcn_classify_match *match)
{
#pragma unroll
	for (int j = 0; j < PCN_CLASSIFY_LEAF; j++)
		if (pcn_classify_entry(m, key, leaf, j, match))
			return 0;
	return leaf->next;
}

/* Internal: leaf blocks that are searched without a call: of the first tree, and then MORE if they have no LONG
 * rule that matches only in its first words; of each other tree. Of what is left, a call searches some
 * without bpf_loop, whose iterations take some at a time. The verifier checks all of them one by one. */
#define PCN_CLASSIFY_FIRST_BLOCKS 4
#define PCN_CLASSIFY_MORE_BLOCKS 7
#define PCN_CLASSIFY_FAST_BLOCKS 2
#define PCN_CLASSIFY_LIST_BLOCKS 7
#define PCN_CLASSIFY_LOOP_BLOCKS 3

/* Internal: tests the rules of some leaf blocks. Returns the next block, or 0 if there is none. */
PCN_INLINE __u32 pcn_classify_scan(void *m, const struct pcn_classify_key *key, __u32 at,
				   struct pcn_classify_match *match, const __u32 blocks)
{
#pragma unroll
	for (__u32 i = 0; i < blocks; i++) {
		at = pcn_classify_entries(m, key, &pcn_classify_at(m, at)->leaf, match);
		if (!at)
			return 0;
	}
	return at;
}

/* Internal: pcn_classify_scan with one place where the rest of a LONG rule is tested, instead of one for each
 * rule of a block. If it does not match, returns its block. */
PCN_INLINE __u32 pcn_classify_scan_short(void *m, const struct pcn_classify_key *key, __u32 at,
					 struct pcn_classify_match *match, const __u32 blocks)
{
	__u64 reference;

#pragma unroll
	for (__u32 i = 0; i < blocks; i++) {
		const struct pcn_classify_leaf *leaf = &pcn_classify_at(m, at)->leaf;

#pragma unroll
		for (int j = 0; j < PCN_CLASSIFY_LEAF; j++) {
			if (!j)
				PCN_CLASSIFY_CHECKPOINT();
			if (!pcn_classify_tells(key, leaf, j))
				continue;
			reference = leaf->rules >> PCN_CLASSIFY_REFERENCE * j;
			asm volatile("" ::: "memory"); /* as in pcn_classify_misses */
			const struct pcn_classify_rule *rule = pcn_classify_rule_at(m, reference);
			if (!(pcn_classify_differs(rule, key) | pcn_classify_early(rule, key)))
				goto candidate;
		}
		at = leaf->next;
		if (!at)
			return 0;
	}
	return at;
candidate:
	PCN_CLASSIFY_CHECKPOINT();
	if (reference & PCN_CLASSIFY_LONG && pcn_classify_long_differs(m, key, reference))
		return at;
	pcn_classify_found(match, pcn_classify_rule_at(m, reference));
	return 0;
}

/* Internal: the state of a bpf_loop over leaf blocks. */
struct pcn_classify_walk {
	__u64 at;
	void *m;
	const struct pcn_classify_key *key;
	struct pcn_classify_match *match;
};

/* Internal: an iteration of bpf_loop: some leaf blocks. */
static long pcn_classify_turn(__u64 turn, struct pcn_classify_walk *walk)
{
	(void)turn;
	walk->at = pcn_classify_scan(walk->m, walk->key, walk->at, walk->match,
				     PCN_CLASSIFY_LOOP_BLOCKS);
	return !walk->at;
}

/* Internal: tests the rules of a leaf, starting at a block. */
PCN_GLOBAL int pcn_classify_list_at(struct pcn_classify_part *m PCN_NONNULL,
				    const struct pcn_classify_key *key PCN_NONNULL,
				    struct pcn_classify_match *match PCN_NONNULL, __u32 at)
{
	at = pcn_classify_scan_short(m, key, at, match, PCN_CLASSIFY_LIST_BLOCKS);
	if (!at)
		return 0;
	struct pcn_classify_walk walk = { at, m, key, match };

	bpf_loop(1 << 20, pcn_classify_turn, &walk, 0);
	return 0;
}

#endif
