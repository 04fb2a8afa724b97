// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The search trees that Go package classifier makes of rules, and the walk through them. Include
 * <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_TREE_H
#define PCN_CLASSIFY_TREE_H

#include <pcn/classify_key.h>

/* The rule that matched. */
struct pcn_classify_match {
	__u32 result; /* what the control plane gave to the rule */
	__u32 order;  /* its place among the rules */
};

/* Internal: limits of trees, which Go package classifier knows. */
#define PCN_CLASSIFY_BRANCHES 8
/* Internal: rules of a block. */
#define PCN_CLASSIFY_LEAF 14
/* Internal: trees of a set. */
#define PCN_CLASSIFY_TREES 7
/* Internal: branches on the way to a leaf. */
#define PCN_CLASSIFY_DEPTH 12
/* In the reference to a rule: it looks at more than the first four words. */
#define PCN_CLASSIFY_LONG 0x80000000

/* Internal: all of a set of rules is blocks of a cache line each. A branch: a field of the key, as
 * two shifts that cut it out of its word, leads to one of the blocks from `first` on: the i-th if
 * i of the values are less than the field. */
struct pcn_classify_branch {
	__u32 first;
	__u8 word; /* of the key; PCN_CLASSIFY_WORDS: this is a leaf */
	__u8 left;
	__u8 right;
	__u8 zero;
	__u64 value[PCN_CLASSIFY_BRANCHES - 1];
};

/* Internal: a leaf has rules in their order; more of them are in the block `next`. */
struct pcn_classify_leaf {
	__u32 next;
	__u8 word;
	__u8 count;
	__u16 zero;
	__u32 rule[PCN_CLASSIFY_LEAF];
};

/* Internal: a rule is a value and a mask of each word, but for ports, which are first one and
 * number of those that follow. Behind one that is LONG there are two struct pcn_classify_more. */
struct pcn_classify_rule {
	__u64 value[3];
	__u64 mask[3];
	__u16 source, sources;
	__u16 destination, destinations;
	__u32 order;
	__u32 result;
};

/* Internal: value and mask of three further words: what follows the ports, and the words behind. */
struct pcn_classify_more {
	__u64 value[3];
	__u64 mask[3];
	__u64 zero[2];
};

/* Internal: the trees of a set, by the best place that a rule in them has. */
struct pcn_classify_forest {
	__u32 count;
	__u32 none; /* a place behind those of all rules */
	struct {
		__u32 root;
		__u32 order;
	} tree[PCN_CLASSIFY_TREES];
};

/* Internal: block 0 says where the forest is; 0: there are no rules. */
struct pcn_classify_head {
	__u32 forest;
	__u32 zero[15];
};

struct pcn_classify_block {
	union {
		struct pcn_classify_head head;
		struct pcn_classify_forest forest;
		struct pcn_classify_branch branch;
		struct pcn_classify_leaf leaf;
		struct pcn_classify_rule rule;
		struct pcn_classify_more more;
	};
};

_Static_assert(sizeof(struct pcn_classify_block) == 64, "a block is a cache line");

/* Internal: a block for the declaration of a map: of a struct that is named there alone, clang
 * writes no size. */
typedef __u64 pcn_classify_bytes[8];

/* Internal: a block of a set. */
PCN_INLINE struct pcn_classify_block *pcn_classify_at(void *set, __u32 at)
{
	return bpf_map_lookup_elem(set, &at);
}

/* Internal: the branch for a key. */
PCN_INLINE __u32 pcn_classify_next(const struct pcn_classify_branch *branch,
				   const struct pcn_classify_key *key, __u64 word)
{
	/* Less than 2^63, so the sign of a difference tells which is less. */
	__u64 field = key->word[word] << (branch->left & 63) >> (branch->right & 63);
	__u32 at = branch->first;

#pragma unroll
	for (int i = 0; i < PCN_CLASSIFY_BRANCHES - 1; i++)
		at += (branch->value[i] - field) >> 63;
	return at;
}

/* Internal: the leaf of a tree that has what the key can match. */
PCN_INLINE struct pcn_classify_leaf *
pcn_classify_descend(void *set, const struct pcn_classify_key *key, __u32 *at)
{
#pragma clang loop unroll(disable)
	for (int depth = 0; depth <= PCN_CLASSIFY_DEPTH; depth++) {
		struct pcn_classify_block *block = pcn_classify_at(set, *at);

		if (!block)
			return NULL;
		__u64 word = block->branch.word;
		if (word >= PCN_CLASSIFY_WORDS)
			return &block->leaf;
		*at = pcn_classify_next(&block->branch, key, word);
	}
	return NULL;
}

/* Internal: 0 if further words of a key are those of a rule. */
PCN_INLINE __u64 pcn_classify_more_differs(void *set, const struct pcn_classify_key *key, __u32 at)
{
	struct pcn_classify_block *a = pcn_classify_at(set, at);
	struct pcn_classify_block *b = pcn_classify_at(set, at + 1);

	if (!a || !b)
		return 1;
	const struct pcn_classify_more *m = &a->more, *n = &b->more;
	return ((key->word[PCN_CLASSIFY_PORTS] & m->mask[0]) ^ m->value[0]) |
	       ((key->word[PCN_CLASSIFY_SRC_LOW] & m->mask[1]) ^ m->value[1]) |
	       ((key->word[PCN_CLASSIFY_DST_LOW] & m->mask[2]) ^ m->value[2]) |
	       ((key->word[PCN_CLASSIFY_SRC_MAC] & n->mask[0]) ^ n->value[0]) |
	       ((key->word[PCN_CLASSIFY_DST_MAC] & n->mask[1]) ^ n->value[1]) |
	       ((key->word[PCN_CLASSIFY_MARK] & n->mask[2]) ^ n->value[2]);
}

/* Internal: the rule, if the key is what it says. One branch: which part differs is as good as
 * random, and each branch would double the verifier's work for each rule. */
PCN_INLINE struct pcn_classify_rule *pcn_classify_try(void *set, const struct pcn_classify_key *key,
						      __u32 reference)
{
	__u32 at = reference & ~PCN_CLASSIFY_LONG;
	struct pcn_classify_block *block = pcn_classify_at(set, at);

	if (!block)
		return NULL;
	struct pcn_classify_rule *rule = &block->rule;
	__u64 ports = key->word[PCN_CLASSIFY_PORTS];
	__u64 source = (__u16)((ports >> 48) - rule->source);
	__u64 destination = (__u16)((ports >> 32) - rule->destination);
	__u64 differs = ((key->word[PCN_CLASSIFY_LINK] & rule->mask[0]) ^ rule->value[0]) |
			((key->word[PCN_CLASSIFY_SRC] & rule->mask[1]) ^ rule->value[1]) |
			((key->word[PCN_CLASSIFY_DST] & rule->mask[2]) ^ rule->value[2]) |
			(rule->sources - source) >> 63 | (rule->destinations - destination) >> 63;

	if (!differs && reference & PCN_CLASSIFY_LONG)
		differs = pcn_classify_more_differs(set, key, at + 1);
	return differs ? NULL : rule;
}

/* Internal: makes a rule the match if it comes before the one so far. */
PCN_INLINE void pcn_classify_found(struct pcn_classify_match *match,
				   const struct pcn_classify_rule *rule)
{
	if (rule->order >= match->order)
		return;
	match->order = rule->order;
	match->result = rule->result;
}

/* Internal: what is searched without calls: trees, and rules of a leaf. Most sets have no more, and
 * each takes the verifier some hundred instructions. */
#define PCN_CLASSIFY_FAST_TREES 4
#define PCN_CLASSIFY_FAST_RULES PCN_CLASSIFY_LEAF

/* Internal: the first rules of a leaf; false if there are more of them and none matched. */
PCN_INLINE int pcn_classify_scan(void *set, const struct pcn_classify_key *key,
				 const struct pcn_classify_leaf *leaf,
				 struct pcn_classify_match *match)
{
	__u32 count = leaf->count;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_FAST_RULES; i++) {
		if (i >= count)
			return 1;
		struct pcn_classify_rule *rule = pcn_classify_try(set, key, leaf->rule[i]);
		if (rule) {
			pcn_classify_found(match, rule);
			return 1;
		}
	}
	return count <= PCN_CLASSIFY_FAST_RULES;
}

/* Internal: what is left of a search, and how far that has come. */
struct pcn_classify_walk {
	void *set;
	const struct pcn_classify_key *key;
	struct pcn_classify_match *match;
	__u32 tree;
	__u32 rule;
	__u32 at;
	__u32 zero;
	__u32 next[8]; /* by tree: the block that is left of it, 0: none */
};

/* Internal: bpf_loop's turn: the next tree, a branch, the next block of a leaf, or a rule. The
 * verifier goes through this for each way in, so a turn does as little as possible. */
static long pcn_classify_turn(__u64 turn, struct pcn_classify_walk *walk)
{
	__u64 tree = pcn_classify_any(walk->tree, turn), i = pcn_classify_any(walk->rule, turn);

	if (!walk->at) {
		if (tree >= PCN_CLASSIFY_TREES)
			return 1;
		walk->tree = tree + 1;
		walk->at = walk->next[tree];
		return 0;
	}
	struct pcn_classify_block *block = pcn_classify_at(walk->set, walk->at);
	if (!block)
		return 1;
	__u64 word = block->branch.word;
	if (word < PCN_CLASSIFY_WORDS) {
		walk->at = pcn_classify_next(&block->branch, walk->key, word);
		return 0;
	}
	if (i >= PCN_CLASSIFY_LEAF || i >= block->leaf.count) {
		walk->at = block->leaf.next;
		walk->rule = 0;
		return 0;
	}
	walk->rule = i + 1;
	struct pcn_classify_rule *rule =
		pcn_classify_try(walk->set, walk->key, block->leaf.rule[i]);
	if (!rule)
		return 0;
	walk->at = 0;
	walk->rule = 0;
	pcn_classify_found(walk->match, rule);
	return 0;
}

/* Internal: searches what is left. */
PCN_INLINE int pcn_classify_go_on(struct pcn_classify_walk *walk)
{
	return bpf_loop(1 << 23, pcn_classify_turn, walk, 0);
}

/* Internal: pcn_classify in a set. */
PCN_INLINE int pcn_classify_search(void *set, const struct pcn_classify_key *key,
				   struct pcn_classify_match *match)
{
	struct pcn_classify_block *head = pcn_classify_at(set, 0);
	struct pcn_classify_block *block = head ? pcn_classify_at(set, head->head.forest) : NULL;

	if (!block || !head->head.forest)
		return 0;
	struct pcn_classify_walk walk = { .set = set, .key = key, .match = match };
	struct pcn_classify_forest *forest = &block->forest;
	__u32 count = forest->count, none = forest->none, left = 0;

	match->order = none;
	match->result = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_FAST_TREES; i++) {
		if (i >= count || forest->tree[i].order > match->order)
			break;
		__u32 at = forest->tree[i].root;
		struct pcn_classify_leaf *leaf = pcn_classify_descend(set, key, &at);
		if (!leaf)
			break;
		__u64 done = pcn_classify_any(pcn_classify_scan(set, key, leaf, match), at);
		walk.next[i] = at & (done - 1);
		left |= walk.next[i];
	}
	if (!left && (count <= PCN_CLASSIFY_FAST_TREES ||
		      forest->tree[PCN_CLASSIFY_FAST_TREES].order > match->order))
		return match->order != none;
#pragma unroll
	for (int i = PCN_CLASSIFY_FAST_TREES; i < PCN_CLASSIFY_TREES; i++)
		walk.next[i] = forest->tree[i].root;
	pcn_classify_go_on(&walk);
	return match->order != none;
}

#endif
