// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The part of the fast path that stays: nothing, while there is no monitor. A monitor is a program of its own, in the place
 * of pcn_ingress or pcn_egress. One whose maps are swapped exists twice, for two sets of maps, and dynmon_choose is in front
 * of both. */
#include <pcn/cube.h>

enum dynmon_reason {
	DYNMON_MONITOR =
		PCN_REASON_FIRST, /* the monitor dropped it: pcn_monitor_drop of <pcn/monitor.h> */
};
PCN_REASONS(dynmon_reason);

/* The side whose maps packets count in, 0 or 1, for both paths. Go turns it, and waits until no packet is in a program that
 * has seen it before. */
PCN_MAP(dynmon_side, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1);

/* Indexes of the programs for the two sides. */
#define DYNMON_FIRST 1
#define DYNMON_SECOND 2

PCN_INGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_PROGRAM(dynmon_choose)
{
	__u32 zero = 0;
	__u32 *side = bpf_map_lookup_elem(&dynmon_side, &zero);

	if (side && *side)
		return pcn_call_program(ctx, md, DYNMON_SECOND);
	return pcn_call_program(ctx, md, DYNMON_FIRST);
}

PCN_LICENSE;
