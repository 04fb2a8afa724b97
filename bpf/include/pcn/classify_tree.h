// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The search trees that Go package classifier compiles rules to, and the memory they are in. Include
 * <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_TREE_H
#define PCN_CLASSIFY_TREE_H

#include <pcn/classify_key.h>
#include <pcn/classify_memory.h>

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
/* Internal: values of a branch's word that mean a leaf, a group, a sequence or a hash table instead. */
#define PCN_CLASSIFY_IS_LEAF PCN_CLASSIFY_WORDS
#define PCN_CLASSIFY_IS_GROUP (PCN_CLASSIFY_WORDS + 1)
#define PCN_CLASSIFY_IS_SEQUENCE (PCN_CLASSIFY_WORDS + 2)
#define PCN_CLASSIFY_IS_HASH (PCN_CLASSIFY_WORDS + 3)
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

/* Internal: leaves and groups of rules in order, in consecutive blocks starting at `first`. The columns are
 * where a group has them. Their bits tell which of the elements may have a rule that matches: each has
 * `mask`, at its number shifted left by `shift`, modulo 256. Without columns, `mask` is 0. */
struct pcn_classify_sequence {
	__u32 first;
	__u8 word;
	__u8 columns;
	__u16 zero;
	__u32 count;
	__u32 column[PCN_CLASSIFY_COLUMNS];
	__u32 shift;
	__u32 mask;
	__u32 unused[5];
};

/* Internal: the root of a tree of rules that all match the same bits of the first six words: a hash of these leads to a
 * leaf. Pages of slots refer to leaves, and `pages` is the first block of the references to pages, in order. A slot
 * without rules refers to a leaf without rules. */
#define PCN_CLASSIFY_HASH_WORDS 6
struct pcn_classify_hash {
	__u32 pages;
	__u8 word;
	__u8 shift; /* of the hash: what remains is the number of a slot */
	__u8 page;  /* binary logarithm of the slots of a page */
	__u8 zero;
	__u64 mask[PCN_CLASSIFY_HASH_WORDS];
	__u64 unused;
};

/* Internal: a rule is a value and a mask for each word, except for ports, which are the first port
 * and the number of ports after it. A LONG rule is followed by two struct pcn_classify_more, and then
 * by its exceptions, which are LONG rules without order and result. */
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
	__u64 exception; /* block of the next one of the rule, in the second of these; 0: none */
	__u64 zero;
};

/* Internal: exceptions that a rule may have. */
#define PCN_CLASSIFY_EXCEPTIONS 16

/* Internal: the trees of a set, in the order of the first rule in each. */
struct pcn_classify_forest {
	__u32 count;
	__u32 zero; /* distinguishes a forest from a leaf */
	struct {
		__u32 root;
		__u32 order;
	} tree[PCN_CLASSIFY_TREES];
};

/* Internal: a node of a trie of prefixes: references to what follows for each value of a nibble; 0: nothing. */
struct pcn_classify_node {
	__u32 child[16];
};

/* Internal: a prefix, as the halves of an IPv6 address; of IPv4, the upper half begins with it. */
struct pcn_classify_prefix {
	__u64 value[2];
	__u64 mask[2];
};

/* Internal: the tries of a set of addresses. */
struct pcn_classify_address_tries {
	__u32 ipv4, ipv6;
};

/* Internal: sets of addresses that the rules of a set match, those of source and of destination addresses
 * counted apart: each is the number of the set, a bit for destinations, and the number of its bit in the
 * key, in the order of sets. They are in the block before the forest if the reference to that has
 * PCN_CLASSIFY_HAS_USED. */
#define PCN_CLASSIFY_USED_SETS 32
#define PCN_CLASSIFY_OF_DESTINATION (1 << 10)
#define PCN_CLASSIFY_BIT 11
#define PCN_CLASSIFY_HAS_USED (1u << 31)

struct pcn_classify_block {
	union {
		struct pcn_classify_forest forest;
		struct pcn_classify_branch branch;
		struct pcn_classify_leaf leaf;
		struct pcn_classify_group group;
		struct pcn_classify_sequence sequence;
		struct pcn_classify_hash hash;
		__u64 bits[2][PCN_CLASSIFY_BITS];
		struct pcn_classify_rule rule;
		struct pcn_classify_more more;
		struct pcn_classify_node node;
		struct pcn_classify_prefix prefix;
		struct pcn_classify_address_tries tries;
		__u16 used[PCN_CLASSIFY_USED_SETS];
	};
};

_Static_assert(sizeof(struct pcn_classify_block) == 64, "a block is a cache line");

/* Internal: a part of the memory. */
struct pcn_classify_part {
	struct pcn_classify_block block[PCN_CLASSIFY_BLOCKS];
};

/* Internal: returns a block of a part. */
PCN_INLINE struct pcn_classify_block *pcn_classify_at(void *memory, __u64 at)
{
	return memory + ((at & (PCN_CLASSIFY_BLOCKS - 1)) << 6);
}

/* Internal: the verifier remembers its state here, so that it follows what comes next once, whichever way it
 * came. It does so only where it has seen two jumps, of which this is one. The kernel cuts each of these jumps
 * out again when it loads the program, which takes time in proportion to the program's size: not one for
 * each rule of a block. */
#define PCN_CLASSIFY_CHECKPOINT() asm volatile("goto +0")

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

/* Internal: the i-th of the references in blocks from `first` on. */
PCN_INLINE __u32 pcn_classify_referred(void *memory, __u64 first, __u64 i)
{
	__u64 at = (first << 4) + i;

	return *(__u32 *)(memory + ((at & (PCN_CLASSIFY_BLOCKS * 16 - 1)) << 2));
}

/* Internal: the leaf that a hash table has for a key. In Go: hash.slot. */
PCN_INLINE __u32 pcn_classify_hashed(void *m, const struct pcn_classify_key *key,
				     const struct pcn_classify_hash *h)
{
	__u64 sum = (key->word[0] & h->mask[0]) * 0x9e3779b97f4a7c15ULL +
		    (key->word[1] & h->mask[1]) * 0xc2b2ae3d27d4eb4fULL +
		    (key->word[2] & h->mask[2]) * 0xd6e8feb86659fd93ULL +
		    (key->word[3] & h->mask[3]) * 0xa0761d6478bd642fULL +
		    (key->word[4] & h->mask[4]) * 0x8ebc6af09c88c6e3ULL +
		    (key->word[5] & h->mask[5]) * 0x589965cc75374cc3ULL;
	__u64 slot = ((sum ^ sum >> 32) * 0xe7037ed1a0b428dbULL) >> (h->shift & 63);
	__u32 page = pcn_classify_referred(m, h->pages, slot >> (h->page & 63));

	return pcn_classify_referred(m, page, slot & ((1ULL << (h->page & 63)) - 1));
}

#endif
