// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Terminates the GTP-U tunnels of users, with IP packets or Ethernet frames: decapsulates on ingress of the port, and encapsulates
 * packets to users on egress. The class of a packet from a user is that of its tunnel. */
#include <pcn/cube.h>
#include <pcn/counter.h>
#include <pcn/gtpu_end.h>

enum gtphandler_reason {
	PCN_GTPU_END_REASONS(GTPHANDLER),
	/* only for Ethernet sessions */
	GTPHANDLER_ADDRESS_IN_USE,     /* the source of a frame is a device of another session */
	GTPHANDLER_TOO_MANY_ADDRESSES, /* the session has learned its maximum of addresses */
	GTPHANDLER_NOT_TUNNELLED,      /* from the link of base stations, but not tunnelled */
	GTPHANDLER_UNKNOWN_DEVICE,     /* the destination is not a device of any session */
	GTPHANDLER_UNKNOWN_STATION,    /* the MAC address of the base station is not known yet */
};
PCN_REASONS(gtphandler_reason);

enum gtphandler_slowpath_reason {
	PCN_GTPU_END_SLOWPATH_REASONS(GTPHANDLER),
	GTPHANDLER_LEARN, /* the source of a frame is to be learned */
	GTPHANDLER_GROUP, /* a frame for all sessions */
	GTPHANDLER_HOST,  /* a frame that the cube answers as a host */
};
PCN_SLOWPATH_REASONS(gtphandler_slowpath_reason);

/* Events of frames other than their verdict. */
enum gtphandler_frame_counter {
	GTPHANDLER_FRAME_NOT_COPIED, /* a frame of a device was not copied to the other sessions */
	GTPHANDLER_FRAME_COUNTERS,
};
PCN_COUNTERS(frame_counters, gtphandler_frame_counter, GTPHANDLER_FRAME_COUNTERS);

/* A user, for packets that are sent to it. */
struct gtphandler_user {
	pcn_address source;	 /* of the tunnel */
	pcn_address destination; /* the base station */
	__u32 teid;
	__u32 counter;
	__u8 qfi;
	__u8 ipv6;     /* the tunnel is over IPv6 */
	__u8 by_class; /* the class of each packet is used as its TEID */
	__u8 any_teid; /* the user's own packets may have any TEID */
	__u32 zero;
};

/* The device that a network is behind: its address, or the first one of its prefix. */
struct gtphandler_device {
	pcn_address address;
};

/* A tunnel, for received packets. */
struct gtphandler_tunnel {
	__u64 ipv6; /* the upper half of the user's IPv6 addresses; 0: it has none. In network byte order. */
	__be32 ipv4;
	__u32 has_ipv4;
	__u32 class;
	__u32 counter;
};

struct gtphandler_counts {
	struct pcn_count up, down; /* bytes of IP packets, or of frames */
};

/* Users by their IPv4 address, and by the upper half of their IPv6 addresses, in network byte order. */
PCN_MAP_FLAGS(users4, BPF_MAP_TYPE_HASH, __be32, struct gtphandler_user, 1024, BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(users6, BPF_MAP_TYPE_HASH, __u64, struct gtphandler_user, 1024, BPF_F_NO_PREALLOC);
/* Networks behind devices. */
PCN_MAP_FLAGS(networks, BPF_MAP_TYPE_LPM_TRIE, struct pcn_network, struct gtphandler_device, 64,
	      BPF_F_NO_PREALLOC);
/* Tunnels by their TEID, and those of network instances with a name. */
PCN_MAP_FLAGS(tunnels, BPF_MAP_TYPE_HASH, __u32, struct gtphandler_tunnel, 1024, BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(named_tunnels, BPF_MAP_TYPE_HASH, struct pcn_gtpu_end_tunnel,
	      struct gtphandler_tunnel, 1024, BPF_F_NO_PREALLOC);
PCN_MAP(counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct gtphandler_counts, 64);

/* MTU of the path to base stations: bytes from the IP header on. */
PCN_CONFIG(__u32, mtu) = 1500;

/* The user with an address, or an address in its prefix. */
PCN_INLINE struct gtphandler_user *gtphandler_find(const __be32 *address, int ipv6)
{
	struct gtphandler_user *u;

	if (ipv6)
		return bpf_map_lookup_elem(&users6, address);
	u = bpf_map_lookup_elem(&users4, address + 3);
	asm volatile("" : "+r"(u)); /* the verifier cannot follow a call for either map */
	return u;
}

/* The user that a network is behind. `of` is an address, with a length of 128. */
PCN_INLINE struct gtphandler_user *gtphandler_behind(const struct pcn_network *of, int ipv6)
{
	const struct gtphandler_device *d;
	const __be32 *is;

	if (ipv6 && !of->prefix[0] && !of->prefix[1])
		return NULL; /* it would look like one of IPv4 */
	d = bpf_map_lookup_elem(&networks, of);
	if (!d)
		return NULL;
	is = d->address;
	return gtphandler_find(is, is[0] || is[1]);
}

/* The tunnel with a TEID in a network instance. */
PCN_INLINE const struct gtphandler_tunnel *gtphandler_tunnel(__u32 teid, __u32 instance)
{
	struct pcn_gtpu_end_tunnel key = { .teid = teid, .instance = instance };
	const struct gtphandler_tunnel *t;

	if (instance)
		return bpf_map_lookup_elem(&named_tunnels, &key);
	t = bpf_map_lookup_elem(&tunnels, &teid);
	asm volatile("" : "+r"(t)); /* as above */
	return t;
}

/* Whether an address is in the network instance of the local address that a tunnel comes from. */
PCN_INLINE int gtphandler_in_instance(const __be32 *local, const __be32 *address, __u32 instance)
{
	const __u32 *own;

	if (pcn_address_same(local, address))
		return 1;
	own = bpf_map_lookup_elem(&addresses, local);
	return own && *own == instance;
}

/* Reads the source of the packet in a message, as an address with a length of 128. Returns 4 or 6; 0 if it is not an IP packet. */
PCN_INLINE int gtphandler_source(struct CTXTYPE *ctx, const struct pcn_gtpu *g,
				 struct pcn_network *from)
{
	__be32 word[4];

	if (g->payload < sizeof(struct iphdr) || pcn_load_bytes(ctx, g->at, word, sizeof(word)))
		return 0;
	from->length = 128;
	switch (*(__u8 *)word >> 4) {
	case 4:
		pcn_address_set4(from->prefix, word[3]);
		return 4;
	case 6:
		return pcn_load_bytes(ctx, g->at + 8, from->prefix, 16) ? 0 : 6;
	}
	return 0;
}

/* Whether the source address of a packet belongs to the user of a tunnel. */
PCN_INLINE int gtphandler_is_of(const struct pcn_network *from, int ipv6,
				const struct gtphandler_tunnel *t)
{
	const struct gtphandler_user *u;
	__u64 upper;

	__builtin_memcpy(&upper, from->prefix, sizeof(upper));
	if (ipv6 ? t->ipv6 && upper == t->ipv6 : t->has_ipv4 && from->prefix[3] == t->ipv4)
		return 1;
	u = gtphandler_behind(from, ipv6);
	return u && u->counter == t->counter;
}

/* The user that a source address belongs to. */
PCN_INLINE struct gtphandler_user *gtphandler_sender(const struct pcn_network *from, int ipv6)
{
	struct gtphandler_user *u = gtphandler_find(from->prefix, ipv6);

	return u ? u : gtphandler_behind(from, ipv6);
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

/* Decapsulates a packet from a user that has come to an address of a network instance. */
PCN_INLINE int gtphandler_receive(struct CTXTYPE *ctx, struct pcn_md *md,
				  const struct pcn_flow *flow, const struct pcn_gtpu *g,
				  __u32 instance)
{
	const struct gtphandler_tunnel *t = gtphandler_tunnel(g->teid, instance);
	const struct gtphandler_user *u;
	__u32 class = g->teid, counter;
	struct pcn_network from;
	int version = gtphandler_source(ctx, g, &from);

	if (t) {
		if (!version)
			return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
		if (!gtphandler_is_of(&from, version == 6, t))
			return pcn_pkt_drop(ctx, md, GTPHANDLER_SPOOFED_SOURCE);
		class = t->class;
		counter = t->counter;
	} else {
		u = version ? gtphandler_sender(&from, version == 6) : NULL;
		if (!u || !u->any_teid ||
		    !gtphandler_in_instance(u->source, flow->destination, instance))
			return pcn_gtpu_end_up(ctx, md, GTPHANDLER_UNKNOWN_TUNNEL,
					       PCN_GTPU_END_FAILURES, 0);
		counter = u->counter;
	}
	if (pcn_gtpu_strip(ctx, flow->l3, g))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
	gtphandler_count(counter, g->payload, 1);
	pcn_gtpu_end_learn(ctx, flow);
	md->packet_len -= g->at - flow->l3;
	md->traffic_class = class;
	md->tenant = g->qfi;
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	struct pcn_flow flow = {};
	const __u32 *instance;
	struct pcn_gtpu g;
	int result;

	if (pcn_flow_read(ctx, &flow))
		return pcn_pkt_pass(ctx, md);
	instance = pcn_gtpu_end_is_for(&flow);
	if (!instance)
		return pcn_pkt_pass(ctx, md);
	result = pcn_gtpu_end_read(ctx, md, &flow, &g);
	if (result != PCN_GTPU_END_PACKET)
		return result;
	return gtphandler_receive(ctx, md, &flow, &g, *instance);
}

/* Encapsulates a packet to a user. */
PCN_INLINE int gtphandler_send(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow,
			       const struct gtphandler_user *u)
{
	struct pcn_encap outer = { .ttl = 64,
				   .ipv6 = u->ipv6,
				   .kind = PCN_ENCAP_GUE,
				   .source_port = pcn_gtpu_end_port(flow) };
	struct pcn_gtpu_tunnel tunnel = { .teid = u->by_class ? md->traffic_class : u->teid,
					  .qfi = u->qfi };
	__u32 bytes = md->packet_len - flow->l3, overhead = pcn_gtpu_overhead(&outer, &tunnel);
	__u32 counter = u->counter;
	int result = pcn_gtpu_end_fits(ctx, md, flow, overhead, mtu);

	if (result != PCN_GTPU_END_PACKET)
		return result;
	pcn_address_copy(outer.source, u->source);
	pcn_address_copy(outer.destination, u->destination);
	if (pcn_gtpu_end_macs(ctx, &tunnel, u->destination) ||
	    pcn_gtpu_encap(ctx, &outer, &tunnel, flow))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_NOT_ENCAPSULATED);
	md->packet_len += overhead;
	gtphandler_count(counter, bytes, 0);
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	struct pcn_flow flow = {};
	const struct gtphandler_user *u;
	int ipv6;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	ipv6 = flow.has & PCN_FLOW_IPV6;
	u = gtphandler_find(flow.destination, ipv6);
	if (!u) {
		struct pcn_network to = { .length = 128 };

		pcn_address_copy(to.prefix, flow.destination);
		u = gtphandler_behind(&to, ipv6);
	}
	return u ? gtphandler_send(ctx, md, &flow, u) : pcn_pkt_pass(ctx, md);
}

#include "frames.h"

/* In place of the two programs above, for Ethernet sessions. */
PCN_PROGRAM(gtphandler_frames_in)
{
	return gtphandler_frame_in(ctx, md);
}

PCN_PROGRAM(gtphandler_frames_out)
{
	return gtphandler_frame_out(ctx, md);
}

PCN_LICENSE;
