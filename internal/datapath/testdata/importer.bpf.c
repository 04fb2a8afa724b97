// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests that imports the public map of another service, and shares a map. */
#include <pcn/cube.h>

PCN_MAP_EXTERN(sharer, notices, BPF_MAP_TYPE_HASH, __u32, __u64);
PCN_MAP_SHARED(meeting, visits, BPF_MAP_TYPE_ARRAY, __u32, __u64, 4);
/* Its own map with the name of a private map of the other service. */
PCN_MAP(own, BPF_MAP_TYPE_HASH, __u64, __u32, 8);

PCN_INGRESS
{
	__u32 key = 0;
	__u64 one = 1, *n = bpf_map_lookup_elem(&notices, &key);
	__u64 *seen = bpf_map_lookup_elem(&visits, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
	if (seen)
		__sync_fetch_and_add(seen, 1);
	bpf_map_update_elem(&own, &one, &key, BPF_ANY);
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_LICENSE;
