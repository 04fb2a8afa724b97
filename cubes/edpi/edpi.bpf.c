// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Keeps an entry for each flow, copies its first packets to a ring for the classifier, and does with its packets what the
 * policy of its protocol says. */
#include "packet.h"

enum edpi_reason {
	EDPI_POLICY = PCN_REASON_FIRST, /* the action of the flow's policy is DROP */
	EDPI_EXCEEDED,			/* above the rate of the flow's policy */
	EDPI_UNDECIDED,	    /* undecided is DROP, and the flow's protocol is not known yet */
	EDPI_NO_CLASSIFIER, /* on-failure is CLOSED, and the classifier is silent */
};
PCN_REASONS(edpi_reason);

/* Values of the model's leaves. */
enum edpi_mode { EDPI_INLINE, EDPI_OBSERVE };
enum edpi_undecided { EDPI_PASS_UNDECIDED, EDPI_DROP_UNDECIDED };
enum edpi_failure { EDPI_OPEN, EDPI_CLOSED };

PCN_CONFIG(enum edpi_mode, mode) = EDPI_INLINE;
PCN_CONFIG(enum edpi_undecided, undecided) = EDPI_PASS_UNDECIDED;
PCN_CONFIG(enum edpi_failure, on_failure) = EDPI_OPEN;
PCN_CONFIG(__u64, classifier_timeout) = 1000000000;
PCN_CONFIG(__u32, inspect_packets) = 16;
PCN_CONFIG(__u32, snap_length) = 1536;
PCN_CONFIG(__u32, sample_interval) PCN_TRY(1024) = 0;
/* 0: no threshold. Bytes of a flow, and bytes in 2^30 ns. */
PCN_CONFIG(__u64, elephant_bytes) PCN_TRY(1000000) = 0;
PCN_CONFIG(__u64, elephant_rate) PCN_TRY(1000000) = 0;

enum edpi_counter {
	EDPI_STARTED,		/* flows that got an entry */
	EDPI_NO_ROOM,		/* packets of flows that got none */
	EDPI_NO_ROOM_ELEPHANTS, /* the same, of elephants */
	EDPI_INSPECTED,		/* packets in the ring */
	EDPI_SAMPLED,		/* some of them, of flows that were decided */
	EDPI_NOT_INSPECTED,	/* packets that found the ring full */
	EDPI_ELEPHANT_FLOWS,
	EDPI_LATER_FRAGMENTS, /* later fragments that were counted in the flow of the first one */
	EDPI_NOT_MIRRORED,    /* copies that could not be sent */
	EDPI_COUNTERS,
};
PCN_COUNTERS(counters, edpi_counter, EDPI_COUNTERS);

PCN_MAP(flows, BPF_MAP_TYPE_HASH, struct edpi_key, struct edpi_flow, 65536);
PCN_MAP(decisions, BPF_MAP_TYPE_HASH, struct edpi_key, struct edpi_decision, 65536);
PCN_MAP_FLAGS(classifier, BPF_MAP_TYPE_ARRAY, __u32, struct edpi_classifier, 1, BPF_F_MMAPABLE);
PCN_MAP(rules, BPF_MAP_TYPE_ARRAY, __u32, struct edpi_rule, EDPI_ROWS);
PCN_MAP(policies, BPF_MAP_TYPE_ARRAY, __u32, struct edpi_policy, EDPI_POLICIES);
PCN_MAP(buckets, BPF_MAP_TYPE_ARRAY, __u32, __u64, EDPI_POLICIES);
PCN_MAP(policy_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, 2 * EDPI_POLICIES);
PCN_MAP(counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct edpi_count, EDPI_ROWS);
/* What Go moves between classes when a flow has ended that was decided after its last packet. */
PCN_MAP(moved, BPF_MAP_TYPE_ARRAY, __u32, struct edpi_count, EDPI_ROWS);
/* Only Go uses these: the names of classes and risks, the slots of policies, and flows for the log. */
struct edpi_name {
	char text[32];
};
PCN_MAP(names, BPF_MAP_TYPE_ARRAY, __u32, struct edpi_name, EDPI_NAMES);
struct edpi_policy_key {
	__u32 kind;
	char name[36];
};
PCN_MAP(slots, BPF_MAP_TYPE_HASH, struct edpi_policy_key, __u32, EDPI_POLICIES);
PCN_DISPOSABLE PCN_MAP(fresh, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct edpi_flow, 1);
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 16384);
	__type(value, struct edpi_ended);
} ended SEC(".maps");

PCN_RING(packets, 1 << 24);
PCN_MAP(seeds, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_hash_seed, 1);
PCN_SKETCH_RATES(rates, 4096);
PCN_SKETCH(volumes, 4096);

/* Adds to the sums of a class. */
PCN_INLINE void edpi_add(__u32 row, __u64 packets, __u64 bytes, __u64 flows)
{
	struct edpi_count *n = bpf_map_lookup_elem(&counts, &row);

	if (!n)
		return;
	n->packets += packets;
	n->bytes += bytes;
	n->flows += flows;
}

/* The rows of a class. */
PCN_INLINE __u32 edpi_protocol_row(const struct edpi_class *class)
{
	__u32 id = class->protocol;

	return id <= EDPI_LAST_PROTOCOL ? id : 0;
}

PCN_INLINE __u32 edpi_category_row(const struct edpi_class *class)
{
	return EDPI_PROTOCOLS + (class->category & (EDPI_CATEGORIES - 1));
}

/* The flow takes over a decision, and what was counted of it so far moves to its class. A packet that another CPU counts in
 * this moment may remain with the former one. */
PCN_GLOBAL int edpi_adopt(struct edpi_flow *flow PCN_NONNULL, struct edpi_decision *d PCN_NONNULL)
{
	__u64 all = flow->packets[0] + flow->packets[1], bytes = flow->bytes[0] + flow->bytes[1];
	int was = __sync_fetch_and_or(&flow->flags, EDPI_DECIDED) & EDPI_DECIDED;
	__u32 row = was ? edpi_protocol_row(&flow->class) : EDPI_UNDECIDED_ROW;

	edpi_add(row, -all, -bytes, -1ull);
	if (was)
		edpi_add(edpi_category_row(&flow->class), -all, -bytes, -1ull);
	flow->class = d->class;
	edpi_add(edpi_protocol_row(&flow->class), all, bytes, 1);
	edpi_add(edpi_category_row(&flow->class), all, bytes, 1);
	return 0;
}

/* True if there is a decision about the flow that needs no further packets. */
PCN_INLINE int edpi_is_final(const struct edpi_flow *flow)
{
	return flow->flags & EDPI_DECIDED && !(flow->class.flags & EDPI_PRELIMINARY);
}

/* Looks whether there is a decision about the flow: for each packet until it is final, then now and then. */
PCN_INLINE void edpi_look(const struct edpi_key *key, struct edpi_flow *flow)
{
	struct edpi_decision *d;

	if (edpi_is_final(flow) && (flow->packets[0] + flow->packets[1]) & 63)
		return;
	d = bpf_map_lookup_elem(&decisions, key);
	if (!d || d->id != flow->id)
		return;
	if (!(flow->flags & EDPI_DECIDED) || d->class.protocol != flow->class.protocol ||
	    d->class.master != flow->class.master || d->class.category != flow->class.category ||
	    d->class.flags != flow->class.flags || d->class.risks != flow->class.risks)
		edpi_adopt(flow, d);
}

/* Adds an entry: NULL if there is no room. */
PCN_INLINE struct edpi_flow *edpi_start(const struct edpi_packet *p)
{
	__u32 zero = 0;
	struct edpi_flow *flow = bpf_map_lookup_elem(&fresh, &zero);

	if (!flow)
		return NULL;
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->id = pcn_time();
	flow->last = p->now;
	flow->flags = p->reverse ? EDPI_REVERSE : 0;
	if (!bpf_map_update_elem(&flows, &p->key, flow, BPF_NOEXIST)) {
		pcn_count(&counters, EDPI_STARTED);
		edpi_add(EDPI_UNDECIDED_ROW, 0, 0, 1);
	}
	return bpf_map_lookup_elem(&flows, &p->key); /* maybe another CPU's */
}

/* Adds the packet to the bytes of this second; true if they exceed the rate. */
PCN_INLINE int edpi_too_fast(struct edpi_flow *flow, const struct edpi_packet *p)
{
	__u64 number = p->now >> 30 << 40, was = flow->window;

	if (!elephant_rate)
		return 0;
	if ((was ^ number) >> 40)
		was = number; /* another CPU may begin it, too: a packet is not counted */
	was += p->bytes;
	flow->window = was;
	return (was & ((1ull << 40) - 1)) > elephant_rate;
}

/* Counts a packet in its flow, and finds out whether that is an elephant. */
PCN_INLINE void edpi_account(struct edpi_flow *flow, const struct edpi_packet *p)
{
	__u32 side = p->reverse & 1, flags = 0;
	int fast;

	__sync_fetch_and_add(&flow->packets[side], p->packets);
	__sync_fetch_and_add(&flow->bytes[side], p->bytes);
	if (flow->last != p->now)
		flow->last = p->now;
	if (p->tcp_flags & 1)
		flags |= side ? EDPI_FIN_HIGH : EDPI_FIN_LOW;
	if (p->tcp_flags & 4)
		flags |= EDPI_RESET;
	fast = edpi_too_fast(flow, p);
	if (!(flow->flags & EDPI_ELEPHANT) &&
	    (fast || (elephant_bytes && flow->bytes[0] + flow->bytes[1] > elephant_bytes)))
		flags |= EDPI_ELEPHANT;
	if (flags & ~flow->flags && !(__sync_fetch_and_or(&flow->flags, flags) & EDPI_ELEPHANT) &&
	    flags & EDPI_ELEPHANT)
		pcn_count(&counters, EDPI_ELEPHANT_FLOWS);
}

/* True if the classifier has been silent for too long. */
PCN_INLINE int edpi_is_silent(__u64 now)
{
	__u32 zero = 0;
	struct edpi_classifier *c = bpf_map_lookup_elem(&classifier, &zero);

	return !c || pcn_age(now, *(volatile __u64 *)&c->beat) > (__s64)classifier_timeout;
}

/* One in so many packets of a flow that was inspected and not decided: the classifier that saw the first ones has ended. */
#define EDPI_AGAIN 64

/* Copies the packet to the ring, if the classifier is to see it. It is not woken for a sample. */
PCN_INLINE void edpi_inspect(struct CTXTYPE *ctx, struct pcn_md *md, struct edpi_flow *flow,
			     const struct edpi_packet *p)
{
	__u32 decided = edpi_is_final(flow);
	__u64 all = flow->packets[0] + flow->packets[1];

	if (!p->payload)
		return;
	if (decided ? !sample_interval || all % sample_interval
		    : flow->inspected >= inspect_packets && all % EDPI_AGAIN)
		return;
	md->md[0] = flow->id;
	md->md[1] = flow->id >> 32;
	md->md[2] = p->reverse;
	md->md[3] = decided;
	if (pcn_ring_packet_later(packets, ctx, md, snap_length, decided, decided)) {
		pcn_count(&counters, EDPI_NOT_INSPECTED);
		return;
	}
	pcn_count(&counters, EDPI_INSPECTED);
	if (decided)
		pcn_count(&counters, EDPI_SAMPLED);
	__sync_fetch_and_add(&flow->inspected, 1);
}

/* The rule of a class, NULL if it has none. */
PCN_INLINE struct edpi_rule *edpi_rule(__u32 row)
{
	struct edpi_rule *rule = bpf_map_lookup_elem(&rules, &row);

	return rule && (rule->slot || rule->elephant) ? rule : NULL;
}

/* The rule of a flow: of its protocol, then of the one that carries it, then of its category. */
PCN_INLINE struct edpi_rule *edpi_rule_of(const struct edpi_class *class)
{
	struct edpi_rule *rule = edpi_rule(edpi_protocol_row(class));

	if (!rule && class->master && class->master <= EDPI_LAST_PROTOCOL)
		rule = edpi_rule(class->master);
	return rule ?: edpi_rule(edpi_category_row(class));
}

PCN_INLINE void edpi_count_policy(__u32 slot, int dropped, const struct edpi_packet *p)
{
	slot = 2 * slot + dropped;
	pcn_count_packets(&policy_counts, &slot, p->packets, p->bytes);
}

/* Does what a policy says. */
PCN_INLINE int edpi_apply(struct CTXTYPE *ctx, struct pcn_md *md, const struct edpi_packet *p,
			  __u32 slot)
{
	struct edpi_policy *policy = bpf_map_lookup_elem(&policies, &slot);
	__u64 *bucket = bpf_map_lookup_elem(&buckets, &slot);
	__u32 action;

	if (!slot || !policy || !bucket)
		return pcn_pkt_pass(ctx, md);
	action = policy->action;
	if (mode == EDPI_OBSERVE)
		action = EDPI_PASS;
	if (action == EDPI_DROP) {
		edpi_count_policy(slot, 1, p);
		return pcn_pkt_drop(ctx, md, EDPI_POLICY);
	}
	if (action == EDPI_LIMIT &&
	    !pcn_bucket_take(bucket, &policy->limit, p->bytes, pcn_time())) {
		edpi_count_policy(slot, 1, p);
		return pcn_pkt_drop(ctx, md, EDPI_EXCEEDED);
	}
	edpi_count_policy(slot, 0, p);
	if (action == EDPI_MARK)
		md->traffic_class = policy->value;
	if (action == EDPI_REDIRECT)
		return pcn_pkt_redirect(ctx, md, policy->value);
	if (action == EDPI_MIRROR && pcn_pkt_mirror(ctx, md, policy->value))
		pcn_count(&counters, EDPI_NOT_MIRRORED);
	return pcn_pkt_pass(ctx, md);
}

/* What happens to a packet of a flow that is not decided. */
PCN_INLINE int edpi_not_decided(struct CTXTYPE *ctx, struct pcn_md *md, const struct edpi_packet *p,
				int elephant)
{
	struct edpi_rule *rule;

	if (mode == EDPI_INLINE && on_failure == EDPI_CLOSED && edpi_is_silent(p->now))
		return pcn_pkt_drop(ctx, md, EDPI_NO_CLASSIFIER);
	if (mode == EDPI_INLINE && undecided == EDPI_DROP_UNDECIDED &&
	    (on_failure == EDPI_CLOSED || !edpi_is_silent(p->now)))
		return pcn_pkt_drop(ctx, md, EDPI_UNDECIDED);
	rule = elephant ? edpi_rule(EDPI_ELEPHANTS) : NULL;
	return edpi_apply(ctx, md, p, rule ? rule->slot : 0);
}

/* A packet of a flow that has no entry: a sketch knows whether it is an elephant. */
PCN_INLINE int edpi_no_room(struct CTXTYPE *ctx, struct pcn_md *md, const struct edpi_packet *p)
{
	__u32 zero = 0;
	const struct pcn_hash_seed *seed = bpf_map_lookup_elem(&seeds, &zero);
	int elephant = 0;

	pcn_count(&counters, EDPI_NO_ROOM);
	edpi_add(EDPI_NO_ROOM_ROW, p->packets, p->bytes, 0);
	if (seed) {
		const __u64 *word = (const void *)&p->key;
		__u64 hash = pcn_hash_words(seed, word[0], word[1], word[4]);

		hash = pcn_hash_words(seed, hash, word[2], word[3]);
		if (elephant_rate)
			elephant |= pcn_sketch_rate(&rates, hash, p->bytes, p->now) > elephant_rate;
		if (elephant_bytes)
			elephant |= pcn_sketch_add(&volumes, hash, p->bytes) > elephant_bytes;
	}
	if (elephant)
		pcn_count(&counters, EDPI_NO_ROOM_ELEPHANTS);
	return edpi_not_decided(ctx, md, p, elephant);
}

/* What happens to a packet of a flow with an entry. */
PCN_INLINE int edpi_verdict(struct CTXTYPE *ctx, struct pcn_md *md, struct edpi_flow *flow,
			    const struct edpi_packet *p)
{
	struct edpi_rule *rule;
	__u32 slot = 0;

	if (!(flow->flags & EDPI_DECIDED))
		return edpi_not_decided(ctx, md, p, flow->flags & EDPI_ELEPHANT);
	rule = edpi_rule_of(&flow->class);
	if (rule) {
		slot = rule->slot;
		if (rule->elephant && !(flow->flags & EDPI_ELEPHANT) &&
		    !(__sync_fetch_and_or(&flow->flags, EDPI_ELEPHANT) & EDPI_ELEPHANT))
			pcn_count(&counters, EDPI_ELEPHANT_FLOWS);
	}
	if (!slot && flow->flags & EDPI_ELEPHANT) {
		rule = edpi_rule(EDPI_ELEPHANTS);
		slot = rule ? rule->slot : 0;
	}
	return edpi_apply(ctx, md, p, slot);
}

PCN_INLINE int edpi_process(struct CTXTYPE *ctx, struct pcn_md *md)
{
	__u32 zero = 0;
	struct edpi_packet *p = bpf_map_lookup_elem(&work, &zero);
	struct edpi_flow *flow;

	if (!p)
		return pcn_pkt_pass(ctx, md);
	__builtin_memset(p, 0, __builtin_offsetof(struct edpi_packet, datagram));
	if (edpi_read(ctx, md, p)) {
		edpi_add(EDPI_OTHER_ROW, p->packets, p->bytes, 0);
		return pcn_pkt_pass(ctx, md);
	}
	if (p->fragment && edpi_fragment(p)) {
		edpi_add(EDPI_FRAGMENT_ROW, p->packets, p->bytes, 0);
		return edpi_not_decided(ctx, md, p, 0);
	}
	if (p->fragment == PCN_FRAGMENT_LATER)
		pcn_count(&counters, EDPI_LATER_FRAGMENTS);
	flow = bpf_map_lookup_elem(&flows, &p->key);
	if (!flow)
		flow = edpi_start(p);
	if (!flow)
		return edpi_no_room(ctx, md, p);
	edpi_look(&p->key, flow);
	edpi_account(flow, p);
	if (flow->flags & EDPI_DECIDED) {
		edpi_add(edpi_protocol_row(&flow->class), p->packets, p->bytes, 0);
		edpi_add(edpi_category_row(&flow->class), p->packets, p->bytes, 0);
	} else {
		edpi_add(EDPI_UNDECIDED_ROW, p->packets, p->bytes, 0);
	}
	edpi_inspect(ctx, md, flow, p);
	return edpi_verdict(ctx, md, flow, p);
}

PCN_INGRESS
{
	return edpi_process(ctx, md);
}

PCN_EGRESS
{
	return edpi_process(ctx, md);
}

PCN_LICENSE;
