// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The packet fields that rules match, read once into words that are compared as a whole. Include
 * <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_KEY_H
#define PCN_CLASSIFY_KEY_H

#include <pcn/config.h>
#include <pcn/extensions.h>
#include <pcn/ip.h>
#include <pcn/md.h>
#include <pcn/vlan.h>

/* The fields that rules match, as words in host byte order; Go package classifier knows the layout.
 * Most rules only match words up to PCN_CLASSIFY_PORTS. */
enum pcn_classify_word {
	PCN_CLASSIFY_LINK, /* in_port:16 vlan:16 ethertype:16 protocol:8 enum pcn_classify_kind:8 */
	PCN_CLASSIFY_SRC, /* IPv4 address in the upper half, or the upper half of an IPv6 address */
	PCN_CLASSIFY_DST,
	PCN_CLASSIFY_PORTS, /* source port:16 destination port:16 TCP flags:8 dscp:8 state:8 0:8 */
	PCN_CLASSIFY_SRC_LOW, /* lower half of an IPv6 address */
	PCN_CLASSIFY_DST_LOW,
	PCN_CLASSIFY_SRC_MAC, /* the first byte is the most significant of the 48 bits */
	PCN_CLASSIFY_DST_MAC,
	PCN_CLASSIFY_MARK, /* traffic class from the metadata */
	PCN_CLASSIFY_WORDS,
};

/* Which headers a packet has, and so which rules can match it. */
enum pcn_classify_kind {
	PCN_CLASSIFY_IPV6 = 0x80, /* a complete IPv6 header */
	PCN_CLASSIFY_IP = 0x40,	  /* a complete IP header */
	PCN_CLASSIFY_PROTOCOL =
		0x20, /* the protocol after the IP header and its extensions is known */
	PCN_CLASSIFY_HAS_PORTS = 0x10, /* a header with ports; later fragments have none */
	PCN_CLASSIFY_FRAGMENT = 0x08,  /* a fragment, the first or a later one */
};

/* The VLAN of an untagged packet. */
#define PCN_CLASSIFY_UNTAGGED 0xffff

struct pcn_classify_key {
	__u64 word[PCN_CLASSIFY_WORDS];
};

/* The fields that rules match: the others are not read. */
enum pcn_classify_fields {
	PCN_CLASSIFY_READ_VLAN = 1,
	PCN_CLASSIFY_READ_MAC = 2,
	PCN_CLASSIFY_READ_IP = 4,
	PCN_CLASSIFY_READ_PORTS = 8,
	PCN_CLASSIFY_READ_TCP = 16,
};

/* Internal: reads the header after the IP header. At TC, bytes outside of the linear area were
 * pulled in. */
PCN_INLINE void pcn_classify_transport(struct pcn_cursor *c, struct pcn_classify_key *key,
				       __u32 fields, __u8 protocol, __u8 fragment)
{
	__u64 *link = &key->word[PCN_CLASSIFY_LINK];

	*link |= (__u64)protocol << 8 | PCN_CLASSIFY_PROTOCOL;
	if (fragment)
		*link |= PCN_CLASSIFY_FRAGMENT;
	if (!(fields & PCN_CLASSIFY_READ_PORTS) || fragment == PCN_FRAGMENT_LATER ||
	    !pcn_has_ports(protocol))
		return;
	void *header = c->pos;
	struct pcn_ports *ports = pcn_parse_ports(c);
	if (!ports)
		return;
	*link |= PCN_CLASSIFY_HAS_PORTS;
	key->word[PCN_CLASSIFY_PORTS] |=
		(__u64)bpf_ntohs(ports->source) << 48 | (__u64)bpf_ntohs(ports->destination) << 32;
	if (fields & PCN_CLASSIFY_READ_TCP && protocol == IPPROTO_TCP && header + 14 <= c->end)
		key->word[PCN_CLASSIFY_PORTS] |= (__u64)((__u8 *)header)[13] << 24;
}

/* Internal: reads the fields of an IPv4 packet. */
PCN_INLINE void pcn_classify_ipv4(struct pcn_cursor *c, struct pcn_classify_key *key, __u32 fields)
{
	struct iphdr *ip = pcn_parse_ipv4(c);

	if (!ip)
		return;
	key->word[PCN_CLASSIFY_LINK] |= PCN_CLASSIFY_IP;
	key->word[PCN_CLASSIFY_SRC] = (__u64)bpf_ntohl(ip->saddr) << 32;
	key->word[PCN_CLASSIFY_DST] = (__u64)bpf_ntohl(ip->daddr) << 32;
	key->word[PCN_CLASSIFY_PORTS] = (__u64)(ip->tos >> 2) << 16;
	__u8 protocol = ip->protocol, fragment = pcn_ipv4_fragment(ip);
	if (pcn_skip_ipv4_options(c, ip))
		fields = 0; /* no transport header */
	pcn_classify_transport(c, key, fields, protocol, fragment);
}

/* Internal: reads the fields of an IPv6 packet, whose header is `at` bytes from the start of the
 * frame. Returns 0. */
PCN_NOINLINE int pcn_classify_ipv6(struct CTXTYPE *ctx, struct pcn_classify_key *key, __u32 at,
				   __u32 fields)
{
	struct pcn_cursor cursor = { pcn_data(ctx) + (at & 31), pcn_data_end(ctx) }, *c = &cursor;
	struct ipv6hdr *ip = pcn_parse_ipv6(c);
	struct pcn_ipv6_payload found = {};
	int done = 0;

	/* If the compiler knew the return value, it would leave r0 undefined. */
	asm volatile("" : "+r"(done));
	if (!ip)
		return done;
	const __be32 *src = ip->saddr.in6_u.u6_addr32, *dst = ip->daddr.in6_u.u6_addr32;
	key->word[PCN_CLASSIFY_LINK] |= PCN_CLASSIFY_IP | PCN_CLASSIFY_IPV6;
	key->word[PCN_CLASSIFY_SRC] = (__u64)bpf_ntohl(src[0]) << 32 | bpf_ntohl(src[1]);
	key->word[PCN_CLASSIFY_SRC_LOW] = (__u64)bpf_ntohl(src[2]) << 32 | bpf_ntohl(src[3]);
	key->word[PCN_CLASSIFY_DST] = (__u64)bpf_ntohl(dst[0]) << 32 | bpf_ntohl(dst[1]);
	key->word[PCN_CLASSIFY_DST_LOW] = (__u64)bpf_ntohl(dst[2]) << 32 | bpf_ntohl(dst[3]);
	key->word[PCN_CLASSIFY_PORTS] = (__u64)((ip->priority << 4 | ip->flow_lbl[0] >> 4) >> 2)
					<< 16;
	if (pcn_has_ports(ip->nexthdr) || ip->nexthdr == IPPROTO_ICMPV6)
		found.protocol = ip->nexthdr; /* most packets have no extension headers */
	else if (pcn_skip_ipv6_extensions(ctx, c, ip->nexthdr, &found))
		return done;
	pcn_classify_transport(c, key, fields, found.protocol, found.fragment);
	return done;
}

/* Internal: bytes to make readable at TC: two tags, IPv6 with extensions, TCP up to its flags. */
#define PCN_CLASSIFY_BYTES (14 + 8 + 40 + 64 + 14)

/* Internal: opens a cursor. At TC, headers may be outside of the linear area. */
PCN_INLINE void pcn_classify_open(struct pcn_cursor *c, struct CTXTYPE *ctx, __u32 fields)
{
#ifdef PCN_TC
	__u32 there = pcn_data_end(ctx) - pcn_data(ctx), all = ctx->len;

	if (fields & PCN_CLASSIFY_READ_IP && there < PCN_CLASSIFY_BYTES && there < all)
		bpf_skb_pull_data(ctx, all < PCN_CLASSIFY_BYTES ? all : PCN_CLASSIFY_BYTES);
#else
	(void)fields;
#endif
	c->pos = pcn_data(ctx);
	c->end = pcn_data_end(ctx);
}

/* Internal: pcn_classify_read, inline. */
PCN_INLINE int pcn_classify_fill(struct CTXTYPE *ctx, struct pcn_classify_key *key, __u32 fields,
				 __u32 in_port, __u32 traffic_class)
{
	struct pcn_cursor c;
	__u64 vlan = PCN_CLASSIFY_UNTAGGED;

	__builtin_memset(key, 0, sizeof(*key));
#ifdef PCN_TC
	if (ctx->vlan_present)
		vlan = ctx->vlan_tci & PCN_VLAN_VID_MASK;
#endif
	pcn_classify_open(&c, ctx, fields);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return -1;
	__be16 proto = eth->h_proto;
	if (fields & PCN_CLASSIFY_READ_MAC) {
		key->word[PCN_CLASSIFY_SRC_MAC] = bpf_cpu_to_be64(pcn_mac(eth->h_source)) >> 16;
		key->word[PCN_CLASSIFY_DST_MAC] = bpf_cpu_to_be64(pcn_mac(eth->h_dest)) >> 16;
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		struct pcn_vlan_hdr *tag = NULL;
		if (pcn_is_vlan_proto(proto))
			tag = pcn_cursor_take(&c, sizeof(*tag));
		if (!tag)
			break;
		if (vlan == PCN_CLASSIFY_UNTAGGED)
			vlan = bpf_ntohs(tag->tci) & PCN_VLAN_VID_MASK;
		proto = tag->proto;
	}
	key->word[PCN_CLASSIFY_LINK] =
		(__u64)in_port << 48 | vlan << 32 | (__u64)bpf_ntohs(proto) << 16;
	key->word[PCN_CLASSIFY_MARK] = traffic_class;
	if (!(fields & PCN_CLASSIFY_READ_IP))
		return 0;
	/* One path from here, whatever the number of tags. */
	__u32 at = pcn_opaque(c.pos - pcn_data(ctx), proto) & 31;
	c.pos = pcn_data(ctx) + at;
	if (proto == bpf_htons(ETH_P_IP)) {
		pcn_classify_ipv4(&c, key, fields);
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		int done = pcn_classify_ipv6(ctx, key, at, fields);
		asm volatile("" : : "r"(done));
	}
	return 0;
}

/* Reads `fields` of a packet that arrived on a port, with a traffic class from the metadata. Returns -1 if
 * there is no Ethernet header. Invalidates packet pointers that were read before. A packet with a
 * malformed IP header does not count as IP; one without ports (a later fragment, ICMP, a truncated
 * header) matches no rule that specifies ports. */
PCN_GLOBAL int pcn_classify_read(struct CTXTYPE *ctx, struct pcn_classify_key *key PCN_NONNULL,
				 __u32 fields, __u32 in_port, __u32 traffic_class)
{
	return pcn_classify_fill(ctx, key, fields, in_port, traffic_class);
}

#endif
