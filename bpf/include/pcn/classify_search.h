// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The search in the trees that Go package classifier writes. Its parts are global functions that depend
 * on nothing of a cube, so a program has them once, and the verifier checks each of them once, however
 * many cubes search. Include <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_SEARCH_H
#define PCN_CLASSIFY_SEARCH_H

#include <pcn/classify_addresses.h>
#include <pcn/classify_bits.h>
#include <pcn/classify_key.h>
#include <pcn/classify_tree.h>

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
pcn_classify_descend(void *m, const struct pcn_classify_key *key, __u32 *at)
{
#pragma clang loop unroll(disable)
	for (int depth = 0; depth <= PCN_CLASSIFY_DEPTH; depth++) {
		struct pcn_classify_block *block = pcn_classify_at(m, *at);
		__u64 word = block->branch.word;

		if (word >= PCN_CLASSIFY_WORDS)
			return block;
		*at = pcn_classify_next(&block->branch, key, word);
	}
	return NULL;
}

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
	__u64 differs = pcn_classify_differs(pcn_classify_rule_at(m, reference), key);

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

/* Internal: the bits of a column that a key selects. */
PCN_INLINE __u64 *pcn_classify_column(void *m, const struct pcn_classify_key *key, __u32 at)
{
#pragma clang loop unroll(disable)
	for (int depth = 0; depth < PCN_CLASSIFY_COLUMN_DEPTH; depth++) {
		struct pcn_classify_block *block = pcn_classify_at(m, at);
		__u64 word = block->branch.word;

		if (word >= PCN_CLASSIFY_WORDS)
			return NULL;
		at = pcn_classify_next(&block->branch, key, word);
		if (block->branch.last)
			return pcn_classify_at(m, at >> 1)->bits[at & 1];
	}
	return NULL;
}

/* Internal: the state of a bpf_loop over the rules of a group that may match, whose bits are in the key. */
struct pcn_classify_tries {
	void *m;
	struct pcn_classify_key *key;
	struct pcn_classify_match *match;
	__u32 rules;
	__u32 count;
};

/* Internal: tests the first candidate. 1 if it matches, and then sets the count to 0, or if there is none. */
PCN_INLINE int pcn_classify_try(struct pcn_classify_tries *t)
{
	__u64 *left = t->key->left;

	if (!(left[0] | left[1] | left[2] | left[3]))
		return 1;
	__u64 n = pcn_classify_first(left), third = n * 43691 >> 17;
	__u64 shift = (n - third * 3) * PCN_CLASSIFY_REFERENCE;
	struct pcn_classify_block *block = pcn_classify_at(t->m, t->rules + third);

	if (n >= t->count)
		return 1;
	__u32 reference = block->leaf.rules >> (shift & 63);
	if (pcn_classify_misses(t->m, t->key, reference))
		return 0;
	pcn_classify_found(t->match, pcn_classify_rule_at(t->m, reference));
	t->count = 0;
	return 1;
}

/* Internal: an iteration of bpf_loop. */
static long pcn_classify_next_try(__u64 turn, struct pcn_classify_tries *t)
{
	(void)turn;
	return pcn_classify_try(t);
}

/* Internal: no block that is used. */
#define PCN_CLASSIFY_MATCHED 1

/* Internal: finds the first matching rule of the group in a block. Returns the block, if that is
 * not a group, PCN_CLASSIFY_MATCHED, or 0. If the block is a sequence, writes to the key which of its groups may
 * match, and returns 0 if none does. */
PCN_INLINE __u32 pcn_classify_columns(void *m, struct pcn_classify_key *key, __u32 at,
				      struct pcn_classify_match *match)
{
	struct pcn_classify_block *first = pcn_classify_at(m, at);

	if (first->leaf.word == PCN_CLASSIFY_IS_LEAF)
		return at;
	const struct pcn_classify_group *group = &first->group;
	if (group->order > match->order)
		return 0;
	__u64 *bits = key->left;

	bits[0] = bits[1] = bits[2] = bits[3] = ~0ull;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_COLUMNS && i < group->columns; i++) {
		__u64 *column = pcn_classify_column(m, key, group->column[i]);
		if (!column)
			return 0;
		/* Keep the bits where they are: there are not enough registers, nor stack for copies. */
		asm volatile("" ::"r"(bits) : "memory");
#pragma unroll
		for (int j = 0; j < PCN_CLASSIFY_BITS; j++)
			bits[j] &= column[j];
		asm volatile("" ::"r"(bits) : "memory");
		if (!(bits[0] | bits[1] | bits[2] | bits[3]))
			return 0;
	}
	if (first->leaf.word == PCN_CLASSIFY_IS_SEQUENCE) {
#pragma unroll
		for (int j = 0; j < PCN_CLASSIFY_BITS; j++)
			key->groups[j] = bits[j];
		return at;
	}
	struct pcn_classify_tries t = {
		.m = m, .key = key, .match = match, .rules = group->first, .count = group->count
	};
	if (!pcn_classify_try(&t))
		bpf_loop(t.count, pcn_classify_next_try, &t, 0);
	return t.count ? 0 : PCN_CLASSIFY_MATCHED;
}

/* Internal: makes the j-th rule of a leaf block the match and returns 1, if it matches the key. */
PCN_INLINE int pcn_classify_entry(void *m, const struct pcn_classify_key *key,
				  const struct pcn_classify_leaf *leaf, int j,
				  struct pcn_classify_match *match)
{
	if ((key->word[leaf->words >> 3 * j & 7] & leaf->mask[j]) != leaf->value[j])
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

/* Internal: what is searched without a call: the first trees; leaf blocks in the very first, and in each
 * of the others. The verifier checks all of them one by one. Of a list, some blocks are searched without
 * bpf_loop, whose iterations take some at a time. */
#define PCN_CLASSIFY_FAST_TREES 3
#define PCN_CLASSIFY_FIRST_BLOCKS 4
#define PCN_CLASSIFY_FAST_BLOCKS 2
#define PCN_CLASSIFY_LIST_BLOCKS 7
#define PCN_CLASSIFY_LOOP_BLOCKS 3

/* Internal: tests the rules of some leaf blocks. Returns the next block, or 0 if there is none. */
PCN_INLINE __u32 pcn_classify_scan(void *m, const struct pcn_classify_key *key, __u32 at,
				   struct pcn_classify_match *match, __u32 blocks)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < blocks; i++) {
		at = pcn_classify_entries(m, key, &pcn_classify_at(m, at)->leaf, match);
		if (!at)
			return 0;
	}
	return at;
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
	at = pcn_classify_scan(m, key, at, match, PCN_CLASSIFY_LIST_BLOCKS);
	if (!at)
		return 0;
	struct pcn_classify_walk walk = { at, m, key, match };

	bpf_loop(1 << 20, pcn_classify_turn, &walk, 0);
	return 0;
}

/* Internal: searches the group in a block, and returns what pcn_classify_columns does. */
PCN_GLOBAL int pcn_classify_group_at(struct pcn_classify_part *m PCN_NONNULL,
				     struct pcn_classify_key *key PCN_NONNULL,
				     struct pcn_classify_match *match PCN_NONNULL, __u32 at)
{
	return pcn_classify_columns(m, key, at, match);
}

/* Internal: the state of a bpf_loop over a sequence. */
struct pcn_classify_row {
	struct pcn_classify_part *m;
	struct pcn_classify_key *key;
	struct pcn_classify_match *match;
	__u32 at;   /* its block */
	__u32 next; /* number of the next element */
};

/* Internal: elements of a sequence that an iteration of bpf_loop searches. */
#define PCN_CLASSIFY_STEPS 8

/* Internal: an iteration of bpf_loop: the next elements of a sequence. */
static long pcn_classify_step(__u64 turn, struct pcn_classify_row *row)
{
	const struct pcn_classify_group *s = &pcn_classify_at(row->m, row->at)->group;

	(void)turn;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_STEPS; i++) {
		__u32 next = row->next++, at, bit = next << (s->shift & 31);

		if (next >= s->count)
			return 1;
		if (!(row->key->groups[bit >> 6 & (PCN_CLASSIFY_BITS - 1)] >> (bit & 63) & s->mask))
			continue;
		at = pcn_classify_group_at(row->m, row->key, row->match, s->first + next);
		if (at == PCN_CLASSIFY_MATCHED)
			return 1;
		/* What follows a rule that matches in a list cannot replace it, so going on does no harm. */
		if (at)
			pcn_classify_list_at(row->m, row->key, row->match, at);
	}
	return 0;
}

/* Internal: searches the sequence in a block. */
PCN_GLOBAL int pcn_classify_sequence_at(struct pcn_classify_part *m PCN_NONNULL,
					struct pcn_classify_key *key PCN_NONNULL,
					struct pcn_classify_match *match PCN_NONNULL, __u32 at)
{
	struct pcn_classify_row row = { m, key, match, at, 1 }, *r = &row;

	asm volatile(
		""
		: "+r"(r)::"memory"); /* all is there, so nothing is kept elsewhere on the stack */
	/* Most packets match a rule of the first group. */
	at = pcn_classify_group_at(r->m, r->key, r->match,
				   pcn_classify_at(r->m, r->at)->group.first);
	if (at == PCN_CLASSIFY_MATCHED)
		return 0;
	if (at)
		pcn_classify_list_at(r->m, r->key, r->match, at);
	if (pcn_classify_group_at(r->m, r->key, r->match, r->at))
		bpf_loop(pcn_classify_at(r->m, r->at)->group.count, pcn_classify_step, r, 0);
	return 0;
}

/* Internal: searches a tree, starting at a block, as far as that needs no call. Returns the block where
 * the search continues, or 0. */
PCN_INLINE __u32 pcn_classify_walk_tree(void *m, const struct pcn_classify_key *key,
					struct pcn_classify_match *match, __u32 at, __u32 blocks)
{
	struct pcn_classify_block *block = pcn_classify_descend(m, key, &at);

	if (!block)
		return 0;
	if (block->leaf.word != PCN_CLASSIFY_IS_LEAF)
		return at;
	return pcn_classify_scan(m, key, at, match, blocks);
}

/* Internal: searches what pcn_classify_walk_tree has left. */
PCN_INLINE void pcn_classify_rest(struct pcn_classify_part *m, struct pcn_classify_key *key,
				  struct pcn_classify_match *match, __u32 at)
{
	__u8 word = pcn_classify_at(m, at)->leaf.word;

	if (word == PCN_CLASSIFY_IS_SEQUENCE)
		pcn_classify_sequence_at(m, key, match, at);
	else if (word == PCN_CLASSIFY_IS_GROUP)
		pcn_classify_group_at(m, key, match, at);
	else
		pcn_classify_list_at(m, key, match, at);
}

/* Internal: searches a tree. Returns what pcn_classify_walk_tree returns: the caller searches the rest,
 * so that there are few functions above those that need much of the stack. */
PCN_GLOBAL int pcn_classify_tree_at(struct pcn_classify_part *m PCN_NONNULL,
				    const struct pcn_classify_key *key PCN_NONNULL,
				    struct pcn_classify_match *match PCN_NONNULL, __u32 at)
{
	return pcn_classify_walk_tree(m, key, match, at, PCN_CLASSIFY_FAST_BLOCKS);
}

/* Internal: the trees that remain to be searched. It takes the place on the stack of the flow that was read
 * before. */
struct pcn_classify_trees {
	const struct pcn_classify_forest *forest;
	__u64 count;
	__u64 i; /* the next one; in a word of its own, so that the verifier knows it */
};

/* Internal: pcn_classify, inline, for a set's root. */
PCN_INLINE int pcn_classify_search(struct pcn_classify_key *key, struct pcn_classify_match *match,
				   const struct pcn_classify_root *root)
{
	__u64 where = root ? root->at : 0;
	__u32 part = where >> 32, at = where, none = -1;
	void *m = at ? pcn_classify_memory(part) : NULL;

	match->order = none;
	match->result = 0;
	if (!m)
		return 0;
	if (at & PCN_CLASSIFY_HAS_USED)
		pcn_classify_sets_of(m, key, at);
	const struct pcn_classify_block *block = pcn_classify_at(m, at);
	struct pcn_classify_trees t = { .forest = &block->forest, .count = 1 };
	if (!block->leaf.word) {
		t.count = t.forest->count;
		at = t.forest->tree[0].root;
	}
	asm volatile("" ::"r"(&t) : "memory"); /* not in registers, which would be spilled */
	at = pcn_classify_walk_tree(m, key, match, at, PCN_CLASSIFY_FIRST_BLOCKS);
	if (at)
		pcn_classify_rest(m, key, match, at);
#pragma clang loop unroll(disable)
	for (t.i = 1; t.i < PCN_CLASSIFY_TREES; t.i++) {
		if (t.i >= t.count || t.forest->tree[t.i].order > match->order)
			break;
		at = t.forest->tree[t.i].root;
		if (t.i < PCN_CLASSIFY_FAST_TREES)
			at = pcn_classify_walk_tree(m, key, match, at, PCN_CLASSIFY_FAST_BLOCKS);
		else
			at = pcn_classify_tree_at(m, key, match, at);
		if (at)
			pcn_classify_rest(m, key, match, at);
	}
	return match->order != none;
}
/* Finds the first rule of a set (pcn_classify_set) that matches a key: 1 and the match, or 0. */
PCN_GLOBAL int pcn_classify(struct pcn_classify_key *key PCN_NONNULL,
			    struct pcn_classify_match *match PCN_NONNULL, __u32 set)
{
	return pcn_classify_search(key, match, bpf_map_lookup_elem(&classify_sets, &set));
}

/* Internal: pcn_classify_packet, with what the key has of the metadata. The key is not its own, so that the
 * verifier knows nothing of it, and checks the search once. */
PCN_GLOBAL int pcn_classify_both(struct CTXTYPE *ctx, struct pcn_classify_key *key PCN_NONNULL,
				 struct pcn_classify_match *match PCN_NONNULL, __u32 set)
{
	const struct pcn_classify_root *root = bpf_map_lookup_elem(&classify_sets, &set);
	__u32 in_port = key->word[PCN_CLASSIFY_LINK], mark = key->word[PCN_CLASSIFY_MARK];

	if (pcn_classify_fill(ctx, key, root ? root->fields : 0, in_port, mark))
		return -1;
	return pcn_classify_search(key, match, root);
}

/* Finds the first rule of a set that matches a packet: pcn_classify_read and pcn_classify in one call, which
 * is faster. Returns 1 and the match, 0 if no rule matches, or -1 if there is no Ethernet header.
 * Invalidates packet pointers that were read before. */
PCN_INLINE int pcn_classify_packet(struct CTXTYPE *ctx, const struct pcn_md *md,
				   struct pcn_classify_match *match, __u32 set)
{
	struct pcn_classify_key *key = pcn_classify_key();

	if (!key)
		return -1;
	key->word[PCN_CLASSIFY_LINK] = md->in_port;
	key->word[PCN_CLASSIFY_MARK] = md->traffic_class;
	return pcn_classify_both(ctx, key, match, set);
}

#endif
