// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Groups of rules that branches do not divide well, and sequences of groups. Include <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_GROUP_H
#define PCN_CLASSIFY_GROUP_H

#include <pcn/classify_bits.h>
#include <pcn/classify_key.h>
#include <pcn/classify_leaf.h>
#include <pcn/classify_tree.h>

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
	PCN_CLASSIFY_CHECKPOINT();
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
	const struct pcn_classify_group *group = &first->group; /* or a sequence */
	if (first->leaf.word == PCN_CLASSIFY_IS_GROUP && group->order > match->order)
		return 0;
	__u64 *bits = key->left;

	bits[0] = bits[1] = bits[2] = bits[3] = ~0ull;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_COLUMNS && i < group->columns; i++) {
		__u64 *column = pcn_classify_column(m, key, group->column[i]);
		if (!column)
			return 0;
		PCN_CLASSIFY_CHECKPOINT();
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
		.m = m, .key = key, .match = match, .rules = group->rules, .count = group->count
	};
	if (!pcn_classify_try(&t))
		bpf_loop(t.count, pcn_classify_next_try, &t, 0);
	return t.count ? 0 : PCN_CLASSIFY_MATCHED;
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
#define PCN_CLASSIFY_STEPS 4

/* Internal: an iteration of bpf_loop: the next elements of a sequence. */
static long pcn_classify_step(__u64 turn, struct pcn_classify_row *row)
{
	const struct pcn_classify_sequence *s = &pcn_classify_at(row->m, row->at)->sequence;

	(void)turn;
#pragma unroll
	for (__u32 i = 0; i < PCN_CLASSIFY_STEPS; i++) {
		PCN_CLASSIFY_CHECKPOINT();
		__u32 next = row->next++, at, bit = next << (s->shift & 31);

		if (next >= s->count)
			return 1;
		if (s->mask &&
		    !(row->key->groups[bit >> 6 & (PCN_CLASSIFY_BITS - 1)] >> (bit & 63) & s->mask))
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
				   pcn_classify_at(r->m, r->at)->sequence.first);
	if (at == PCN_CLASSIFY_MATCHED)
		return 0;
	if (at)
		pcn_classify_list_at(r->m, r->key, r->match, at);
	if (!pcn_classify_at(r->m, r->at)->sequence.mask ||
	    pcn_classify_group_at(r->m, r->key, r->match, r->at))
		bpf_loop(pcn_classify_at(r->m, r->at)->sequence.count, pcn_classify_step, r, 0);
	return 0;
}

#endif
