// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests that declares one of the framework's maps, to access other cubes' data. */
#include <pcn/cube.h>

PCN_MAP(pcn_entries, BPF_MAP_TYPE_ARRAY, __u32, __u64, 65536);

PCN_INGRESS
{
	__u32 key = 0;
	__u64 *entry = bpf_map_lookup_elem(&pcn_entries, &key);

	if (entry)
		*entry = 0;
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_LICENSE;
