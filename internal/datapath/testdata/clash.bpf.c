// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests that declares shared maps differently from their owners: a public one
 * with the same sizes and other members. */
#include <pcn/cube.h>

struct halves {
	__u32 low;
	__u32 high;
};

PCN_MAP_EXTERN(sharer, notices, BPF_MAP_TYPE_HASH, __u32, struct halves);

PCN_INGRESS
{
	__u32 key = 0;

	if (bpf_map_lookup_elem(&notices, &key))
		return pcn_pkt_drop(ctx, md, PCN_REASON_UNSPECIFIED);
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_LICENSE;
