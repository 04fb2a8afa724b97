// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The search in the trees that Go package classifier writes. Its parts are global functions that depend
 * on nothing of a cube, so a program has them once, and the verifier checks each of them once, however
 * many cubes search. Include <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_SEARCH_H
#define PCN_CLASSIFY_SEARCH_H

#include <pcn/classify_addresses.h>
#include <pcn/classify_group.h>
#include <pcn/classify_key.h>
#include <pcn/classify_leaf.h>
#include <pcn/classify_tree.h>

/* Internal: trees that are searched without a call. */
#define PCN_CLASSIFY_FAST_TREES 3

/* Internal: walks down a tree to the leaf, group or sequence for the key, or half of the longest way. */
PCN_INLINE struct pcn_classify_block *
pcn_classify_descend(void *m, const struct pcn_classify_key *key, __u32 *at)
{
	struct pcn_classify_block *block = pcn_classify_at(m, *at);

#pragma clang loop unroll(disable)
	for (int depth = 0; depth < PCN_CLASSIFY_DEPTH / 2; depth++) {
		__u64 word = block->branch.word;

		if (word >= PCN_CLASSIFY_WORDS)
			break;
		*at = pcn_classify_next(&block->branch, key, word);
		block = pcn_classify_at(m, *at);
	}
	return block;
}

/* Internal: searches a tree, starting at a block, as far as that needs no call. Returns the block where
 * the search continues, or 0. */
PCN_INLINE __u32 pcn_classify_walk_tree(void *m, const struct pcn_classify_key *key,
					struct pcn_classify_match *match, __u32 at, __u32 blocks)
{
	struct pcn_classify_block *block = pcn_classify_at(m, at);

	if (block->leaf.word == PCN_CLASSIFY_IS_HASH)
		at = pcn_classify_hashed(m, key, &block->hash);
	/* Linux takes a call to read all registers for arguments: this one, too, has a value on all ways. */
	asm volatile("r5 = 0" ::: "r5");
	PCN_CLASSIFY_CHECKPOINT();
	block = pcn_classify_descend(m, key, &at);
	PCN_CLASSIFY_CHECKPOINT();

	if (block->leaf.word != PCN_CLASSIFY_IS_LEAF)
		return at;
	return pcn_classify_scan(m, key, at, match, blocks);
}

/* Internal: searches a tree. Returns what pcn_classify_walk_tree returns: the caller searches the rest,
 * so that there are few functions above those that need much of the stack. */
PCN_GLOBAL int pcn_classify_tree_at(struct pcn_classify_part *m PCN_NONNULL,
				    const struct pcn_classify_key *key PCN_NONNULL,
				    struct pcn_classify_match *match PCN_NONNULL, __u32 at)
{
	return pcn_classify_walk_tree(m, key, match, at, PCN_CLASSIFY_FAST_BLOCKS);
}

/* Internal: searches what pcn_classify_walk_tree has left. */
PCN_INLINE void pcn_classify_rest(struct pcn_classify_part *m, struct pcn_classify_key *key,
				  struct pcn_classify_match *match, __u32 at)
{
	__u8 word = pcn_classify_at(m, at)->leaf.word;

	if (word < PCN_CLASSIFY_WORDS) { /* the other half of a long way */
		at = pcn_classify_tree_at(m, key, match, at);
		if (!at)
			return;
		word = pcn_classify_at(m, at)->leaf.word;
	}
	if (word == PCN_CLASSIFY_IS_SEQUENCE)
		pcn_classify_sequence_at(m, key, match, at);
	else if (word == PCN_CLASSIFY_IS_GROUP)
		pcn_classify_group_at(m, key, match, at);
	else if (word == PCN_CLASSIFY_IS_LEAF)
		pcn_classify_list_at(m, key, match, at);
}

/* Internal: the trees that remain to be searched. It takes the place on the stack of the flow that was read
 * before. */
struct pcn_classify_trees {
	const struct pcn_classify_forest *forest;
	__u64 i; /* the next one; in a word of its own, so that the verifier knows it */
};

/* Internal: pcn_classify, inline, for a set's root. */
PCN_INLINE int pcn_classify_search(struct pcn_classify_key *key, struct pcn_classify_match *match,
				   const struct pcn_classify_root *root)
{
	__u64 where = root ? root->at : 0;
	__u32 part = where >> 32, at = where & (PCN_CLASSIFY_BLOCKS - 1), none = -1;
	void *m = where ? pcn_classify_memory(part) : NULL;

	match->order = none;
	match->result = 0;
	if (!m)
		return 0;
	if (where & PCN_CLASSIFY_HAS_USED)
		pcn_classify_sets_of(m, key, at);
	const struct pcn_classify_block *block = pcn_classify_at(m, at);
	struct pcn_classify_trees t = { .forest = &block->forest };
	/* In the memory of the key, so that the verifier follows what comes next once for both. */
	key->trees = 1;
	if (!block->leaf.word) {
		key->trees = t.forest->count;
		if (!t.forest->count)
			return 0;
		at = t.forest->tree[0].root;
	}
	asm volatile("" ::"r"(&t) : "memory"); /* not in registers, which would be spilled */
	PCN_CLASSIFY_CHECKPOINT();
	at = pcn_classify_walk_tree(m, key, match, at, PCN_CLASSIFY_FIRST_BLOCKS);
	if (at && pcn_classify_at(m, at)->leaf.word == PCN_CLASSIFY_IS_LEAF)
		at = pcn_classify_scan_short(m, key, at, match, PCN_CLASSIFY_MORE_BLOCKS);
	if (at)
		pcn_classify_rest(m, key, match, at);
#pragma clang loop unroll(disable)
	for (t.i = 1; t.i < PCN_CLASSIFY_TREES; t.i++) {
		if (t.i >= key->trees || t.forest->tree[t.i].order > match->order)
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

/* Makes the next search for a key begin after a match, for rules that do not decide, but count or log. Search until no
 * rule matches. */
PCN_INLINE void pcn_classify_after(struct pcn_classify_key *key,
				   const struct pcn_classify_match *match)
{
	key->from = (__u64)match->order + 1;
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
