// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The memory of all sets of rules and of addresses, which Go package classifier writes. A program that
 * searches includes <pcn/classify.h>; one whose cube only has a set of addresses includes this. */
#ifndef PCN_CLASSIFY_MEMORY_H
#define PCN_CLASSIFY_MEMORY_H

#include <pcn/map.h>

/* Internal: the memory of all sets consists of parts with this many blocks. A part is the only element
 * of an array, so a block is found by arithmetic: a reference beyond the end leads to another block
 * of the part, and needs no test. */
#define PCN_CLASSIFY_BLOCKS (1 << 18)
#define PCN_CLASSIFY_PARTS 1024
/* The map is declared with plain words: clang emits no type for a struct that only a map names. */
typedef __u64 pcn_classify_words[PCN_CLASSIFY_BLOCKS * 8];

/* Internal: sets of rules that a cube may have. */
#define PCN_CLASSIFY_SETS 8

/* Internal: where a set is, in one word so that it is replaced at once: its part in the upper half, the
 * block with its forest, leaf or group in the lower half, with PCN_CLASSIFY_HAS_USED; 0: it has no rules. */
struct pcn_classify_root {
	__u64 at;
	__u64 fields; /* enum pcn_classify_fields that its rules match */
};

/* Internal: sets of a daemon; the first is not used. A name fills its array, or ends with a zero. */
#define PCN_CLASSIFY_ADDRESSES 1024
struct pcn_classify_addresses {
	__u64 at; /* as in struct pcn_classify_root: the block with its tries; 0: it is empty */
	char name[64];
};

PCN_MAP_OF_MAPS_SHARED(classify, classify_memory, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32,
		       PCN_CLASSIFY_PARTS, BPF_MAP_TYPE_ARRAY, __u32, pcn_classify_words, 1,
		       BPF_F_MMAPABLE);
/* Internal: where each set is. The element after the last set belongs to the control plane. */
PCN_MAP_SHARED_FLAGS(classify, classify_sets, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_classify_root,
		     PCN_MAX_CUBES *PCN_CLASSIFY_SETS + 1, BPF_F_MMAPABLE);
PCN_MAP_SHARED_FLAGS(classify, classify_addresses, BPF_MAP_TYPE_ARRAY, __u32,
		     struct pcn_classify_addresses, PCN_CLASSIFY_ADDRESSES, BPF_F_MMAPABLE);

/* Internal: the memory of a part, NULL if it does not exist. */
PCN_INLINE void *pcn_classify_memory(__u32 part)
{
	__u32 at = part; /* one place on the stack for both keys: a search has none to spare */
	void *array = bpf_map_lookup_elem(&classify_memory, &at);

	at = 0;
	return array ? bpf_map_lookup_elem(array, &at) : NULL;
}

#endif
