// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A hub for tests of services: it floods to a set of its ports that the service writes. */
#include <pcn/cube.h>

/* What the service writes before and after a change, by 0 and 1. */
PCN_MAP(versions, BPF_MAP_TYPE_ARRAY, __u32, __u32, 2);

PCN_INGRESS
{
	__u32 zero = 0;

	if (!bpf_map_lookup_elem(&versions, &zero))
		return pcn_pkt_drop(ctx, md, PCN_REASON_MALFORMED);
	return pcn_pkt_flood_set(ctx, md, 1, 0, 0);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
