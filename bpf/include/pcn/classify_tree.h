// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The search trees that Go package classifier compiles rules to, and the search in them. Include
 * <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_TREE_H
#define PCN_CLASSIFY_TREE_H

#include <pcn/classify_key.h>

/* The rule that matched. */
struct pcn_classify_match {
	__u32 result; /* the value that the control plane assigned to the rule */
	__u32 order;  /* its position among the rules */
};

/* Internal: limits, which Go package classifier knows: ways of a branch, rules in a leaf block,
 * trees in a set, branches from the root to a leaf. */
#define PCN_CLASSIFY_BRANCHES 8
#define PCN_CLASSIFY_LEAF 3
#define PCN_CLASSIFY_TREES 7
#define PCN_CLASSIFY_DEPTH 12
/* Internal: values of a branch's word that mean a leaf, a group or a sequence instead. */
#define PCN_CLASSIFY_IS_LEAF PCN_CLASSIFY_WORDS
#define PCN_CLASSIFY_IS_GROUP (PCN_CLASSIFY_WORDS + 1)
#define PCN_CLASSIFY_IS_SEQUENCE (PCN_CLASSIFY_WORDS + 2)
/* Internal: a reference to a rule: its block, and whether it matches more than the first four
 * words. */
#define PCN_CLASSIFY_REFERENCE 21
#define PCN_CLASSIFY_LONG (1 << 20)

/* Internal: a set of rules consists of blocks of one cache line each. A branch extracts a field
 * from a word of the key by two shifts, and leads to one of the blocks starting at `first`: the
 * i-th if i of the values are less than the field. */
struct pcn_classify_branch {
	__u32 first;
	__u8 word; /* of the key; PCN_CLASSIFY_IS_...: not a branch */
	__u8 left;
	__u8 right;
	__u8 last; /* in a column: `first` counts half blocks, of bits */
	__u64 value[PCN_CLASSIFY_BRANCHES - 1];
};

/* Internal: a leaf contains rules in order; further rules are in the block `next`. For each rule
 * the most selective word comes first: most rules are skipped without reading their blocks. Unused
 * entries match nothing. */
struct pcn_classify_leaf {
	__u32 next;
	__u8 word;
	__u8 zero;
	__u16 words; /* of the key, three bits per rule */
	__u64 rules; /* references */
	__u64 value[PCN_CLASSIFY_LEAF];
	__u64 mask[PCN_CLASSIFY_LEAF];
};

/* Internal: limits of a group. */
#define PCN_CLASSIFY_COLUMNS 6
#define PCN_CLASSIFY_COLUMN_DEPTH 3
#define PCN_CLASSIFY_BITS 4

/* Internal: a group contains up to 256 rules, stored in consecutive leaf blocks starting at
 * `rules`. A column is a tree of branches on one field; they lead to half a block of bits, one for
 * each rule of the group, set if the rule may match. Rules that remain in all columns may match. */
struct pcn_classify_group {
	__u32 order; /* of the first rule in it */
	__u8 word;
	__u8 columns;
	__u16 count;
	__u32 rules;
	__u32 column[PCN_CLASSIFY_COLUMNS];
	__u32 unused[7];
};

/* Internal: leaves and groups of rules in order, in consecutive blocks starting at `first`. */
struct pcn_classify_sequence {
	__u32 first;
	__u8 word;
	__u8 zero[3];
	__u32 count;
	__u32 unused[13];
};

/* Internal: a rule is a value and a mask for each word, except for ports, which are the first port
 * and the number of ports after it. A LONG rule is followed by two struct pcn_classify_more. */
struct pcn_classify_rule {
	__u64 value[3];
	__u64 mask[3];
	__u16 source, sources;
	__u16 destination, destinations;
	__u32 order;
	__u32 result;
};

/* Internal: values and masks of three more words: the rest of the ports word, and the words after
 * it. */
struct pcn_classify_more {
	__u64 value[3];
	__u64 mask[3];
	__u64 zero[2];
};

/* Internal: the trees of a set, in the order of the first rule in each. */
struct pcn_classify_forest {
	__u32 count;
	__u32 zero; /* distinguishes a forest from a leaf */
	struct {
		__u32 root;
		__u32 order;
	} tree[PCN_CLASSIFY_TREES];
};

/* Internal: block 0 refers to the forest, or to the leaf or group that contains all rules; 0: there
 * are no rules. */
struct pcn_classify_head {
	__u32 forest;
	__u32 none; /* a position after all rules */
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

/* Internal: a block for the declaration of a map. If a struct is only used there, clang emits no
 * size for it. */
typedef __u64 pcn_classify_bytes[8];

/* Internal: returns a block of a set. */
PCN_INLINE struct pcn_classify_block *pcn_classify_at(void *set, __u32 at)
{
	return bpf_map_lookup_elem(set, &at);
}

/* Internal: the block that a branch selects for a key. */
PCN_INLINE __u32 pcn_classify_next(const struct pcn_classify_branch *branch,
				   const struct pcn_classify_key *key, __u64 word)
{
	/* Both are less than 2^63, so the sign of the difference tells which is less. */
	__u64 field = key->word[word] << (branch->left & 63) >> (branch->right & 63);
	__u32 at = branch->first;

#pragma unroll
	for (int i = 0; i < PCN_CLASSIFY_BRANCHES - 1; i++)
		at += (branch->value[i] - field) >> 63;
	return at;
}

/* Internal: walks down a tree to the leaf, group or sequence for the key. */
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

/* Internal: 0 if the remaining words of a key match a rule. */
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

/* Internal: returns the rule if it matches the key, else NULL. It uses a single branch: which part
 * differs is unpredictable, and each branch would double the verifier's work per rule. */
PCN_INLINE struct pcn_classify_rule *pcn_classify_try(void *set, const struct pcn_classify_key *key,
						      __u32 reference)
{
	__u32 at = reference & (PCN_CLASSIFY_LONG - 1);

	/* Recompute what depends on the key each time: keeping it would use stack. */
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

/* Internal: makes a rule the match if it precedes the match so far. */
PCN_INLINE void pcn_classify_found(struct pcn_classify_match *match,
				   const struct pcn_classify_rule *rule)
{
	if (rule->order >= match->order)
		return;
	match->order = rule->order;
	match->result = rule->result;
}

/* Internal: the bits of a column that a key selects. */
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

/* Internal: the number of trailing zero bits of a non-zero number. */
PCN_INLINE __u64 pcn_classify_lowest(__u64 x)
{
	x = (x & -x) - 1; /* one bit set for each trailing zero; count them */
	x -= x >> 1 & 0x5555555555555555;
	x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return x * 0x0101010101010101 >> 56;
}

/* Internal: the number of rules that a group tests; if none matches, the rest is searched one by
 * one. */
#define PCN_CLASSIFY_TRIES 16

/* Internal: finds the first matching rule of the group in a block. Returns the leaf block where the
 * search must continue (this block, if it is not a group), or 0. */
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
		/* Keep them on the stack: there are not enough registers. */
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

/* Internal: makes the j-th rule of a leaf block the match and returns 1, if it matches the key. */
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

/* Internal: tests the rules of a leaf block. Returns the next block, or 0 if there is none or a
 * rule matched. */
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

/* Internal: leaf blocks that are searched inline, and by one call, before bpf_loop: the verifier
 * checks each of them. */
#define PCN_CLASSIFY_FAST_BLOCKS 1
#define PCN_CLASSIFY_LIST_BLOCKS 12

/* Internal: tests the rules of some leaf blocks. Returns the next block, or 0 if there is none. */
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

/* Internal: the state of a bpf_loop over leaf blocks. */
struct pcn_classify_walk {
	void *set;
	const struct pcn_classify_key *key;
	struct pcn_classify_match *match;
	__u64 at;
};

/* Internal: an iteration of bpf_loop: one leaf block. */
static long pcn_classify_turn(__u64 turn, struct pcn_classify_walk *walk)
{
	struct pcn_classify_block *block = pcn_classify_at(walk->set, walk->at);

	(void)turn;
	if (!block)
		return 1;
	walk->at = pcn_classify_entries(walk->set, walk->key, &block->leaf, walk->match);
	return !walk->at;
}

/* Internal: searches a leaf, starting at a block. */
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

/* Internal: a function that searches a group, leaf or sequence of a set, at a block. */
typedef int (*pcn_classify_fn)(const struct pcn_classify_key *key, struct pcn_classify_match *match,
			       __u32 at);

/* Internal: the functions of a set. */
struct pcn_classify_fns {
	pcn_classify_fn group, list, sequence;
};

/* Internal: searches the leaf, group or sequence at the end of a tree. */
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

/* Internal: searches a set. */
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

/* Internal: the state of a bpf_loop over a sequence. */
struct pcn_classify_row {
	const struct pcn_classify_key *key;
	struct pcn_classify_match *match;
	__u32 first;
	__u32 order; /* of the match so far */
};

/* Internal: an iteration of bpf_loop: the next element of a sequence. */
PCN_INLINE long pcn_classify_step(__u64 turn, struct pcn_classify_row *row,
				  struct pcn_classify_fns fns)
{
	__u32 at = fns.group(row->key, row->match, row->first + turn);

	if (at)
		fns.list(row->key, row->match, at);
	return row->match->order != row->order;
}

#endif
