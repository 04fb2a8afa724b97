// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The end of GTP-U tunnels in a cube: which packets are for it, what becomes of messages that are no packets of users, where its
 * peers are, and what user space has to do. Go package gtppath does that, and owns the maps. The enums of the cube's reasons
 * begin with those of this header:
 *
 *	enum upf_reason { PCN_GTPU_END_REASONS(UPF), UPF_NO_RULE };
 *	PCN_REASONS(upf_reason);
 *	enum upf_slowpath_reason { PCN_GTPU_END_SLOWPATH_REASONS(UPF) };
 *	PCN_SLOWPATH_REASONS(upf_slowpath_reason);
 *
 *	if (pcn_flow_read(ctx, &flow) || !pcn_gtpu_end_is_for(&flow))
 *		return pcn_pkt_pass(ctx, md);
 *	result = pcn_gtpu_end_read(ctx, md, &flow, &g);
 *	if (result != PCN_GTPU_END_PACKET)
 *		return result; */
#ifndef PCN_GTPU_END_H
#define PCN_GTPU_END_H

#include <pcn/bucket.h>
#include <pcn/gtpu.h>
#include <pcn/map.h>
#include <pcn/segments.h>
#include <pcn/time.h>
#include <pcn/verdict.h>

/* The first drop reasons of a cube, whose enum has a prefix:
 * OUTER_FRAGMENT: a fragment of a packet with a tunnel: it is not reassembled;
 * WRONG_VERSION: GTP of another version, or GTP';
 * MALFORMED: GTP-U that is shorter than it says, or no packet in a tunnel;
 * UNKNOWN_MESSAGE: a message of a type that is unknown or needs no action;
 * END_MARKER: the last message of a tunnel that has moved;
 * SPOOFED_SOURCE: a packet whose source is not the user of its tunnel;
 * NOT_ENCAPSULATED: a packet that could not enter its tunnel;
 * SUPERFRAME: TC: several messages in one skb;
 * FLOODED: user space has had enough of such messages or packets. */
#define PCN_GTPU_END_REASONS(prefix)                                                            \
	prefix##_OUTER_FRAGMENT = PCN_REASON_FIRST, prefix##_WRONG_VERSION, prefix##_MALFORMED, \
	prefix##_UNKNOWN_MESSAGE, prefix##_END_MARKER, prefix##_SPOOFED_SOURCE,                 \
	prefix##_NOT_ENCAPSULATED, prefix##_SUPERFRAME, prefix##_FLOODED

/* The first slow path reasons of a cube, which gtppath.Path.PacketIn takes:
 * ECHO: a request to be answered, or the response to one;
 * UNKNOWN_TUNNEL: a packet with the TEID of no tunnel, to be answered by an Error Indication;
 * UNKNOWN_EXTENSION: a message with an extension header that must be known, to be answered;
 * ERROR_INDICATION: a peer does not know a tunnel;
 * TOO_BIG: a packet for a user that is too big for its tunnel: answered or fragmented;
 * SEGMENT: TC: a superframe for a user, to be cut into segments. */
#define PCN_GTPU_END_SLOWPATH_REASONS(prefix)                                                  \
	prefix##_ECHO = PCN_REASON_FIRST, prefix##_UNKNOWN_TUNNEL, prefix##_UNKNOWN_EXTENSION, \
	prefix##_ERROR_INDICATION, prefix##_TOO_BIG, prefix##_SEGMENT

/* The same for this header. */
enum pcn_gtpu_end_reason { PCN_GTPU_END_REASONS(PCN_GTPU_END) };
enum pcn_gtpu_end_slowpath_reason { PCN_GTPU_END_SLOWPATH_REASONS(PCN_GTPU_END) };

/* What user space takes: messages about paths, and what has failed. */
enum pcn_gtpu_end_limit { PCN_GTPU_END_PATHS, PCN_GTPU_END_FAILURES, PCN_GTPU_END_LIMITS };

/* In Go: gtppath.Limits. */
struct pcn_gtpu_end_limits {
	struct pcn_bucket_limit paths;
	struct pcn_bucket_limit failures;
};

PCN_MAP(limits, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_gtpu_end_limits, 1);
PCN_MAP(buckets, BPF_MAP_TYPE_ARRAY, __u32, __u64, PCN_GTPU_END_LIMITS);
/* The addresses of this end of tunnels, with the number of the network instance of each; 0: it has no name. */
PCN_MAP(addresses, BPF_MAP_TYPE_HASH, pcn_address, __u32, 64);
/* The MAC address that packets of each peer have come from, in the lower 48 bits; 0: none has come yet. Programs leave the other bits
 * as they are: user space has the number of a network instance there. The cube sets the size of the map. */
PCN_MAP_FLAGS(stations, BPF_MAP_TYPE_HASH, pcn_address, __u64, 1024, BPF_F_NO_PREALLOC);

/* Internal: these bits. */
#define PCN_GTPU_END_MAC 0xffffffffffffull

/* A tunnel of a network instance with a name: a TEID identifies a tunnel only within its network instance. In Go: gtppath.Tunnel. */
struct pcn_gtpu_end_tunnel {
	__u32 teid;
	__u32 instance;
};

/* Instead of a verdict: the packet of a user, with which the caller continues, and an End Marker, if the caller takes those. */
#define PCN_GTPU_END_PACKET (-1)
#define PCN_GTPU_END_LAST (-2)

/* Internal: whether user space takes another message or packet of a kind, an enum pcn_gtpu_end_limit. The verifier processes it
 * once, as it rarely runs. */
PCN_GLOBAL int pcn_gtpu_end_takes(__u32 which)
{
	__u32 zero = 0;
	struct pcn_gtpu_end_limits *l = bpf_map_lookup_elem(&limits, &zero);
	__u64 *bucket = bpf_map_lookup_elem(&buckets, &which);

	return l && bucket &&
	       pcn_bucket_take(bucket, which == PCN_GTPU_END_PATHS ? &l->paths : &l->failures, 1,
			       pcn_time_coarse());
}

/* Hands a packet to user space, as far as that takes more. `word` is for user space. The verdict. */
PCN_INLINE int pcn_gtpu_end_up(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason,
			       const enum pcn_gtpu_end_limit which, __u32 word)
{
	const __u32 words[4] = { word };

	if (!pcn_gtpu_end_takes(which))
		return pcn_pkt_drop(ctx, md, PCN_GTPU_END_FLOODED);
	return pcn_pkt_controller_md(ctx, md, reason, words);
}

/* Notes where a peer is: the sender of the packet that `flow` describes. Only known ones have an entry. */
PCN_INLINE void pcn_gtpu_end_learn(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	__u64 *known = bpf_map_lookup_elem(&stations, flow->source);
	struct ethhdr *eth = pcn_data(ctx);

	if (!known || (void *)(eth + 1) > pcn_data_end(ctx))
		return;
	__u64 mac = pcn_macs(eth).from | (*known & ~PCN_GTPU_END_MAC);
	if (*known != mac)
		*known = mac;
}

/* Internal: the fate of a message that is not a packet of a user, or not one that can be read. */
PCN_INLINE int pcn_gtpu_end_control(struct CTXTYPE *ctx, struct pcn_md *md,
				    const struct pcn_flow *flow, const struct pcn_gtpu *g,
				    int result)
{
	switch (result) {
	case PCN_GTPU_VERSION:
		return pcn_pkt_drop(ctx, md, PCN_GTPU_END_WRONG_VERSION);
	case PCN_GTPU_MALFORMED:
		return pcn_pkt_drop(ctx, md, PCN_GTPU_END_MALFORMED);
	case PCN_GTPU_UNKNOWN:
		return pcn_gtpu_end_up(ctx, md, PCN_GTPU_END_UNKNOWN_EXTENSION,
				       PCN_GTPU_END_FAILURES, 0);
	}
	switch (g->type) {
	case PCN_GTPU_ECHO_REQUEST:
	case PCN_GTPU_ECHO_RESPONSE:
		pcn_gtpu_end_learn(ctx, flow);
		return pcn_gtpu_end_up(ctx, md, PCN_GTPU_END_ECHO, PCN_GTPU_END_PATHS, 0);
	case PCN_GTPU_ERROR_INDICATION:
		return pcn_gtpu_end_up(ctx, md, PCN_GTPU_END_ERROR_INDICATION,
				       PCN_GTPU_END_FAILURES, 0);
	}
	return pcn_pkt_drop(ctx, md, PCN_GTPU_END_UNKNOWN_MESSAGE);
}

/* The number of the network instance that a packet is for: it is GTP-U to one of the addresses of this end of tunnels. NULL: it is
 * not. Later fragments, which have no ports, are not. */
PCN_INLINE const __u32 *pcn_gtpu_end_is_for(const struct pcn_flow *flow)
{
	if (flow->protocol != IPPROTO_UDP || flow->destination_port != bpf_htons(PCN_GTPU_PORT))
		return NULL;
	return bpf_map_lookup_elem(&addresses, flow->destination);
}

/* Reads a packet that is for the end of tunnels, as pcn_gtpu_end_read does, but leaves an End Marker to the caller, which is told
 * PCN_GTPU_END_LAST. */
PCN_INLINE int pcn_gtpu_end_read_all(struct CTXTYPE *ctx, struct pcn_md *md,
				     const struct pcn_flow *flow, struct pcn_gtpu *g)
{
	const struct udphdr *udp = pcn_header(ctx, flow->l4, sizeof(*udp));
	__be16 length;
	int result;

	if (flow->fragment != PCN_FRAGMENT_NONE)
		return pcn_pkt_drop(ctx, md, PCN_GTPU_END_OUTER_FRAGMENT);
	if (pcn_is_superframe(ctx)) /* each of its messages has a length of its own */
		return pcn_pkt_drop(ctx, md, PCN_GTPU_END_SUPERFRAME);
	if (udp && flow->l4 <= 0x3ff)
		length = udp->len;
	else if (pcn_load_bytes(ctx, flow->l4 + offsetof(struct udphdr, len), &length,
				sizeof(length)))
		length = 0;
	if (bpf_ntohs(length) < sizeof(*udp))
		return pcn_pkt_drop(ctx, md, PCN_GTPU_END_MALFORMED);
	result = pcn_gtpu_read(ctx, flow->l4 + sizeof(struct udphdr),
			       bpf_ntohs(length) - sizeof(struct udphdr), g);
	if (result == PCN_GTPU_OK && g->type == PCN_GTPU_PDU)
		return PCN_GTPU_END_PACKET;
	if (result == PCN_GTPU_OK && g->type == PCN_GTPU_END_MARKER)
		return PCN_GTPU_END_LAST;
	return pcn_gtpu_end_control(ctx, md, flow, g, result);
}

/* Reads a packet that is for the end of tunnels. PCN_GTPU_END_PACKET if it is the packet of a user, which `g` describes; else
 * it was dealt with, and that is its verdict. */
PCN_INLINE int pcn_gtpu_end_read(struct CTXTYPE *ctx, struct pcn_md *md,
				 const struct pcn_flow *flow, struct pcn_gtpu *g)
{
	int result = pcn_gtpu_end_read_all(ctx, md, flow, g);

	return result == PCN_GTPU_END_LAST ? pcn_pkt_drop(ctx, md, PCN_GTPU_END_END_MARKER)
					   : result;
}

/* Checks whether a packet for a user can enter a tunnel that adds `overhead` bytes, on a path that takes `mtu` bytes from the IP
 * header on. PCN_GTPU_END_PACKET if it can; else user space gets it, and that is its verdict. */
PCN_INLINE int pcn_gtpu_end_fits(struct CTXTYPE *ctx, struct pcn_md *md,
				 const struct pcn_flow *flow, __u32 overhead, __u32 mtu)
{
	if (pcn_is_superframe(ctx))
		return pcn_pkt_controller(ctx, md, PCN_GTPU_END_SEGMENT);
	if (md->packet_len - flow->l3 + overhead > mtu)
		return pcn_gtpu_end_up(ctx, md, PCN_GTPU_END_TOO_BIG, PCN_GTPU_END_FAILURES,
				       mtu - overhead);
	return PCN_GTPU_END_PACKET;
}

/* The source port of a tunnel: the packets of a connection have the same, so that the path can balance connections. */
PCN_INLINE __be16 pcn_gtpu_end_port(const struct pcn_flow *flow)
{
	__u32 ports = flow->source_port ^ flow->destination_port ^ flow->source[3];

	return bpf_htons(0xc000 | ((ports ^ ports >> 16) & 0x3fff));
}

/* Gives a tunnel the addresses of the frame: those that the packet has, or the peer's, if it has been heard. -1 if there is
 * no frame. */
PCN_INLINE int pcn_gtpu_end_macs(struct CTXTYPE *ctx, struct pcn_gtpu_tunnel *t, const __be32 *peer)
{
	__u64 *known = bpf_map_lookup_elem(&stations, peer);
	struct ethhdr *eth = pcn_data(ctx);

	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return -1;
	struct pcn_macs macs = pcn_macs(eth);
	t->from = macs.from;
	t->to = known && *known & PCN_GTPU_END_MAC ? *known & PCN_GTPU_END_MAC : macs.to;
	return 0;
}

#endif
