// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The tunnels of users between base stations and the network. What comes in at the port leaves its tunnel, what goes out to a
 * user enters one. The class of a packet from a user is that of its tunnel. */
#include <pcn/cube.h>
#include <pcn/bucket.h>
#include <pcn/counter.h>
#include <pcn/gtpu.h>
#include <pcn/segments.h>

enum gtphandler_reason {
	GTPHANDLER_OUTER_FRAGMENT =
		PCN_REASON_FIRST, /* a fragment of a packet with a tunnel: it is not reassembled */
	GTPHANDLER_WRONG_VERSION, /* GTP of another version, or GTP' */
	GTPHANDLER_MALFORMED,	  /* GTP-U that is shorter than it says, or no packet in a tunnel */
	GTPHANDLER_UNKNOWN_MESSAGE,  /* a message of a type that is unknown or needs no action */
	GTPHANDLER_END_MARKER,	     /* the last message of a tunnel that has moved */
	GTPHANDLER_SPOOFED_SOURCE,   /* a packet whose source is not the user of its tunnel */
	GTPHANDLER_NOT_ENCAPSULATED, /* a packet that could not enter its tunnel */
	GTPHANDLER_SUPERFRAME,	     /* TC: several messages in one skb */
	GTPHANDLER_FLOODED,	     /* user space has had enough of such messages or packets */
};
PCN_REASONS(gtphandler_reason);

enum gtphandler_slowpath_reason {
	GTPHANDLER_ECHO = PCN_REASON_FIRST, /* a request to be answered, or the response to one */
	GTPHANDLER_UNKNOWN_TUNNEL, /* a packet with the TEID of no tunnel, to be answered by an Error Indication */
	GTPHANDLER_UNKNOWN_EXTENSION, /* a message with an extension header that must be known, to be answered */
	GTPHANDLER_ERROR_INDICATION, /* a base station does not know a tunnel */
	GTPHANDLER_TOO_BIG, /* a packet for a user that is too big for its tunnel: answered or fragmented */
	GTPHANDLER_SEGMENT, /* TC: a superframe for a user, to be cut into segments */
};
PCN_SLOWPATH_REASONS(gtphandler_slowpath_reason);

/* A user, for packets that are sent to it. */
struct gtphandler_user {
	pcn_address source;	 /* of the tunnel */
	pcn_address destination; /* the base station */
	__u32 teid;
	__u32 counter;
	__u8 qfi;
	__u8 ipv6;     /* the tunnel is one of IPv6 */
	__u8 by_class; /* the TEID is the class of each packet */
	__u8 any_teid; /* the user's own packets may have any TEID */
	__u32 zero;
};

/* A tunnel, for packets that come in. */
struct gtphandler_tunnel {
	__u64 ipv6; /* the upper half of the user's IPv6 addresses; 0: it has none. In network byte order. */
	__be32 ipv4;
	__u32 has_ipv4;
	__u32 class;
	__u32 counter;
};

struct gtphandler_counts {
	struct pcn_count up, down; /* bytes of IP packets */
};

/* What user space takes: messages about paths, and what has failed. */
enum gtphandler_limit { GTPHANDLER_PATHS, GTPHANDLER_FAILURES, GTPHANDLER_LIMITS };

struct gtphandler_limits {
	struct pcn_bucket_limit paths;
	struct pcn_bucket_limit failures;
};

PCN_MAP(limits, BPF_MAP_TYPE_ARRAY, __u32, struct gtphandler_limits, 1);
PCN_MAP(buckets, BPF_MAP_TYPE_ARRAY, __u32, __u64, GTPHANDLER_LIMITS);

/* The addresses of this side of tunnels. */
PCN_MAP(addresses, BPF_MAP_TYPE_HASH, pcn_address, __u32, 64);
/* Users by their IPv4 address, and by the upper half of their IPv6 addresses, in network byte order. */
PCN_MAP_FLAGS(users4, BPF_MAP_TYPE_HASH, __be32, struct gtphandler_user, 1024, BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(users6, BPF_MAP_TYPE_HASH, __u64, struct gtphandler_user, 1024, BPF_F_NO_PREALLOC);
/* Tunnels by their TEID. */
PCN_MAP_FLAGS(tunnels, BPF_MAP_TYPE_HASH, __u32, struct gtphandler_tunnel, 1024, BPF_F_NO_PREALLOC);
PCN_MAP(counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct gtphandler_counts, 64);
/* The MAC address that packets of each base station have come from; 0: none has come yet. */
PCN_MAP_FLAGS(stations, BPF_MAP_TYPE_HASH, pcn_address, __u64, 1024, BPF_F_NO_PREALLOC);

/* Bytes that the path to base stations takes, from the IP header on. */
PCN_CONFIG(__u32, mtu) = 1500;

/* Hands a packet to user space, as far as that takes more. `word` is for user space. */
PCN_INLINE int gtphandler_up(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason,
			     const __u32 which, __u32 word)
{
	__u32 zero = 0, key = which;
	struct gtphandler_limits *l = bpf_map_lookup_elem(&limits, &zero);
	__u64 *bucket = bpf_map_lookup_elem(&buckets, &key);
	const __u32 words[4] = { word };

	if (!l || !bucket ||
	    !pcn_bucket_take(bucket, which == GTPHANDLER_PATHS ? &l->paths : &l->failures, 1,
			     pcn_time_coarse()))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_FLOODED);
	return pcn_pkt_controller_md(ctx, md, reason, words);
}

/* Notes where a base station is. Only known ones have an entry. */
PCN_INLINE void gtphandler_learn(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	__u64 *known = bpf_map_lookup_elem(&stations, flow->source);
	struct ethhdr *eth = pcn_data(ctx);

	if (!known || (void *)(eth + 1) > pcn_data_end(ctx))
		return;
	__u64 mac = pcn_macs(eth).from;
	if (*known != mac)
		*known = mac;
}

/* Whether the packet in a message has the address of its user; -1 if it is no packet. */
PCN_INLINE int gtphandler_is_of(struct CTXTYPE *ctx, const struct pcn_gtpu *g,
				const struct gtphandler_tunnel *t)
{
	__be32 word[4] __attribute__((aligned(8)));

	if (g->payload < sizeof(struct iphdr) || pcn_load_bytes(ctx, g->at, word, sizeof(word)))
		return -1;
	switch (*(__u8 *)word >> 4) {
	case 4:
		return t->has_ipv4 && word[3] == t->ipv4;
	case 6:
		return t->ipv6 && *(__u64 *)(word + 2) == t->ipv6;
	}
	return -1;
}

/* The user with an address, or an address in its prefix. */
PCN_INLINE struct gtphandler_user *gtphandler_find(const void *ipv4, const void *ipv6)
{
	struct gtphandler_user *u;

	if (ipv6)
		return bpf_map_lookup_elem(&users6, ipv6);
	u = bpf_map_lookup_elem(&users4, ipv4);
	asm volatile("" : "+r"(u)); /* the verifier cannot follow a call for either map */
	return u;
}

/* The user that sent the packet in a message. */
PCN_INLINE struct gtphandler_user *gtphandler_sender(struct CTXTYPE *ctx, const struct pcn_gtpu *g)
{
	__be32 word[4] __attribute__((aligned(8)));

	if (g->payload < sizeof(struct iphdr) || pcn_load_bytes(ctx, g->at, word, sizeof(word)))
		return NULL;
	return gtphandler_find(word + 3, *(__u8 *)word >> 4 == 4 ? NULL : word + 2);
}

PCN_INLINE void gtphandler_count(__u32 counter, __u32 bytes, const int up)
{
	struct gtphandler_counts *c = bpf_map_lookup_elem(&counts, &counter);

	if (!c)
		return;
	struct pcn_count *n = up ? &c->up : &c->down;
	n->packets++;
	n->bytes += bytes;
}

/* Takes the packet of a user out of its tunnel. */
PCN_INLINE int gtphandler_receive(struct CTXTYPE *ctx, struct pcn_md *md,
				  const struct pcn_flow *flow, const struct pcn_gtpu *g)
{
	const struct gtphandler_tunnel *t = bpf_map_lookup_elem(&tunnels, &g->teid);
	const struct gtphandler_user *u;
	__u32 class = g->teid, counter;
	int of;

	if (t) {
		of = gtphandler_is_of(ctx, g, t);
		if (of <= 0)
			return pcn_pkt_drop(ctx, md,
					    of ? GTPHANDLER_MALFORMED : GTPHANDLER_SPOOFED_SOURCE);
		class = t->class;
		counter = t->counter;
	} else {
		u = gtphandler_sender(ctx, g);
		if (!u || !u->any_teid)
			return gtphandler_up(ctx, md, GTPHANDLER_UNKNOWN_TUNNEL,
					     GTPHANDLER_FAILURES, 0);
		counter = u->counter;
	}
	if (pcn_gtpu_strip(ctx, flow->l3, g))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
	gtphandler_count(counter, g->payload, 1);
	gtphandler_learn(ctx, flow);
	md->packet_len -= g->at - flow->l3;
	md->traffic_class = class;
	md->tenant = g->qfi;
	return pcn_pkt_pass(ctx, md);
}

/* The fate of a message that is not a packet of a user, or not one that can be read. */
PCN_INLINE int gtphandler_control(struct CTXTYPE *ctx, struct pcn_md *md,
				  const struct pcn_flow *flow, const struct pcn_gtpu *g, int result)
{
	switch (result) {
	case PCN_GTPU_VERSION:
		return pcn_pkt_drop(ctx, md, GTPHANDLER_WRONG_VERSION);
	case PCN_GTPU_MALFORMED:
		return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
	case PCN_GTPU_UNKNOWN:
		return gtphandler_up(ctx, md, GTPHANDLER_UNKNOWN_EXTENSION, GTPHANDLER_FAILURES, 0);
	}
	switch (g->type) {
	case PCN_GTPU_ECHO_REQUEST:
	case PCN_GTPU_ECHO_RESPONSE:
		gtphandler_learn(ctx, flow);
		return gtphandler_up(ctx, md, GTPHANDLER_ECHO, GTPHANDLER_PATHS, 0);
	case PCN_GTPU_ERROR_INDICATION:
		return gtphandler_up(ctx, md, GTPHANDLER_ERROR_INDICATION, GTPHANDLER_FAILURES, 0);
	case PCN_GTPU_END_MARKER:
		return pcn_pkt_drop(ctx, md, GTPHANDLER_END_MARKER);
	}
	return pcn_pkt_drop(ctx, md, GTPHANDLER_UNKNOWN_MESSAGE);
}

PCN_INGRESS
{
	struct pcn_flow flow = {};
	struct pcn_gtpu g;
	__be16 length;
	int result;

	if (pcn_flow_read(ctx, &flow) || flow.protocol != IPPROTO_UDP ||
	    flow.destination_port != bpf_htons(PCN_GTPU_PORT) ||
	    !bpf_map_lookup_elem(&addresses, flow.destination))
		return pcn_pkt_pass(ctx, md);
	if (flow.fragment != PCN_FRAGMENT_NONE)
		return pcn_pkt_drop(ctx, md, GTPHANDLER_OUTER_FRAGMENT);
	if (pcn_is_superframe(ctx)) /* each of its messages has a length of its own */
		return pcn_pkt_drop(ctx, md, GTPHANDLER_SUPERFRAME);
	if (pcn_load_bytes(ctx, flow.l4 + offsetof(struct udphdr, len), &length, sizeof(length)) ||
	    bpf_ntohs(length) < sizeof(struct udphdr))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
	result = pcn_gtpu_read(ctx, flow.l4 + sizeof(struct udphdr),
			       bpf_ntohs(length) - sizeof(struct udphdr), &g);
	if (result == PCN_GTPU_OK && g.type == PCN_GTPU_PDU)
		return gtphandler_receive(ctx, md, &flow, &g);
	return gtphandler_control(ctx, md, &flow, &g, result);
}

/* The addresses of the frame: those that the packet has, or the base station's, if it has been heard. */
PCN_INLINE int gtphandler_macs(struct CTXTYPE *ctx, struct pcn_gtpu_tunnel *t,
			       const struct gtphandler_user *u)
{
	__u64 *known = bpf_map_lookup_elem(&stations, u->destination);
	struct ethhdr *eth = pcn_data(ctx);

	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return -1;
	struct pcn_macs macs = pcn_macs(eth);
	t->from = macs.from;
	t->to = known && *known ? *known : macs.to;
	return 0;
}

/* Puts a packet for a user into its tunnel. */
PCN_INLINE int gtphandler_send(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow,
			       const struct gtphandler_user *u)
{
	__u32 ports = flow->source_port ^ flow->destination_port ^ flow->source[3];
	struct pcn_encap outer = { .ttl = 64, .ipv6 = u->ipv6, .kind = PCN_ENCAP_GUE };
	struct pcn_gtpu_tunnel tunnel = { .teid = u->by_class ? md->traffic_class : u->teid,
					  .qfi = u->qfi };
	__u32 bytes = md->packet_len - flow->l3, overhead = pcn_gtpu_overhead(&outer, &tunnel);
	__u32 counter = u->counter;

	if (pcn_is_superframe(ctx))
		return pcn_pkt_controller(ctx, md, GTPHANDLER_SEGMENT);
	if (bytes + overhead > mtu)
		return gtphandler_up(ctx, md, GTPHANDLER_TOO_BIG, GTPHANDLER_FAILURES,
				     mtu - overhead);
	pcn_address_copy(outer.source, u->source);
	pcn_address_copy(outer.destination, u->destination);
	/* The packets of a connection have the same port, so that the path can balance connections. */
	outer.source_port = bpf_htons(0xc000 | ((ports ^ ports >> 16) & 0x3fff));
	if (gtphandler_macs(ctx, &tunnel, u) || pcn_gtpu_encap(ctx, &outer, &tunnel, flow))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_NOT_ENCAPSULATED);
	md->packet_len += overhead;
	gtphandler_count(counter, bytes, 0);
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	struct pcn_flow flow = {};
	const struct gtphandler_user *u;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	u = gtphandler_find(flow.destination + 3,
			    flow.has & PCN_FLOW_IPV6 ? flow.destination : NULL);
	return u ? gtphandler_send(ctx, md, &flow, u) : pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
