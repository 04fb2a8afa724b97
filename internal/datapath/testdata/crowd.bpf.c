// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests that shares a map under a name that others use, with another type. */
#include <pcn/cube.h>

PCN_MAP_SHARED(meeting, visits, BPF_MAP_TYPE_HASH, __u32, __u64, 4);

PCN_INGRESS
{
	__u32 key = 0;

	if (bpf_map_lookup_elem(&visits, &key))
		return pcn_pkt_drop(ctx, md, PCN_REASON_UNSPECIFIED);
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_LICENSE;
