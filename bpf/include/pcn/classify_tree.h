// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The search trees that Go package classifier compiles rules to, and the memory they are in. Include
 * <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_TREE_H
#define PCN_CLASSIFY_TREE_H

#include <pcn/classify_key.h>
#include <pcn/map.h>

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
	__u32 zero;
	__u64 unknown; /* any number: what the verifier must not know is combined with it */
	__u32 unused[4];
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

struct pcn_classify_block {
	union {
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

/* Internal: the memory of all sets consists of parts with this many blocks. A part is the only element
 * of an array, so a block is found by arithmetic: a reference beyond the end leads to another block
 * of the part, and needs no test. */
#define PCN_CLASSIFY_BLOCKS (1 << 18)
#define PCN_CLASSIFY_PARTS 1024
/* The map is declared with plain words: clang emits no type for a struct that only a map names. */
typedef __u64 pcn_classify_words[PCN_CLASSIFY_BLOCKS * 8];
struct pcn_classify_part {
	struct pcn_classify_block block[PCN_CLASSIFY_BLOCKS];
};

/* Internal: sets that a cube may have. */
#define PCN_CLASSIFY_SETS 8

/* Internal: where a set is, in one word so that it is replaced at once: its part in the upper half, the
 * block with its forest, leaf or group in the lower half; 0: it has no rules. */
struct pcn_classify_root {
	__u64 at;
	__u64 fields; /* enum pcn_classify_fields that its rules match */
};

PCN_MAP_OF_MAPS_SHARED(classify, classify_memory, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32,
		       PCN_CLASSIFY_PARTS, BPF_MAP_TYPE_ARRAY, __u32, pcn_classify_words, 1,
		       BPF_F_MMAPABLE);
/* Internal: where each set is. The element after the last set belongs to the control plane. */
PCN_MAP_SHARED_FLAGS(classify, classify_sets, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_classify_root,
		     1024 * PCN_CLASSIFY_SETS + 1, BPF_F_MMAPABLE);

/* Internal: returns a block of a part. */
PCN_INLINE struct pcn_classify_block *pcn_classify_at(void *memory, __u64 at)
{
	return memory + ((at & (PCN_CLASSIFY_BLOCKS - 1)) << 6);
}

/* Internal: the memory of a part, NULL if it does not exist. */
PCN_INLINE void *pcn_classify_memory(__u32 part)
{
	void *array = bpf_map_lookup_elem(&classify_memory, &part);
	__u32 only = 0;

	return array ? bpf_map_lookup_elem(array, &only) : NULL;
}

#endif
