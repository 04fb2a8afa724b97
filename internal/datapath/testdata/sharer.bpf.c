// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests of shared maps and maps of maps. */
#include <pcn/cube.h>

enum sharer_reason {
	SHARER_TORN = PCN_REASON_FIRST, /* a mixture of two sets was seen */
	SHARER_NO_SET,
};
PCN_REASONS(sharer_reason);

/* 1 counts in the shared map, 2 in the public one, 3 in its own, 4 reads a set */
PCN_CONFIG(__u32, what) = 0;

PCN_MAP_SHARED(meeting, visits, BPF_MAP_TYPE_ARRAY, __u32, __u64, 4);
PCN_MAP_PUBLIC(notices, BPF_MAP_TYPE_HASH, __u32, __u64, 64);
PCN_MAP(own, BPF_MAP_TYPE_ARRAY, __u32, __u64, 4);

/* All entries of a set have the same value, its version. */
#define SET 16
PCN_MAP_OF_MAPS(sets, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, 4, BPF_MAP_TYPE_ARRAY, __u32, __u64, SET,
		0);
PCN_MAP_OF_MAPS(tables, BPF_MAP_TYPE_HASH_OF_MAPS, __u32, 4, BPF_MAP_TYPE_HASH, __u32, __u64, 8, 0);

PCN_INLINE void count(void *map)
{
	__u32 key = 0;
	__u64 one = 1, *n = bpf_map_lookup_elem(map, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(map, &key, &one, BPF_ANY);
}

/* Returns 0 when all entries of the set are of one version. */
PCN_INLINE int torn(void *set)
{
	__u64 first = 0;

	for (__u32 i = 0; i < SET; i++) {
		__u32 key = i;
		__u64 *version = bpf_map_lookup_elem(set, &key);
		if (!version || !*version || (i && *version != first))
			return 1;
		first = *version;
	}
	return 0;
}

PCN_INGRESS
{
	__u32 key = 0;
	void *set;

	switch (what) {
	case 1:
		count(&visits);
		break;
	case 2:
		count(&notices);
		break;
	case 3:
		count(&own);
		break;
	case 4:
		set = bpf_map_lookup_elem(&sets, &key);
		if (!set)
			return pcn_pkt_drop(ctx, md, SHARER_NO_SET);
		if (torn(set))
			return pcn_pkt_drop(ctx, md, SHARER_TORN);
		break;
	}
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_LICENSE;
