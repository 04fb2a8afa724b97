// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Limits the rates of classes of packets, in each direction. All state is in maps that all meters
 * share, by the number of the cube, so any number of them run the same programs. */
#include <pcn/cube.h>
#include <pcn/bucket.h>
#include <pcn/flow.h>
#include <pcn/rule_counters.h>
#include <pcn/segments.h>
#include <pcn/tos.h>

enum meter_reason {
	METER_INGRESS_EXCEEDED = PCN_REASON_FIRST, /* above the rate, on the way in */
	METER_EGRESS_EXCEEDED,			   /* above the rate, on the way out */
};
PCN_REASONS(meter_reason);

/* The numbers of directions in maps. */
enum { INGRESS, EGRESS, DIRECTIONS };

/* What takes tokens. Zeros are a class without a limit, which has no counters. */
enum meter_unit { UNLIMITED, COUNTED, BYTES, PACKETS };

/* The model's exceed-action. */
enum meter_action { DROP, PASS, MARK };

#define CLASSES 8

/* An entry of the model's list `limit`. */
struct meter_limit {
	struct pcn_bucket_limit rate;
	__u32 conforming; /* numbers of counters */
	__u32 exceeding;
	__u8 unit;
	__u8 action;
	__u8 dscp;
	__u8 zero[5];
};

/* The configuration of a direction. */
struct meter_side {
	__u8 class_of[64]; /* by DSCP */
	struct meter_limit limits[CLASSES];
};

struct meter_buckets {
	__u64 of[CLASSES];
};

/* The cube that a row belongs to: the bytes of its UUID. Only the control plane uses it. */
struct meter_owner {
	__u8 uuid[16];
};

/* By number of the cube and direction. */
PCN_MAP_PUBLIC(sides, BPF_MAP_TYPE_ARRAY, __u32, struct meter_side, PCN_MAX_CUBES *DIRECTIONS);
PCN_MAP_PUBLIC_FLAGS(buckets, BPF_MAP_TYPE_ARRAY, __u32, struct meter_buckets,
		     PCN_MAX_CUBES *DIRECTIONS, BPF_F_MMAPABLE);
/* By number of the cube. */
PCN_MAP_PUBLIC(owners, BPF_MAP_TYPE_ARRAY, __u32, struct meter_owner, PCN_MAX_CUBES);

PCN_INLINE int police(struct CTXTYPE *ctx, struct pcn_md *md, const __u32 direction,
		      const __u32 reason)
{
	__u32 row = pcn_instance(md) * DIRECTIONS + direction, class = 0, counter;
	struct meter_side *side = bpf_map_lookup_elem(&sides, &row);
	struct meter_buckets *buckets_of = bpf_map_lookup_elem(&buckets, &row);
	struct pcn_flow flow = {};

	if (!side || !buckets_of)
		return pcn_pkt_pass(ctx, md); /* never: every cube has a row */
	pcn_flow_read(ctx, &flow);	      /* what cannot be read is in class 0 */
	if (flow.has & PCN_FLOW_IP)
		class = side->class_of[flow.dscp % 64] % CLASSES;
	const struct meter_limit *limit = &side->limits[class];
	if (limit->unit == UNLIMITED)
		return pcn_pkt_pass(ctx, md);
	struct pcn_wire wire = pcn_on_the_wire(ctx, md, &flow);
	counter = limit->conforming;
	if (limit->unit == COUNTED ||
	    pcn_bucket_take(&buckets_of->of[class], &limit->rate,
			    limit->unit == PACKETS ? wire.packets : wire.bytes, pcn_time())) {
		pcn_count_rule_packets(&counter, wire.packets, wire.bytes);
		return pcn_pkt_pass(ctx, md);
	}
	counter = limit->exceeding;
	pcn_count_rule_packets(&counter, wire.packets, wire.bytes);
	if (limit->action == DROP)
		return pcn_pkt_drop(ctx, md, reason);
	if (limit->action == MARK)
		pcn_set_dscp(ctx, &flow, limit->dscp);
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return police(ctx, md, INGRESS, METER_INGRESS_EXCEEDED);
}

PCN_EGRESS
{
	return police(ctx, md, EGRESS, METER_EGRESS_EXCEEDED);
}

PCN_LICENSE;
