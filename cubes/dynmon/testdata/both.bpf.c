// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A compiled monitor of both paths. */
#include <pcn/monitor.h>

PCN_MAP(passed, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);
PCN_BOTH_PATHS PCN_MAP(all, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

PCN_INLINE void add(void *map, __u64 amount)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(map, &zero);

	if (n)
		__sync_fetch_and_add(n, amount);
}

PCN_INGRESS
{
	add(&passed, 1);
	add(&all, 1);
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	add(&passed, 10);
	add(&all, 1);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
