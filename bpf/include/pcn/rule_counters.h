// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Counters of rules, for cubes with lists of rules. All cubes share their memory, which grows with the number of rules
 * that exist. The control plane allocates and reads them: counter.Rules. */
#ifndef PCN_RULE_COUNTERS_H
#define PCN_RULE_COUNTERS_H

#include <pcn/counter.h>

/* Internal: the memory consists of parts with this many counters, as Go package counter knows. */
#define PCN_RULE_COUNTERS 4096
#define PCN_RULE_COUNTER_PARTS 256
/* Internal: struct pcn_count and the rules of a part, in plain words: clang emits no type for a struct
 * that only an inner map names. */
typedef __u64 pcn_rule_count[2];
typedef __u64 pcn_rule_owners[PCN_RULE_COUNTERS];

PCN_MAP_OF_MAPS_SHARED(rules, rule_counters, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32,
		       PCN_RULE_COUNTER_PARTS, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, pcn_rule_count,
		       PCN_RULE_COUNTERS, 0);
/* Internal: the rule that each counter belongs to, for the next daemon. Programs do not read it. */
PCN_MAP_OF_MAPS_SHARED(rules, rule_owners, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32,
		       PCN_RULE_COUNTER_PARTS, BPF_MAP_TYPE_ARRAY, __u32, pcn_rule_owners, 1,
		       BPF_F_MMAPABLE);
/* Internal: exists as long as the cube, and distinguishes it from an earlier cube with the same number. */
PCN_MAP(rule_counters_kept, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1);

/* Counts a number of packets of `bytes` bytes together, such as those of a superframe, for the rule
 * whose counter is `*counter`, a number that the control plane put into the rule's result. The
 * variable is overwritten, so that the function needs no stack of its own. */
PCN_INLINE void pcn_count_rule_packets(__u32 *counter, __u32 packets, __u32 bytes)
{
	__u32 which = *counter;
	void *part;

	*counter = which / PCN_RULE_COUNTERS;
	part = bpf_map_lookup_elem(&rule_counters, counter);
	if (!part)
		return;
	*counter = which % PCN_RULE_COUNTERS;
	pcn_count_packets(part, counter, packets, bytes);
}

/* Counts a packet of `bytes` bytes in the same way. */
PCN_INLINE void pcn_count_rule(__u32 *counter, __u32 bytes)
{
	pcn_count_rule_packets(counter, 1, bytes);
}

#endif
