// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The user plane function of a mobile core: decapsulates GTP-U packets from devices on ingress of the port, and encapsulates
 * packets to devices on egress. The rules of the device's session decide what happens to each packet. */
#include <pcn/cube.h>

#include "upf.h"
#include "local.h"

enum upf_reason {
	PCN_GTPU_END_REASONS(UPF),
	UPF_NO_RULE,	 /* no rule of the session matches */
	UPF_RULE_DROPS,	 /* the action of the rule is to drop */
	UPF_GATE_CLOSED, /* the gate of a meter is closed */
	UPF_EXCEEDED,	 /* above the rate of a meter */
	UPF_QUOTA_USED,	 /* the quota of a usage is used up */
	UPF_QUEUE_FULL,	 /* buffered_packets packets of the rule are buffered */
	UPF_REDIRECTED, /* the rule redirects HTTP requests, and the packet is not to TCP port 80 */
};
PCN_REASONS(upf_reason);

enum upf_slowpath_reason {
	PCN_GTPU_END_SLOWPATH_REASONS(UPF),
	UPF_WAITS,	  /* a packet to be buffered until its device is reachable */
	UPF_TUNNEL_ENDED, /* an End Marker of a tunnel whose packets enter another one */
	UPF_HTTP,	  /* a packet to port 80 of a rule that redirects HTTP requests */
};
PCN_SLOWPATH_REASONS(upf_slowpath_reason);

/* Maximum number of buffered packets of a rule. */
PCN_CONFIG(__u32, buffered_packets) = 512;
/* MTU of the path to base stations: bytes from the IP header on. */
PCN_CONFIG(__u32, mtu) = 1500;

/* The queueing-discipline class of packets with a guaranteed rate; 0: the same as all others. */
PCN_CONFIG(__u32, guaranteed_queue) PCN_TRY(0x10001) = 0;

/* What user space writes into md->md of a packet that was buffered. */
#define UPF_RELEASED 1

/* A packet on its way through the rules. */
struct upf_packet {
	struct pcn_flow flow; /* of the inner packet */
	__u64 now;
	__u32 bytes;	  /* from its IP header on */
	__u32 teid;	  /* of the tunnel that it was received from; 0: none */
	__u32 instance;	  /* the network instance of that tunnel */
	__u32 rule, list; /* as in struct upf_tunnel */
	__u8 qfi;
	__u8 up; /* it is from a device */
	__u8 released;
	__u8 inward; /* it continues into the cube behind, not out of the port */
	__u8 taken;  /* just decapsulated: flow is still that of the outer packet */
	struct pcn_sdf_packet fields;
	struct pcn_encap outer;
	struct pcn_network route;
};

/* The packet that the CPU is processing: the stack is too small for it. Nothing of it is needed by the next one. */
PCN_DISPOSABLE PCN_MAP(packets, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct upf_packet, 1);

PCN_INLINE struct upf_packet *upf_packet(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&packets, &zero);
}

/* Reads the headers of a decapsulated packet, if that has not been done. Most rules do not need them. */
PCN_INLINE int upf_read_inner(struct CTXTYPE *ctx, struct upf_packet *p)
{
	if (!p->taken)
		return 0;
	p->taken = 0;
	return pcn_flow_read_common(ctx, &p->flow);
}

/* The length of an IP packet, without the frame's padding. */
PCN_INLINE __u32 upf_length(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	const __be16 *there = pcn_header(ctx, flow->l3, 3 * sizeof(*there));
	__be16 half[3] = {};

	if (there) {
		half[1] = there[1];
		half[2] = there[2];
	} else if (pcn_load_bytes(ctx, flow->l3, half, sizeof(half))) {
		return 0;
	}
	return flow->has & PCN_FLOW_IPV6 ? bpf_ntohs(half[2]) + sizeof(struct ipv6hdr)
					 : bpf_ntohs(half[1]);
}

/* Hands a packet to user space, which buffers it. */
PCN_INLINE int upf_wait(struct CTXTYPE *ctx, struct pcn_md *md, struct upf_rule *r,
			struct upf_packet *p, __u32 row)
{
	const __u32 words[4] = { r->queue, p->teid, p->instance };
	__u32 queue = r->queue;
	struct upf_queue *q = bpf_map_lookup_elem(&queues, &queue);

	if (!q || !queue)
		return pcn_pkt_drop(ctx, md, UPF_RULE_DROPS);
	if (upf_read_inner(ctx, p))
		return pcn_pkt_drop(ctx, md, UPF_MALFORMED);
	if (r->flags & UPF_NOTIFY && !__sync_lock_test_and_set(&q->told, 1) &&
	    upf_tell(UPF_NOTICE_WAITING, row, p->flow.dscp))
		q->told = 0;
	if (__sync_fetch_and_add(&q->waiting, 1) >= buffered_packets) {
		__sync_fetch_and_add(&q->waiting, -1);
		return pcn_pkt_drop(ctx, md, UPF_QUEUE_FULL);
	}
	return pcn_pkt_controller_md(ctx, md, UPF_WAITS, words);
}

/* The rate limit of packets to port 80 for user space. In Go: httpLimit. */
struct upf_http {
	struct pcn_bucket_limit limit;
	__u64 bucket;
};

PCN_MAP(http, BPF_MAP_TYPE_ARRAY, __u32, struct upf_http, 1);

/* Whether user space accepts another packet to port 80. The verifier processes it once, as it rarely runs. */
PCN_GLOBAL int upf_http_takes(__u64 now)
{
	__u32 zero = 0;
	struct upf_http *h = bpf_map_lookup_elem(&http, &zero);

	return h && pcn_bucket_take(&h->bucket, &h->limit, 1, now);
}

/* Hands a packet to port 80 to user space, which answers with a redirect. Other packets of the rule are dropped. */
PCN_INLINE int upf_redirect(struct CTXTYPE *ctx, struct pcn_md *md, const struct upf_rule *r,
			    struct upf_packet *p)
{
	const __u32 words[4] = { r->teid };

	if (upf_read_inner(ctx, p))
		return pcn_pkt_drop(ctx, md, UPF_MALFORMED);
	if (p->flow.protocol != IPPROTO_TCP || p->flow.fragment != PCN_FRAGMENT_NONE ||
	    p->flow.destination_port != bpf_htons(80))
		return pcn_pkt_drop(ctx, md, UPF_REDIRECTED);
	if (!upf_http_takes(p->now))
		return pcn_pkt_drop(ctx, md, UPF_FLOODED);
	return pcn_pkt_controller_md(ctx, md, UPF_HTTP, words);
}

/* Whether earlier packets are still buffered. */
PCN_INLINE int upf_follows(const struct upf_rule *r, const struct upf_packet *p)
{
	__u32 queue = r->queue;
	struct upf_queue *q;

	if (!queue || p->released)
		return 0;
	q = bpf_map_lookup_elem(&queues, &queue);
	return q && *(volatile __u32 *)&q->waiting;
}

/* Encapsulates a packet into the tunnel of its rule. */
PCN_INLINE int upf_send(struct CTXTYPE *ctx, struct pcn_md *md, const struct upf_rule *r,
			struct upf_packet *p)
{
	const pcn_address nobody = {};
	struct pcn_gtpu_tunnel tunnel = { .teid = r->teid, .qfi = r->qfi, .uplink = p->up };

	if (upf_read_inner(ctx, p))
		return pcn_pkt_drop(ctx, md, UPF_MALFORMED);
	p->outer.kind = PCN_ENCAP_GUE;
	p->outer.ttl = 64;
	p->outer.ipv6 = !!(r->flags & UPF_IPV6);
	p->outer.dscp = r->flags & UPF_MARK ? r->dscp + 1 : 0;
	pcn_address_copy(p->outer.destination, r->peer);
	p->outer.source_port = pcn_gtpu_end_port(&p->flow);
	/* The cube behind resolves the neighbour of a packet that is sent there. */
	if (upf_local_address(&p->outer, r) ||
	    pcn_gtpu_end_macs(ctx, &tunnel, p->inward ? nobody : r->peer) ||
	    pcn_gtpu_encap(ctx, &p->outer, &tunnel, &p->flow))
		return pcn_pkt_drop(ctx, md, UPF_NOT_ENCAPSULATED);
	md->packet_len += pcn_gtpu_overhead(&p->outer, &tunnel);
	return pcn_pkt_pass(ctx, md);
}

/* The longest packet that fits into the tunnel of its rule. */
PCN_INLINE __u32 upf_longest(const struct upf_rule *r, const struct upf_packet *p)
{
	struct pcn_encap outer = { .ipv6 = !!(r->flags & UPF_IPV6) };
	struct pcn_gtpu_tunnel tunnel = { .qfi = r->qfi };

	if (p->inward || !(r->flags & UPF_TUNNEL))
		return UPF_NONE;
	return mtu - pcn_gtpu_overhead(&outer, &tunnel);
}

/* Selects the queue of a packet at the netdev that sends it. */
PCN_INLINE void upf_queue_up(struct CTXTYPE *ctx, const struct upf_rule *r)
{
#ifdef PCN_TC
	if (guaranteed_queue && r->flags & UPF_GUARANTEED)
		ctx->priority = guaranteed_queue;
#else
	(void)ctx;
	(void)r; /* packets at XDP pass through no queue */
#endif
}

/* Applies its rule to a packet. */
PCN_INLINE int upf_forward(struct CTXTYPE *ctx, struct pcn_md *md, struct upf_packet *p, __u32 row)
{
	struct upf_rule *r = bpf_map_lookup_elem(&rules, &row);
	__u64 now = p->now;
	__u32 longest;

	if (!r)
		return pcn_pkt_drop(ctx, md, UPF_NO_RULE);
	if (pcn_refresh_due(now, r->seen, UPF_STEP))
		r->seen = now;
	if (r->action == UPF_DROP)
		return pcn_pkt_drop(ctx, md, UPF_RULE_DROPS);
	if (r->action == UPF_WAIT || upf_follows(r, p))
		return upf_wait(ctx, md, r, p, row);
	if (r->flags & UPF_REDIRECTS)
		return upf_redirect(ctx, md, r, p);
	longest = upf_longest(r, p);
	if (p->bytes > longest) /* its fragments or segments come back, and are charged then */
		return pcn_gtpu_end_up(ctx, md, UPF_TOO_BIG, PCN_GTPU_END_FAILURES, longest);
	switch (upf_charge(r, p->bytes, now, !p->up)) {
	case UPF_USED_UP:
		return pcn_pkt_drop(ctx, md, UPF_QUOTA_USED);
	case UPF_CLOSED:
		return pcn_pkt_drop(ctx, md, UPF_GATE_CLOSED);
	case UPF_EXCEEDS:
		return pcn_pkt_drop(ctx, md, UPF_EXCEEDED);
	}
	upf_queue_up(ctx, r);
	return r->flags & UPF_TUNNEL ? upf_send(ctx, md, r, p) : pcn_pkt_pass(ctx, md);
}

/* The row of a packet's rule; UPF_NONE if it has none. */
PCN_INLINE __u32 upf_choose(struct upf_packet *p, __u32 rule, __u32 list)
{
	struct pcn_sdf_list *l;
	__u32 index;

	if (!list)
		return rule;
	l = bpf_map_lookup_elem(&lists, &list);
	if (!l)
		return UPF_NONE;
	pcn_sdf_of_flow(&p->fields, &p->flow, p->qfi, p->up);
	index = upf_search(&p->fields, l);
	return index == UPF_NONE ? UPF_NONE : rule + index;
}

/* The device whose framed routes contain an address. */
PCN_INLINE const struct upf_device *upf_routed(struct upf_packet *p, const __be32 *address)
{
	p->route.length = 128;
	pcn_address_copy(p->route.prefix, address);
	return bpf_map_lookup_elem(&routes, &p->route);
}

/* Whether an IPv6 address is the device's. Router solicitations and advertisements have link-local addresses. */
PCN_INLINE int upf_is_its6(const __be32 *address, const struct upf_tunnel *t)
{
	__u32 first = bpf_ntohl(address[0]);

	if (!(t->has & UPF_HAS_IPV6))
		return 0;
	return *(__u64 *)address == t->ipv6 || first == 0xfe800000 ||
	       (first == 0xff020000 && t->has & UPF_FROM_NETWORK);
}

/* upf_is_of for a packet that cannot be read directly, or whose address is not the device's only one. The verifier processes it
 * once. */
PCN_GLOBAL int upf_is_of_any(struct CTXTYPE *ctx, const struct pcn_gtpu *g PCN_NONNULL,
			     const struct upf_tunnel *t PCN_NONNULL)
{
	struct upf_packet *p = upf_packet();
	__be32 word[4] __attribute__((aligned(8))) = {};
	const struct upf_device *d;
	__u32 at = g->at;
	__u8 version;

	if (!p || at > 0xffff || pcn_load_bytes(ctx, at, word, 4))
		return -1;
	version = *(__u8 *)word >> 4;
	if (version == 6) {
		at += t->has & UPF_FROM_NETWORK ? 24 : 8; /* the destination, or the source */
		if (pcn_load_bytes(ctx, at, word, sizeof(word)))
			return -1;
		if (upf_is_its6(word, t))
			return 1;
	} else {
		at += t->has & UPF_FROM_NETWORK ? 16 : 12;
		if (version != 4 || pcn_load_bytes(ctx, at, word + 3, 4))
			return -1;
		if (t->has & UPF_HAS_IPV4 && word[3] == t->ipv4)
			return 1;
		pcn_address_set4(word, word[3]);
	}
	d = upf_routed(p, word);
	return d && d->session == t->session;
}

/* Whether the packet in a message has the address of the tunnel's device; -1 if it is not an IP packet. */
PCN_INLINE int upf_is_of(struct CTXTYPE *ctx, const struct pcn_gtpu *g, const struct upf_tunnel *t)
{
	const struct iphdr *ip = pcn_header(ctx, g->at, sizeof(*ip));

	if (g->payload < sizeof(*ip))
		return -1;
	if (ip && g->at <= 0x3ff && *(__u8 *)ip >> 4 == 4 && t->has & UPF_HAS_IPV4 &&
	    t->ipv4 == (t->has & UPF_FROM_NETWORK ? ip->daddr : ip->saddr))
		return 1;
	return upf_is_of_any(ctx, g, t);
}

/* Applies the rules to a decapsulated packet. */
PCN_INLINE int upf_inner(struct CTXTYPE *ctx, struct pcn_md *md, struct upf_packet *p)
{
	__u32 row;

	p->taken = 1;
	if (p->list && upf_read_inner(ctx, p))
		return pcn_pkt_drop(ctx, md, UPF_MALFORMED);
	row = upf_choose(p, p->rule, p->list);
	if (row == UPF_NONE)
		return pcn_pkt_drop(ctx, md, UPF_NO_RULE);
	return upf_forward(ctx, md, p, row);
}

/* Whether to learn the MAC address of the tunnel's peer: with the first packet of a rule, and periodically. */
PCN_INLINE int upf_learns(const struct upf_packet *p)
{
	__u32 row = p->rule;
	const struct upf_rule *r = p->list ? NULL : bpf_map_lookup_elem(&rules, &row);

	return !r || pcn_refresh_due(p->now, r->seen, UPF_STEP);
}

/* Notes what the rules of a packet need of the tunnel that it was received from. After that the verifier does not distinguish the
 * tables of tunnels any more. */
PCN_INLINE void upf_from(struct upf_packet *p, const struct upf_tunnel *t)
{
	p->up = !(t->has & UPF_FROM_NETWORK);
	p->inward = 1;
	p->rule = t->rule;
	p->list = t->list;
}

/* Decapsulates a packet. Returns PCN_GTPU_END_PACKET if it may continue, else its verdict. */
PCN_INLINE int upf_receive(struct CTXTYPE *ctx, struct pcn_md *md, struct upf_packet *p,
			   const struct pcn_gtpu *g, const struct upf_tunnel *t)
{
	__u32 l3 = p->flow.l3;
	int of = upf_is_of(ctx, g, t);

	if (of <= 0)
		return pcn_pkt_drop(ctx, md, of ? UPF_MALFORMED : UPF_SPOOFED_SOURCE);
	upf_from(p, t);
	if (pcn_gtpu_strip(ctx, l3, g))
		return pcn_pkt_drop(ctx, md, UPF_MALFORMED);
	p->now = pcn_time_coarse();
	if (upf_learns(p))
		pcn_gtpu_end_learn(ctx, &p->flow);
	md->packet_len -= g->at - l3;
	md->traffic_class = g->teid;
	md->tenant = g->qfi;
	p->bytes = g->payload;
	p->teid = g->teid;
	p->qfi = g->qfi;
	p->released = 0;
	return PCN_GTPU_END_PACKET;
}

/* Handles an End Marker. User space forwards it, after the packets of its tunnel, if those enter another tunnel or are buffered. */
PCN_INLINE int upf_ended(struct CTXTYPE *ctx, struct pcn_md *md, __u32 teid,
			 const struct upf_tunnel *t)
{
	__u32 row = t ? t->rule : 0;
	const struct upf_rule *r = bpf_map_lookup_elem(&rules, &row);

	if (!t || !r || !(t->list || r->queue || r->flags & UPF_TUNNEL))
		return pcn_pkt_drop(ctx, md, UPF_END_MARKER);
	return pcn_gtpu_end_up(ctx, md, UPF_TUNNEL_ENDED, PCN_GTPU_END_PATHS, teid);
}

/* Prepares a packet that was buffered. */
PCN_INLINE void upf_released(const struct pcn_md *md, struct upf_packet *p)
{
	p->now = pcn_time_coarse();
	p->bytes = md->packet_len - sizeof(struct ethhdr);
	p->teid = md->md[1];
	p->instance = md->md[2];
	p->qfi = md->tenant;
	p->released = 1;
}

PCN_INGRESS
{
	struct upf_packet *p = upf_packet();
	const struct upf_tunnel *t;
	int result;

	if (!p)
		return pcn_pkt_drop(ctx, md, UPF_NO_RULE);
	if (md->md[0] == UPF_RELEASED) {
		upf_released(md, p);
		t = upf_tunnel(p->teid, p->instance);
		if (!t)
			return pcn_pkt_drop(ctx, md, UPF_NO_RULE);
		upf_from(p, t);
	} else {
		struct pcn_gtpu g;

		if (pcn_flow_read_common(ctx, &p->flow) || !upf_is_for_us(&p->flow, &p->instance))
			return pcn_pkt_pass(ctx, md);
		result = pcn_gtpu_end_read_all(ctx, md, &p->flow, &g);
		if (result != PCN_GTPU_END_PACKET && result != PCN_GTPU_END_LAST)
			return result;
		t = upf_tunnel(g.teid, p->instance);
		if (result == PCN_GTPU_END_LAST)
			return upf_ended(ctx, md, g.teid, t);
		if (!t)
			return pcn_gtpu_end_up(ctx, md, UPF_UNKNOWN_TUNNEL, PCN_GTPU_END_FAILURES,
					       0);
		result = upf_receive(ctx, md, p, &g, t);
		if (result != PCN_GTPU_END_PACKET)
			return result;
	}
	return upf_inner(ctx, md, p);
}

/* The device that a packet is sent to. */
PCN_INLINE const struct upf_device *upf_receiver(struct upf_packet *p)
{
	const struct upf_device *d;

	if (p->flow.has & PCN_FLOW_IPV6) {
		d = bpf_map_lookup_elem(&devices6, p->flow.destination);
	} else {
		d = bpf_map_lookup_elem(&devices4, p->flow.destination + 3);
		asm volatile("" : "+r"(d)); /* the verifier cannot follow a call for either map */
	}
	return d ? d : upf_routed(p, p->flow.destination);
}

PCN_EGRESS
{
	struct upf_packet *p = upf_packet();
	const struct upf_device *d;
	__u32 row;

	if (!p)
		return pcn_pkt_drop(ctx, md, UPF_NO_RULE);
	if (pcn_flow_read_common(ctx, &p->flow) || !(p->flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	d = upf_receiver(p);
	if (!d)
		return pcn_pkt_pass(ctx, md);
	if (pcn_is_superframe(ctx))
		return pcn_pkt_controller(ctx, md, UPF_SEGMENT);
	p->now = pcn_time_coarse();
	p->up = 0;
	p->inward = 0;
	p->taken = 0;
	p->teid = 0;
	p->qfi = 0;
	p->released = md->md[0] == UPF_RELEASED;
	p->bytes = upf_length(ctx, &p->flow);
	row = upf_choose(p, d->rule, d->list);
	return row == UPF_NONE ? pcn_pkt_drop(ctx, md, UPF_NO_RULE) : upf_forward(ctx, md, p, row);
}

PCN_LICENSE;
