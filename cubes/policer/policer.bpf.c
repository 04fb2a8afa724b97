// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Limits the rates of traffic classes: a class has its own contract, or the default one. A cube in front sets the class in the
 * packet's metadata. */
#include <pcn/cube.h>
#include <pcn/flow.h>
#include <pcn/segments.h>
#include <pcn/tos.h>

#include "limit.h"

enum policer_reason {
	POLICER_CONTRACT_DROPS = PCN_REASON_FIRST, /* the action of the class's contract is DROP */
	POLICER_EXCEEDED,			   /* above the rate of the class's contract */
};
PCN_REASONS(policer_reason);

/* The values of the model's type `action`, in order. */
enum policer_action { POLICER_PASS, POLICER_LIMIT, POLICER_DROP, POLICER_MARK, POLICER_SHAPE };

/* The values of the model's leaf `length`, in order. */
enum policer_length { POLICER_FRAME, POLICER_IP };

/* No DSCP is set. */
#define POLICER_NO_DSCP 0xff

/* A contract. The control plane writes all but `warned` and `word`, which it changes only as programs do: by compare-and-swap. */
struct policer_contract {
	struct pcn_bucket_limit limit;
	__u64 quota; /* bytes of a fixed window */
	__u64 near; /* credit below which packets are marked: bytes of a fixed window, otherwise 2^-8 ns */
	__u64 word;  /* the bucket of compare-and-swap, or the fixed window */
	__u8 action; /* enum policer_action */
	__u8 coarse; /* the coarse clock is exact enough */
	__u8 dscp;   /* of packets that are marked; POLICER_NO_DSCP: they keep theirs */
	__u8 zero;
	__u32 queue; /* with POLICER_SHAPE: the class of the queueing discipline */
	__u64 warned; /* when a sender was last told to slow down, in 2^-8 ns; 0: never. Programs write it */
};

/* Packets of a contract. */
struct policer_counts {
	struct pcn_count passed; /* marked ones included */
	struct pcn_count dropped;
	__u64 marked;
};

/* The slot of each class that has a contract. */
PCN_MAP_FLAGS(classes, BPF_MAP_TYPE_HASH, __u32, __u32, 1024, BPF_F_NO_PREALLOC);
/* By slot; the first is the default contract. */
PCN_MAP_FLAGS(contracts, BPF_MAP_TYPE_ARRAY, __u32, struct policer_contract, 64, BPF_F_MMAPABLE);
PCN_MAP(counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct policer_counts, 64);
/* By slot, if the algorithm has locks; otherwise there is one. */
PCN_MAP(states, BPF_MAP_TYPE_ARRAY, __u32, struct policer_state, 1);

PCN_CONFIG(enum policer_algorithm, algorithm) = POLICER_COMPARE_AND_SWAP;
/* Length of fixed windows in ns. */
PCN_CONFIG(__u64, window) = 1000000000;
/* How the length of a packet is counted. */
PCN_CONFIG(enum policer_length, length) = POLICER_FRAME;

/* Takes a packet's bytes from a contract with a rate. Returns the credit left, negative above the rate. */
PCN_INLINE __s64 policer_limit(struct policer_contract *c, __u32 slot, __u32 bytes, __u64 now)
{
	struct policer_at at = { &c->word, NULL, &c->limit, c->quota, window };

	if (algorithm >= POLICER_TOKEN_BUCKET) {
		at.state = bpf_map_lookup_elem(&states, &slot);
		if (!at.state)
			return -1;
	}
	return policer_take(algorithm, &at, bytes, now);
}

/* The bytes that a packet counts as. Reads its flow if necessary. */
PCN_INLINE struct pcn_wire policer_wire(struct CTXTYPE *ctx, const struct pcn_md *md,
					struct pcn_flow *flow)
{
	struct pcn_wire wire = { .bytes = md->packet_len, .packets = 1 };

	if (length == POLICER_FRAME && !pcn_is_superframe(ctx))
		return wire;
	pcn_flow_read(ctx, flow);
	wire = pcn_on_the_wire(ctx, md, flow);
	if (length == POLICER_IP && flow->has & PCN_FLOW_IP)
		wire.bytes -= wire.packets * flow->l3;
	return wire;
}

/* Marks a packet whose contract has little credit left. Returns 1 if it changed. */
PCN_INLINE int policer_mark(struct CTXTYPE *ctx, struct pcn_flow *flow, struct policer_contract *c,
			    __u64 left, __u64 now)
{
	int marked = 0;

	if (!flow->has)
		pcn_flow_read(ctx, flow);
	if (!(flow->has & PCN_FLOW_IP))
		return 0;
	enum pcn_ecn ecn = pcn_ecn(ctx, flow);
	/* Senders with ECT(1) expect that each packet is marked (RFC 9331). */
	if (ecn == PCN_ECT_1 ||
	    (ecn == PCN_ECT_0 && policer_warn(algorithm, &c->warned, &c->limit, left, now)))
		marked = pcn_set_ce(ctx, flow);
	if (c->dscp == POLICER_NO_DSCP)
		return marked;
	pcn_set_dscp(ctx, flow, c->dscp);
	return 1;
}

/* Selects the queue of a packet at the netdev that sends it. */
PCN_INLINE void policer_shape(struct CTXTYPE *ctx, const struct policer_contract *c)
{
#ifdef PCN_TC
	if (c->action == POLICER_SHAPE)
		ctx->priority = c->queue;
#else
	(void)ctx;
	(void)c; /* packets at XDP pass through no queue */
#endif
}

PCN_INLINE int policer_police(struct CTXTYPE *ctx, struct pcn_md *md)
{
	__u32 class = md->traffic_class, slot = 0, *known = bpf_map_lookup_elem(&classes, &class);
	struct pcn_flow flow = {};
	__s64 left = 0;
	__u64 now = 0;

	if (known)
		slot = *known;
	struct policer_contract *c = bpf_map_lookup_elem(&contracts, &slot);
	struct policer_counts *n = bpf_map_lookup_elem(&counts, &slot);
	if (!c || !n)
		return pcn_pkt_drop(ctx, md,
				    POLICER_EXCEEDED); /* unreachable: there is one for each slot */
	__u32 action = c->action, reason = POLICER_CONTRACT_DROPS;
	struct pcn_wire wire = policer_wire(ctx, md, &flow);

	if (action == POLICER_LIMIT || action == POLICER_MARK) {
		now = c->coarse ? pcn_time_coarse() : pcn_time();
		left = policer_limit(c, slot, wire.bytes, now);
		reason = POLICER_EXCEEDED;
	}
	if (action == POLICER_DROP || left < 0) {
		n->dropped.packets += wire.packets;
		n->dropped.bytes += wire.bytes;
		return pcn_pkt_drop(ctx, md, reason);
	}
	n->passed.packets += wire.packets;
	n->passed.bytes += wire.bytes;
	if (action == POLICER_MARK && (__u64)left < c->near &&
	    policer_mark(ctx, &flow, c, left, now))
		n->marked += wire.packets;
	policer_shape(ctx, c);
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return policer_police(ctx, md);
}

PCN_EGRESS
{
	return policer_police(ctx, md);
}

PCN_LICENSE;
