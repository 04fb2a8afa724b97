// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Limits the rates of classes of packets, in each direction. All state is in maps that all policers
 * share, by the number of the cube, so any number of them run the same programs. */
#include <linux/udp.h>

#include <pcn/cube.h>
#include <pcn/bucket.h>
#include <pcn/csum.h>
#include <pcn/flow.h>
#include <pcn/rule_counters.h>

enum policer_reason {
	POLICER_INGRESS_EXCEEDED = PCN_REASON_FIRST, /* above the rate, on the way in */
	POLICER_EGRESS_EXCEEDED,		     /* above the rate, on the way out */
};
PCN_REASONS(policer_reason);

/* The numbers of directions in maps. */
enum { INGRESS, EGRESS, DIRECTIONS };

/* What takes tokens. Zeros are a class without a limit, which has no counters. */
enum policer_unit { UNLIMITED, COUNTED, BYTES, PACKETS };

/* The model's exceed-action. */
enum policer_action { DROP, PASS, MARK };

#define CLASSES 8

/* An entry of the model's list `limit`. */
struct policer_limit {
	struct pcn_bucket_limit rate;
	__u32 conforming; /* numbers of counters */
	__u32 exceeding;
	__u8 unit;
	__u8 action;
	__u8 dscp;
	__u8 zero[5];
};

/* The configuration of a direction. */
struct policer_side {
	__u8 class_of[64]; /* by DSCP */
	struct policer_limit limits[CLASSES];
};

struct policer_buckets {
	__u64 of[CLASSES];
};

/* The cube that a row belongs to: the bytes of its UUID. Only the control plane uses it. */
struct policer_owner {
	__u8 uuid[16];
};

/* By number of the cube and direction. */
PCN_MAP_PUBLIC(sides, BPF_MAP_TYPE_ARRAY, __u32, struct policer_side, PCN_MAX_CUBES *DIRECTIONS);
PCN_MAP_PUBLIC_FLAGS(buckets, BPF_MAP_TYPE_ARRAY, __u32, struct policer_buckets,
		     PCN_MAX_CUBES *DIRECTIONS, BPF_F_MMAPABLE);
/* By number of the cube. */
PCN_MAP_PUBLIC(owners, BPF_MAP_TYPE_ARRAY, __u32, struct policer_owner, PCN_MAX_CUBES);

/* A packet as it is on the wire, where a superframe is several. */
struct policer_wire {
	__u32 bytes;
	__u32 packets;
};

PCN_INLINE struct policer_wire on_the_wire(struct CTXTYPE *ctx, const struct pcn_md *md,
					   const struct pcn_flow *flow)
{
	struct policer_wire wire = { .bytes = md->packet_len, .packets = 1 };
#ifdef PCN_TC
	__u32 headers = flow->l4 + sizeof(struct udphdr), segment = ctx->gso_size;
	__u8 offset = 0;

	if (!segment || !(flow->has & PCN_FLOW_L4))
		return wire;
	if (flow->protocol == IPPROTO_TCP) {
		pcn_load_bytes(ctx, flow->l4 + 12, &offset, sizeof(offset));
		headers = flow->l4 + (offset >> 4) * 4;
	}
	if (wire.bytes <= headers + segment)
		return wire;
	wire.packets = (wire.bytes - headers + segment - 1) / segment;
	wire.bytes += (wire.packets - 1) * headers;
#else
	(void)ctx;
	(void)flow;
#endif
	return wire;
}

/* Sets the DSCP of an IP packet; ECN stays. */
PCN_INLINE void mark(struct CTXTYPE *ctx, const struct pcn_flow *flow, __u8 dscp)
{
	struct pcn_cursor c;

	if (!(flow->has & PCN_FLOW_IP))
		return;
	pcn_cursor_open(&c, ctx,
			sizeof(struct ethhdr) + PCN_FLOW_TAGS * sizeof(struct pcn_vlan_hdr) +
				sizeof(struct iphdr));
	__be16 *first = c.pos + (flow->l3 & 0xff), was;
	if ((void *)first + sizeof(struct iphdr) > c.end)
		return;
	was = *first;
	if (flow->has & PCN_FLOW_IPV6) {
		*first = (was & ~bpf_htons(0x3f << 6)) | bpf_htons(dscp << 6);
		pcn_csum_bytes(ctx, pcn_csum_diff2(was, *first));
	} else {
		*first = (was & ~bpf_htons(0x3f << 2)) | bpf_htons(dscp << 2);
		pcn_csum_ipv4((struct iphdr *)first, pcn_csum_diff2(was, *first));
	}
}

PCN_INLINE int police(struct CTXTYPE *ctx, struct pcn_md *md, const __u32 direction,
		      const __u32 reason)
{
	__u32 row = pcn_instance(md) * DIRECTIONS + direction, class = 0, counter;
	struct policer_side *side = bpf_map_lookup_elem(&sides, &row);
	struct policer_buckets *buckets_of = bpf_map_lookup_elem(&buckets, &row);
	struct pcn_flow flow = {};

	if (!side || !buckets_of)
		return pcn_pkt_pass(ctx, md); /* never: every cube has a row */
	pcn_flow_read(ctx, &flow);	      /* what cannot be read is in class 0 */
	if (flow.has & PCN_FLOW_IP)
		class = side->class_of[flow.dscp % 64] % CLASSES;
	const struct policer_limit *limit = &side->limits[class];
	if (limit->unit == UNLIMITED)
		return pcn_pkt_pass(ctx, md);
	struct policer_wire wire = on_the_wire(ctx, md, &flow);
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
		mark(ctx, &flow, limit->dscp);
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return police(ctx, md, INGRESS, POLICER_INGRESS_EXCEEDED);
}

PCN_EGRESS
{
	return police(ctx, md, EGRESS, POLICER_EGRESS_EXCEEDED);
}

PCN_LICENSE;
