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

/* Internal: limits, which Go package classifier knows: ways of a branch, rules of a block of a leaf,
 * trees of a set, branches on the way to a leaf. */
#define PCN_CLASSIFY_BRANCHES 8
#define PCN_CLASSIFY_LEAF 3
#define PCN_CLASSIFY_TREES 7
#define PCN_CLASSIFY_DEPTH 12
/* Internal: in place of a branch's word: a leaf, a group, and a sequence. */
#define PCN_CLASSIFY_IS_LEAF PCN_CLASSIFY_WORDS
#define PCN_CLASSIFY_IS_GROUP (PCN_CLASSIFY_WORDS + 1)
#define PCN_CLASSIFY_IS_SEQUENCE (PCN_CLASSIFY_WORDS + 2)
/* Internal: a reference to a rule: its block, and whether it looks at more than the first four
 * words. */
#define PCN_CLASSIFY_REFERENCE 21
#define PCN_CLASSIFY_LONG (1 << 20)

/* Internal: all of a set of rules is blocks of a cache line each. A branch: a field of the key, as
 * two shifts that cut it out of its word, leads to one of the blocks from `first` on: the i-th if
 * i of the values are less than the field. */
struct pcn_classify_branch {
	__u32 first;
	__u8 word; /* of the key; PCN_CLASSIFY_IS_...: this is no branch */
	__u8 left;
	__u8 right;
	__u8 last; /* of a column: `first` counts halves of blocks, of bits */
	__u64 value[PCN_CLASSIFY_BRANCHES - 1];
};

/* Internal: a leaf has rules in their order; more of them are in the block `next`. Of each, the word
 * that tells most comes first: most rules are passed by without a look at their blocks. Where there
 * are fewer rules, what is left matches nothing. */
struct pcn_classify_leaf {
	__u32 next;
	__u8 word;
	__u8 zero;
	__u16 words; /* of the key, three bits for each rule */
	__u64 rules; /* references */
	__u64 value[PCN_CLASSIFY_LEAF];
	__u64 mask[PCN_CLASSIFY_LEAF];
};

/* Internal: limits of a group. */
#define PCN_CLASSIFY_COLUMNS 6
#define PCN_CLASSIFY_COLUMN_DEPTH 3
#define PCN_CLASSIFY_BITS 4

/* Internal: a group is up to 256 rules, which blocks of a leaf that follow each other from `rules` on
 * have. A column is branches on one field; they lead to half a block of bits, one for each rule of
 * the group that lies there. What all columns leave may match. */
struct pcn_classify_group {
	__u32 order; /* of its first rule */
	__u8 word;
	__u8 columns;
	__u16 count;
	__u32 rules;
	__u32 column[PCN_CLASSIFY_COLUMNS];
	__u32 unused[7];
};

/* Internal: leaves and groups of rules in their order, in the blocks from `first` on. */
struct pcn_classify_sequence {
	__u32 first;
	__u8 word;
	__u8 zero[3];
	__u32 count;
	__u32 unused[13];
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
	__u32 zero; /* tells a forest from a leaf */
	struct {
		__u32 root;
		__u32 order;
	} tree[PCN_CLASSIFY_TREES];
};

/* Internal: block 0 says where the forest is, or the leaf or group that has all rules; 0: there are
 * no rules. */
struct pcn_classify_head {
	__u32 forest;
	__u32 none; /* a place behind those of all rules */
	__u32 zero[14];
};

struct pcn_classify_block {
	union {
		struct pcn_classify_head head;
		struct pcn_classify_forest forest;
		struct pcn_classify_branch branch;
		struct pcn_classify_leaf leaf;
		struct pcn_classify_group group;
		struct pcn_classify_sequence sequence;
		__u64 bits[2][PCN_CLASSIFY_BITS];
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

/* Internal: the leaf, group or sequence of a tree that has what the key can match. */
PCN_INLINE struct pcn_classify_block *
pcn_classify_descend(void *set, const struct pcn_classify_key *key, __u32 *at)
{
#pragma clang loop unroll(disable)
	for (int depth = 0; depth <= PCN_CLASSIFY_DEPTH; depth++) {
		struct pcn_classify_block *block = pcn_classify_at(set, *at);

		if (!block)
			return NULL;
		__u64 word = block->branch.word;
		if (word >= PCN_CLASSIFY_WORDS)
			return block;
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
	__u32 at = reference & (PCN_CLASSIFY_LONG - 1);

	/* What is computed of the key is so each time: kept, it would take the stack. */
	asm volatile("" ::: "memory");
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

/* Internal: the bits of a column for a key. */
PCN_INLINE __u64 *pcn_classify_column(void *set, const struct pcn_classify_key *key, __u32 at)
{
#pragma clang loop unroll(disable)
	for (int depth = 0; depth < PCN_CLASSIFY_COLUMN_DEPTH; depth++) {
		struct pcn_classify_block *block = pcn_classify_at(set, at);

		if (!block)
			return NULL;
		__u64 word = block->branch.word;
		if (word >= PCN_CLASSIFY_WORDS)
			return NULL;
		at = pcn_classify_next(&block->branch, key, word);
		if (!block->branch.last)
			continue;
		block = pcn_classify_at(set, at >> 1);
		return block ? block->bits[at & 1] : NULL;
	}
	return NULL;
}

/* Internal: how many zero bits are below the lowest one of a number that is not 0. */
PCN_INLINE __u64 pcn_classify_lowest(__u64 x)
{
	x = (x & -x) - 1; /* as many ones as there were zeros, which are added up */
	x -= x >> 1 & 0x5555555555555555;
	x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return x * 0x0101010101010101 >> 56;
}

/* Internal: rules that a group tries; if none matches, the rest is searched one by one. */
#define PCN_CLASSIFY_TRIES 16

/* Internal: the first rule of the group at a block that matches. What is left: a block of a leaf, this
 * one if it is no group; 0: nothing. */
PCN_INLINE __u32 pcn_classify_columns(void *set, const struct pcn_classify_key *key, __u32 at,
				      struct pcn_classify_match *match)
{
	struct pcn_classify_block *first = pcn_classify_at(set, at);
	__u64 bits[PCN_CLASSIFY_BITS], x = 0, w = 0;

	if (!first || first->leaf.word != PCN_CLASSIFY_IS_GROUP)
		return at;
	const struct pcn_classify_group *group = &first->group;
	if (group->order > match->order)
		return 0;
	__u32 rules = group->rules;

	__builtin_memset(bits, 0xff, sizeof(bits));
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_COLUMNS && i < group->columns; i++) {
		__u64 *column = pcn_classify_column(set, key, group->column[i]);
		if (!column)
			return 0;
#pragma unroll
		for (int j = 0; j < PCN_CLASSIFY_BITS; j++)
			bits[j] &= column[j];
		/* They stay where they are: in registers, there would be no room for all. */
		asm volatile("" ::"r"(bits) : "memory");
		if (!(bits[0] | bits[1] | bits[2] | bits[3]))
			return 0;
	}
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_CLASSIFY_TRIES + PCN_CLASSIFY_BITS; i++) {
		if (!x) {
			if (w >= PCN_CLASSIFY_BITS)
				return 0;
			x = bits[w];
			w = pcn_opaque(w + 1, x);
			continue;
		}
		__u64 n = (w - 1) * 64 + pcn_classify_lowest(x), third = n * 43691 >> 17;
		struct pcn_classify_block *block = pcn_classify_at(set, rules + third);
		if (!block || n >= group->count)
			return 0;
		__u64 shift = (n - third * 3) * PCN_CLASSIFY_REFERENCE;
		struct pcn_classify_rule *rule =
			pcn_classify_try(set, key, block->leaf.rules >> (shift & 63));
		if (rule) {
			pcn_classify_found(match, rule);
			return 0;
		}
		x &= x - 1;
	}
	w = x ? (w - 1) * 64 + pcn_classify_lowest(x) : w * 64;
	return w < group->count ? rules + (w * 43691 >> 17) : 0;
}

/* Internal: the j-th rule of a block of a leaf becomes the match if it is what the key says: then 1. */
PCN_INLINE int pcn_classify_entry(void *set, const struct pcn_classify_key *key,
				  const struct pcn_classify_leaf *leaf, int j,
				  struct pcn_classify_match *match)
{
	if ((key->word[leaf->words >> 3 * j & 7] & leaf->mask[j]) != leaf->value[j])
		return 0;
	struct pcn_classify_rule *rule =
		pcn_classify_try(set, key, leaf->rules >> PCN_CLASSIFY_REFERENCE * j);
	if (!rule)
		return 0;
	pcn_classify_found(match, rule);
	return 1;
}

/* Internal: the rules of a block of a leaf. The block that is to follow, 0: none, or one matched. */
PCN_INLINE __u32 pcn_classify_entries(void *set, const struct pcn_classify_key *key,
				      const struct pcn_classify_leaf *leaf,
				      struct pcn_classify_match *match)
{
#pragma unroll
	for (int j = 0; j < PCN_CLASSIFY_LEAF; j++)
		if (pcn_classify_entry(set, key, leaf, j, match))
			return 0;
	return leaf->next;
}

/* Internal: blocks of a leaf that are searched without a call, and by one, before each takes one: the
 * verifier looks at each for itself. */
#define PCN_CLASSIFY_FAST_BLOCKS 1
#define PCN_CLASSIFY_LIST_BLOCKS 12

/* Internal: some blocks of a leaf. What is left: the block that is to follow, 0: none. */
PCN_INLINE __u32 pcn_classify_scan(void *set, const struct pcn_classify_key *key,
				   struct pcn_classify_block *block,
				   struct pcn_classify_match *match, __u32 blocks)
{
	__u32 at = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < blocks; i++) {
		at = pcn_classify_entries(set, key, &block->leaf, match);
		block = at ? pcn_classify_at(set, at) : NULL;
		if (!block)
			return 0;
	}
	return at;
}

/* Internal: what bpf_loop's turns are about. */
struct pcn_classify_walk {
	void *set;
	const struct pcn_classify_key *key;
	struct pcn_classify_match *match;
	__u64 at;
};

/* Internal: bpf_loop's turn: a block of a leaf. */
static long pcn_classify_turn(__u64 turn, struct pcn_classify_walk *walk)
{
	struct pcn_classify_block *block = pcn_classify_at(walk->set, walk->at);

	(void)turn;
	if (!block)
		return 1;
	walk->at = pcn_classify_entries(walk->set, walk->key, &block->leaf, walk->match);
	return !walk->at;
}

/* Internal: a leaf, from a block on. */
PCN_INLINE void pcn_classify_list(void *set, const struct pcn_classify_key *key, __u32 at,
				  struct pcn_classify_match *match)
{
	struct pcn_classify_block *block = pcn_classify_at(set, at);

	if (!block)
		return;
	struct pcn_classify_walk walk = { set, key, match, 0 };
	walk.at = pcn_classify_scan(set, key, block, match, PCN_CLASSIFY_LIST_BLOCKS);
	if (walk.at)
		bpf_loop(1 << 20, pcn_classify_turn, &walk, 0);
}

/* Internal: a function of a set: a group, or a leaf, at a block. */
typedef int (*pcn_classify_fn)(const struct pcn_classify_key *key, struct pcn_classify_match *match,
			       __u32 at);

/* Internal: the functions of a set. */
struct pcn_classify_fns {
	pcn_classify_fn group, list, sequence;
};

/* Internal: what is at the end of a tree, at a block. */
PCN_INLINE void pcn_classify_end(void *set, const struct pcn_classify_key *key,
				 struct pcn_classify_block *block, __u32 at,
				 struct pcn_classify_match *match, struct pcn_classify_fns fns,
				 __u32 blocks)
{
	if (block->leaf.word == PCN_CLASSIFY_IS_SEQUENCE) {
		fns.sequence(key, match, at);
		return;
	}
	if (block->leaf.word == PCN_CLASSIFY_IS_GROUP)
		at = fns.group(key, match, at);
	else
		at = pcn_classify_scan(set, key, block, match, blocks);
	if (at)
		fns.list(key, match, at);
}

/* Internal: pcn_classify in a set. */
PCN_INLINE int pcn_classify_search(void *set, const struct pcn_classify_key *key,
				   struct pcn_classify_match *match, struct pcn_classify_fns fns)
{
	struct pcn_classify_block *head = pcn_classify_at(set, 0);
	struct pcn_classify_block *block = head ? pcn_classify_at(set, head->head.forest) : NULL;

	if (!block || !head->head.forest)
		return 0;
	__u32 none = head->head.none;
	match->order = none;
	match->result = 0;
	if (block->leaf.word >= PCN_CLASSIFY_WORDS) {
		pcn_classify_end(set, key, block, head->head.forest, match, fns,
				 PCN_CLASSIFY_LIST_BLOCKS);
		return match->order != none;
	}
	struct pcn_classify_forest *forest = &block->forest;
	__u32 count = forest->count;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_TREES; i++) {
		if (i >= count || forest->tree[i].order > match->order)
			break;
		__u32 at = forest->tree[i].root;
		block = pcn_classify_descend(set, key, &at);
		if (!block)
			break;
		pcn_classify_end(set, key, block, at, match, fns, PCN_CLASSIFY_FAST_BLOCKS);
	}
	return match->order != none;
}

/* Internal: a sequence of a set. */
struct pcn_classify_row {
	const struct pcn_classify_key *key;
	struct pcn_classify_match *match;
	__u32 first;
	__u32 order; /* of the match before */
};

/* Internal: bpf_loop's turn: the next of a sequence. */
PCN_INLINE long pcn_classify_step(__u64 turn, struct pcn_classify_row *row,
				  struct pcn_classify_fns fns)
{
	__u32 at = fns.group(row->key, row->match, row->first + turn);

	if (at)
		fns.list(row->key, row->match, at);
	return row->match->order != row->order;
}

#endif
