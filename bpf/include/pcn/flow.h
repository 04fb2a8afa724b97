// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reads a packet from Ethernet to the ports, once, into one struct: tags, IP with options and
 * extension headers, fragments, ICMP. The reader is a function that the kernel verifies once for
 * all callers. It moves no packet bytes, and reads headers wherever they are: at TC in fragments of
 * an skb, at XDP in any buffer of a long frame. Go package flow reads a frame in the same way.
 *
 *	struct pcn_flow flow = {};
 *
 *	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_PORTS))
 *		return pcn_pkt_pass(ctx, md); */
#ifndef PCN_FLOW_H
#define PCN_FLOW_H

#include <pcn/address.h>
#include <pcn/extensions.h>
#include <pcn/ip.h>
#include <pcn/md.h>
#include <pcn/vlan.h>

/* Which headers a packet has. Rules are sorted by these bits, so the one that divides most is the
 * highest. */
enum pcn_flow_has {
	PCN_FLOW_IPV6 = 0x80,  /* the IP header is one of IPv6 */
	PCN_FLOW_IP = 0x40,    /* the fixed IP header: addresses, dscp, l3, fragment */
	PCN_FLOW_L4 = 0x20,    /* all options or extension headers: protocol, l4 */
	PCN_FLOW_PORTS = 0x10, /* the ports; later fragments have none */
	PCN_FLOW_TCP = 0x08,   /* the flags of TCP */
	PCN_FLOW_ICMP = 0x04,  /* the first eight bytes of ICMP, or of ICMPv6 */
};

/* The VLAN of an untagged packet. */
#define PCN_FLOW_UNTAGGED 0xffff

/* The tags that are read, one in the skb included. Another one is an unknown EtherType. */
#define PCN_FLOW_TAGS 2

/* A packet, as seven words of 64 bits that can be compared and hashed; what it does not have is 0.
 * The first five, up to protocol, are the same for all packets of a connection in one direction. In
 * Go: flow.Flow. */
struct pcn_flow {
	pcn_address source;
	pcn_address destination;
	__be16 source_port; /* both are the id of an ICMP query or its reply */
	__be16 destination_port;
	__u16 vlan; /* id of the outer tag, or PCN_FLOW_UNTAGGED */
	__u8 protocol;
	__u8 zero;
	__be16 ethertype; /* after the tags */
	__u8 has;	  /* enum pcn_flow_has */
	__u8 fragment;	  /* enum pcn_fragment */
	__u8 tcp_flags;
	__u8 dscp;
	__u8 icmp_type;
	__u8 icmp_code;
	__be32 id; /* of the fragments of a datagram; of IPv4 also for packets that are whole */
	__u16 l3; /* bytes from the start of the frame to the IP header, without a tag in the skb */
	__u16 l4; /* and to the header after it */
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct pcn_flow) == 56, "a flow is seven words");

/* How headers are read. */
enum pcn_flow_mode {
	PCN_FLOW_DIRECT = 1, /* only where that is possible; else the reader gives up */
	PCN_FLOW_INNER = 2,  /* a packet in an ICMP error, which may be cut off after 8 bytes */
	PCN_FLOW_LINK = 4,   /* the Ethernet header and tags alone */
};

/* Internal: the result of the direct reader where a header cannot be read directly, or is missing.
 */
#define PCN_FLOW_ELSEWHERE 1

/* Internal: the header at byte `at`, or a copy of it: NULL if it is not there. */
PCN_INLINE void *pcn_flow_header(struct CTXTYPE *ctx, __u32 at, const __u32 size, void *buffer,
				 const __u32 mode)
{
	if (!(mode & PCN_FLOW_DIRECT))
		return pcn_load_bytes(ctx, at, buffer, size) ? NULL : buffer;
	void *there = pcn_data(ctx) + (at & 0x3ff);
	return there + size > pcn_data_end(ctx) ? NULL : there;
}

/* Internal: reads the ports, the flags of TCP, or ICMP. */
PCN_INLINE int pcn_flow_l4(struct CTXTYPE *ctx, struct pcn_flow *f, void *buffer, __u32 at,
			   __u8 protocol, __u32 has, const __u32 mode)
{
	const int missing = mode & PCN_FLOW_DIRECT ? PCN_FLOW_ELSEWHERE : 0;
	struct pcn_ports *ports = NULL;

	if (protocol == (has & PCN_FLOW_IPV6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
		struct pcn_icmp *icmp = pcn_flow_header(ctx, at, sizeof(*icmp), buffer, mode);

		if (!icmp)
			return missing;
		f->icmp_type = icmp->type;
		f->icmp_code = icmp->code;
		if (has & PCN_FLOW_IPV6 ? pcn_icmp6_has_id(icmp->type)
					: pcn_icmp_has_id(icmp->type))
			f->source_port = f->destination_port = icmp->id;
		f->has = has | PCN_FLOW_ICMP;
		return 0;
	}
	if (!pcn_has_ports(protocol))
		return 0;
	if (protocol == IPPROTO_TCP && !(mode & PCN_FLOW_INNER)) {
		ports = pcn_flow_header(ctx, at, 14, buffer, mode);
		if (!ports && missing)
			return missing;
		if (ports) {
			f->tcp_flags = ((__u8 *)ports)[13];
			has |= PCN_FLOW_TCP;
		}
	}
	if (!ports)
		ports = pcn_flow_header(ctx, at, sizeof(*ports), buffer, mode);
	if (!ports)
		return missing;
	f->source_port = ports->source;
	f->destination_port = ports->destination;
	f->has = has | PCN_FLOW_PORTS;
	return 0;
}

/* Internal: reads an IPv4 header. Returns the start of the next header; 0 if there is no IPv4
 * header, -1 if it cannot be read. */
PCN_INLINE int pcn_flow_ipv4(struct CTXTYPE *ctx, struct pcn_flow *f, void *buffer, __u32 at,
			     const __u32 mode)
{
	struct iphdr *ip = pcn_flow_header(ctx, at, sizeof(*ip), buffer, mode);

	if (!ip)
		return -1;
	__u32 length = ip->ihl * 4;
	if (ip->version != 4 || length < sizeof(*ip) ||
	    (!(mode & PCN_FLOW_INNER) && bpf_ntohs(ip->tot_len) < length))
		return 0;
	pcn_address_set4_whole(f->source, ip->saddr);
	pcn_address_set4_whole(f->destination, ip->daddr);
	f->dscp = ip->tos >> 2;
	f->fragment = pcn_ipv4_fragment(ip);
	f->id = (__be32)ip->id;
	f->protocol = ip->protocol;
	f->has = PCN_FLOW_IP;
	return at + length;
}

/* Internal: the bytes of an IPv6 header before its addresses, which are loaded separately: the stack
 * of Linux 6.1 is too small for a copy of the whole header. */
#define PCN_FLOW_IPV6_BEGIN 8

/* Internal: the same for IPv6, past its extension headers. */
PCN_INLINE int pcn_flow_ipv6(struct CTXTYPE *ctx, struct pcn_flow *f, void *buffer, __u32 at,
			     const __u32 mode)
{
	const __u32 size = mode & PCN_FLOW_DIRECT ? sizeof(struct ipv6hdr) : PCN_FLOW_IPV6_BEGIN;
	struct ipv6hdr *ip = pcn_flow_header(ctx, at, size, buffer, mode);
	int length;

	if (!ip)
		return -1;
	if (ip->version != 6)
		return 0;
	if (mode & PCN_FLOW_DIRECT) {
		pcn_address_set6(f->source, &ip->saddr);
		pcn_address_set6(f->destination, &ip->daddr);
	} else if (pcn_load_bytes(ctx, at + PCN_FLOW_IPV6_BEGIN, f->source,
				  2 * sizeof(pcn_address))) {
		return -1;
	}
	f->dscp = (ip->priority << 4 | ip->flow_lbl[0] >> 4) >> 2;
	f->protocol = ip->nexthdr;
	f->has = PCN_FLOW_IP | PCN_FLOW_IPV6;
	at += sizeof(*ip);
	if (!pcn_is_ipv6_extension(ip->nexthdr))
		return at;
	struct pcn_ipv6_payload found = { .protocol = ip->nexthdr };
	length = pcn_ipv6_walk(ctx, at, &found);
	f->protocol = length < 0 ? 0 : found.protocol;
	f->fragment = length < 0 ? 0 : found.fragment;
	f->id = length < 0 ? 0 : found.id;
	return length < 0 ? 0 : at + length;
}

/* Internal: reads an IP packet from its header at byte `at` on. */
PCN_INLINE int pcn_flow_ip(struct CTXTYPE *ctx, struct pcn_flow *f, void *buffer, __u32 at,
			   __be16 proto, const __u32 mode)
{
	const int missing = mode & PCN_FLOW_DIRECT ? PCN_FLOW_ELSEWHERE : 0;
	int l4 = proto == bpf_htons(ETH_P_IPV6) ? pcn_flow_ipv6(ctx, f, buffer, at, mode)
						: pcn_flow_ipv4(ctx, f, buffer, at, mode);
	__u32 has = f->has;

	f->l3 = at;
	if (l4 <= 0)
		return l4 ? missing : 0;
	if (mode & PCN_FLOW_DIRECT ? pcn_data(ctx) + (l4 & 0x3ff) > pcn_data_end(ctx)
				   : (__u32)l4 > pcn_frame_len(ctx))
		return missing;
	has |= PCN_FLOW_L4;
	f->has = has;
	f->l4 = l4;
	if (f->fragment == PCN_FRAGMENT_LATER)
		return 0;
	return pcn_flow_l4(ctx, f, buffer, l4, f->protocol, has, mode);
}

/* Internal: reads a frame. 0, PCN_FLOW_ELSEWHERE, or -1 if its Ethernet header or a tag is
 * incomplete. */
PCN_INLINE int pcn_flow_frame(struct CTXTYPE *ctx, struct pcn_flow *f, void *buffer,
			      const __u32 mode)
{
	struct ethhdr *eth = pcn_flow_header(ctx, 0, sizeof(*eth), buffer, mode);
	__u32 at = sizeof(*eth), vlan = PCN_FLOW_UNTAGGED, tags = 0;

	if (!eth)
		return mode & PCN_FLOW_DIRECT ? PCN_FLOW_ELSEWHERE : -1;
	__be16 proto = eth->h_proto;
#ifdef PCN_TC
	if (ctx->vlan_present) {
		vlan = ctx->vlan_tci & PCN_VLAN_VID_MASK;
		tags = 1;
	}
#endif
	for (int i = 0; i < PCN_FLOW_TAGS; i++, tags++) {
		struct pcn_vlan_hdr *tag;

		if (!pcn_is_vlan_proto(proto) || tags == PCN_FLOW_TAGS)
			break;
		tag = pcn_flow_header(ctx, at, sizeof(*tag), buffer, mode);
		if (!tag)
			return mode & PCN_FLOW_DIRECT ? PCN_FLOW_ELSEWHERE : -1;
		if (!tags)
			vlan = bpf_ntohs(tag->tci) & PCN_VLAN_VID_MASK;
		proto = tag->proto;
		at += sizeof(*tag);
	}
	f->vlan = vlan;
	f->ethertype = proto;
	if (mode & PCN_FLOW_LINK)
		return 0;
	at = pcn_opaque(at, proto) & 0x1f; /* one path from here, whatever the number of tags */
	if (proto != bpf_htons(ETH_P_IP) && proto != bpf_htons(ETH_P_IPV6))
		return 0;
	return pcn_flow_ip(ctx, f, buffer, at, proto, mode);
}

/* Internal: the reader for headers that cannot be read directly. */
PCN_GLOBAL int pcn_flow_load(struct CTXTYPE *ctx, struct pcn_flow *flow PCN_NONNULL, __u32 at,
			     __u32 proto)
{
	__u64 buffer[3]; /* for the largest header, that of IPv4 */

	__builtin_memset(flow, 0, sizeof(*flow));
	if (!at)
		return pcn_flow_frame(ctx, flow, buffer, 0);
	flow->vlan = PCN_FLOW_UNTAGGED;
	flow->ethertype = proto;
	return pcn_flow_ip(ctx, flow, buffer, at, proto, PCN_FLOW_INNER);
}

/* Internal: reads a packet, or with PCN_FLOW_LINK its Ethernet header and tags, and maybe more. */
PCN_INLINE int pcn_flow_read_mode(struct CTXTYPE *ctx, struct pcn_flow *flow, __u32 mode)
{
	int result = pcn_flow_frame(ctx, flow, NULL, PCN_FLOW_DIRECT | mode);

	return result == PCN_FLOW_ELSEWHERE ? pcn_flow_load(ctx, flow, 0, 0) : result;
}

/* The same as pcn_flow_read, but inlined: it saves the time of a call, and is verified with each of
 * its callers. */
PCN_INLINE int pcn_flow_read_inline(struct CTXTYPE *ctx, struct pcn_flow *flow)
{
	return pcn_flow_read_mode(ctx, flow, 0);
}

/* Reads a packet; -1 if its Ethernet header or a tag is incomplete. `flow` must be 0. The headers
 * that a packet has are in flow->has: not PCN_FLOW_IP, if the EtherType is another one or the IP
 * header malformed. Lengths are not compared with that of the frame, and checksums are not
 * verified. In each program, the verifier processes it once: 4,560 instructions at TC and 4,424 at
 * XDP on Linux 6.1, 4,510 and 4,415 on 6.12, 4,066 and 4,795 on 6.18. */
PCN_GLOBAL int pcn_flow_read(struct CTXTYPE *ctx, struct pcn_flow *flow PCN_NONNULL)
{
	return pcn_flow_read_inline(ctx, flow);
}

/* Internal: reads a frame if it is one of the common kind, else leaves the flow as it is and returns -1: without tags, with
 * an IPv4 header without options that is no fragment's, and TCP or UDP behind it, all in its first buffer. */
PCN_INLINE int pcn_flow_common(struct CTXTYPE *ctx, struct pcn_flow *flow)
{
	struct ethhdr *eth = pcn_data(ctx);
	struct iphdr *ip = (void *)(eth + 1);
	__u64 *word = (void *)flow, has = PCN_FLOW_IP | PCN_FLOW_L4 | PCN_FLOW_PORTS, flags = 0;

	if ((void *)(ip + 1) + 14 > pcn_data_end(ctx) || eth->h_proto != bpf_htons(ETH_P_IP) ||
	    *(__u8 *)ip != 0x45 || bpf_ntohs(ip->tot_len) < sizeof(*ip) ||
	    (ip->frag_off & bpf_htons(0x3fff)))
		return -1;
#ifdef PCN_TC
	if (ctx->vlan_present)
		return -1;
#endif
	if (ip->protocol == IPPROTO_TCP) {
		has |= PCN_FLOW_TCP;
		flags = ((__u8 *)(ip + 1))[13];
	} else if (ip->protocol != IPPROTO_UDP) {
		return -1;
	}
	pcn_address_set4_whole(flow->source, ip->saddr);
	pcn_address_set4_whole(flow->destination, ip->daddr);
	word[4] = *(__u32 *)(ip + 1) | (__u64)PCN_FLOW_UNTAGGED << 32 | (__u64)ip->protocol << 48;
	word[5] = bpf_htons(ETH_P_IP) | has << 16 | flags << 32 | (__u64)(ip->tos >> 2) << 40;
	word[6] = ip->id | (__u64)sizeof(*eth) << 32 | (__u64)(sizeof(*eth) + sizeof(*ip)) << 48;
	return 0;
}

/* pcn_flow_read for programs that mostly see packets of TCP and UDP over IPv4: those are read without a call, and all at
 * once. `flow` need not be 0. */
PCN_INLINE int pcn_flow_read_common(struct CTXTYPE *ctx, struct pcn_flow *flow)
{
	if (!pcn_flow_common(ctx, flow))
		return 0;
	__builtin_memset(flow, 0, sizeof(*flow));
	return pcn_flow_read(ctx, flow);
}

/* Internal: pcn_flow_read_inner where the packet can be read directly; else PCN_FLOW_ELSEWHERE. */
PCN_GLOBAL int pcn_flow_try_inner(struct CTXTYPE *ctx, struct pcn_flow *flow PCN_NONNULL, __u32 at,
				  __u32 proto)
{
	flow->vlan = PCN_FLOW_UNTAGGED;
	flow->ethertype = proto;
	return pcn_flow_ip(ctx, flow, NULL, at & 0x3ff, proto, PCN_FLOW_DIRECT | PCN_FLOW_INNER);
}

/* Reads the packet in an ICMP error, whose IP header is at byte `at` of the frame: flow.l4 + 8 of
 * the error. proto is the EtherType of the error. The packet may be cut off: the flags of TCP are
 * not read, and the length in its header is ignored. `flow` must be 0. Returns 0. The two readers are
 * called one after the other, as each needs much of the stack. */
PCN_INLINE int pcn_flow_read_inner(struct CTXTYPE *ctx, struct pcn_flow *flow, __u32 at,
				   __u32 proto)
{
	return pcn_flow_try_inner(ctx, flow, at, proto)
		       ? pcn_flow_load(ctx, flow, at & 0x3ff, proto)
		       : 0;
}

/* True for neighbour discovery (RFC 4861) of the link, which no router forwards, and without which a link
 * does not work. */
PCN_INLINE int pcn_is_neighbour_discovery(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	__u8 hop_limit = 0;

	if (!(flow->has & PCN_FLOW_IPV6) || !(flow->has & PCN_FLOW_ICMP) || flow->icmp_type < 133 ||
	    flow->icmp_type > 137)
		return 0;
	return !pcn_load_bytes(ctx, flow->l3 + 7, &hop_limit, 1) && hop_limit == 255;
}

/* Internal: mixes a word into a hash. */
PCN_INLINE __u32 pcn_flow_mix(__u32 hash, __u32 word)
{
	hash = (hash ^ word) * 0x85ebca6bU;
	return hash ^ hash >> 15;
}

/* Internal: mixes an address to one word. */
PCN_INLINE __u32 pcn_flow_fold(const __be32 *a)
{
	__u64 high = (__u64)a[0] << 32 | a[1], low = (__u64)a[2] << 32 | a[3];

	return (high * 0x9e3779b97f4a7c15ULL ^ low * 0xc2b2ae3d27d4eb4fULL) >> 32;
}

/* The hash of a flow, never 0: of its addresses, ports and protocol. All fragments of a datagram
 * have the same, which only depends on the addresses. In Go: Flow.Hash. */
PCN_INLINE __u32 pcn_flow_hash(const struct pcn_flow *flow)
{
	__u32 hash = pcn_flow_mix(pcn_flow_fold(flow->source), pcn_flow_fold(flow->destination));

	if (flow->fragment == PCN_FRAGMENT_NONE) {
		hash = pcn_flow_mix(hash, flow->source_port | (__u32)flow->destination_port << 16);
		hash = pcn_flow_mix(hash, flow->protocol);
	}
	return hash ? hash : 1;
}

/* Sets the hash of the packet's flow in the metadata, from where all further cubes of the chain get
 * it. */
PCN_INLINE void pcn_set_flow_hash(struct pcn_md *md, __u32 hash)
{
	md->flow_hash = hash ? hash : 1;
}

/* The hash of the packet's flow from the metadata; if there is none, computes and sets it. */
PCN_INLINE __u32 pcn_get_flow_hash(struct pcn_md *md, const struct pcn_flow *flow)
{
	if (!md->flow_hash)
		pcn_set_flow_hash(md, pcn_flow_hash(flow));
	return md->flow_hash;
}

#endif
