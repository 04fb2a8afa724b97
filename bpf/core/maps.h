// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The framework's maps. Each object that includes this uses the same pinned maps. */
#ifndef PCN_MAPS_H
#define PCN_MAPS_H

#include <pcn/map.h>
#include "abi.h"

PCN_MAP_FLAGS(pcn_entries, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_entry, PCN_ENTRIES,
	      BPF_F_MMAPABLE);
/* Interface indexes of PCN_ENTRIES or more. */
PCN_MAP_FLAGS(pcn_far_entries, BPF_MAP_TYPE_HASH, __u32, struct pcn_entry, PCN_ENTRIES,
	      BPF_F_NO_PREALLOC);
/* The outermost transparent cube on the egress of a netdev. */
PCN_MAP_FLAGS(pcn_out_entries, BPF_MAP_TYPE_HASH, __u32, struct pcn_entry, PCN_MAX_CUBES,
	      BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(pcn_exits, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_exit, PCN_MAX_CUBES *PCN_MAX_PORTS,
	      BPF_F_MMAPABLE);
PCN_MAP_FLAGS(pcn_stacks, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_stack, PCN_MAX_CUBES,
	      BPF_F_MMAPABLE);
PCN_MAP_FLAGS(pcn_parents, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_parent, PCN_MAX_CUBES,
	      BPF_F_MMAPABLE);
PCN_MAP(pcn_counters, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_page, PCN_PAGES);
PCN_MAP(pcn_fates, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_fates, PCN_MAX_CUBES);
PCN_MAP(pcn_resumes, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_resume, 1);
/* The cube that runs on this CPU, where its number is not in the code: it calls the framework without md. */
PCN_MAP(pcn_running, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u32, 1);
PCN_MAP_FLAGS(pcn_floods, BPF_MAP_TYPE_HASH, __u32, struct pcn_flood, PCN_MAX_CUBES,
	      BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(pcn_flood_sets, BPF_MAP_TYPE_HASH, __u32, struct pcn_flood_set, PCN_FLOOD_SETS,
	      BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(pcn_copies, BPF_MAP_TYPE_HASH, __u32, struct pcn_copies, PCN_FLOOD_SETS,
	      BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(pcn_shares, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_share, PCN_MAX_CUBES,
	      BPF_F_MMAPABLE);
/* The netdevs with generic XDP. */
PCN_MAP(pcn_generic, BPF_MAP_TYPE_HASH, __u32, __u32, PCN_MAX_CUBES);
/* The netdevs with a root program at TC ingress, which takes the mark of a packet that has passed the programs there. Elsewhere
 * nothing would take it before the packet leaves by another netdev, whose programs it would bypass. */
PCN_MAP_FLAGS(pcn_tc_ingress, BPF_MAP_TYPE_HASH, __u32, __u32, PCN_ENTRIES, BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(pcn_control, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_control, 1, BPF_F_MMAPABLE);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PCN_RING_SIZE);
} pcn_ring SEC(".maps");

/* The resume program of each cube on this hook: how packets enter a cube from outside of its
 * component. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, PCN_MAX_CUBES);
	__type(key, __u32);
	__type(value, __u32);
} pcn_cubes SEC(".maps");

#ifdef PCN_TC
/* The interfaces that lead to the namespaces of cubes, with the keys of pcn_exits. */
PCN_MAP_FLAGS(pcn_shadows, BPF_MAP_TYPE_HASH, __u32, __u32, PCN_ENTRIES, BPF_F_NO_PREALLOC);
#endif

#ifdef PCN_XDP
/* The netdevs of a broadcast, with the loop once for each copy that comes back through it. Floods
 * and sets that lead to the same netdevs in the same way share one group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, PCN_FLOOD_SETS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
		__uint(max_entries, 1);
		__uint(key_size, sizeof(__u32));
		__uint(value_size, sizeof(struct bpf_devmap_val));
	});
} pcn_groups SEC(".maps");
/* The redirect to the loop for a single packet: for native XDP, and for generic XDP. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} pcn_loop_exit SEC(".maps"), pcn_loop_back SEC(".maps");
/* The flood whose copies this CPU is sending. */
PCN_MAP(pcn_flooding, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_loop, 1);
/* The netdevs of pcn_exits, for XDP redirection. */
PCN_MAP(pcn_devices, BPF_MAP_TYPE_DEVMAP, __u32, __u32, PCN_MAX_CUBES *PCN_MAX_PORTS);
#endif

/* The position of the lowest bit set (clang 14 does not support __builtin_ctzll for BPF). */
PCN_INLINE __u32 lowest(__u64 bits)
{
	return __builtin_popcountll((bits & -bits) - 1);
}

/* Counts a packet with a fate of a cube; cube 0 is the framework itself. */
PCN_INLINE void pcn_count_fate(__u32 cube, __u32 reason)
{
	struct pcn_fates *f = bpf_map_lookup_elem(&pcn_fates, &cube);

	if (!f)
		return;
	if (reason >= PCN_REASON_MAX)
		reason = PCN_REASON_UNSPECIFIED;
	f->count[reason]++;
}

#endif
