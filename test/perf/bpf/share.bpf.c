// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube that sends a share of the packets to the slow path and forwards the others. */
#include <pcn/cube.h>

enum share_slowpath_reason {
	SHARE_CHOSEN = PCN_REASON_FIRST,
};
PCN_SLOWPATH_REASONS(share_slowpath_reason);

/* Percentage of packets for the slow path. */
PCN_CONFIG(__u32, percent) = 0;

PCN_MAP(turn, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u32, 1);

PCN_INGRESS
{
	__u32 zero = 0;
	__u32 *next = bpf_map_lookup_elem(&turn, &zero);

	if (!next)
		return pcn_pkt_drop(ctx, md, PCN_REASON_UNSPECIFIED);
	*next = *next + 1 < 100 ? *next + 1 : 0;
	if (*next < percent)
		return pcn_pkt_controller(ctx, md, SHARE_CHOSEN);
	return pcn_pkt_send(ctx, md, 1);
}

PCN_LICENSE;
