// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Parses packets, and translates them for a session. */
#ifndef NAT_REWRITE_H
#define NAT_REWRITE_H

#include <pcn/ip.h>
#include "open.h"

#define NAT_EGRESS 1
#define NAT_INGRESS 0

/* The fields that the NAT reads from a packet, except for the key. */
struct nat_view {
	__u32 l3; /* start of its headers, in bytes from the start of the frame */
	__u32 l4;
	__be16 local_port, remote_port;
	__be32 id;  /* id of the datagram of this fragment */
	__u32 what; /* enum nat_kind, and of the following */
};

/* Offset of the checksum from l4; 0: there is none. */
#define NAT_CHECK(offset) ((offset) << 8)
#define NAT_CHECK_OF(what) ((what) >> 8 & 0x1f)
/* A checksum of 0 means that there is none. */
#define NAT_CHECK_UDP 0x2000
/* The first fragment of a datagram. */
#define NAT_FIRST 0x4000
/* NAT_OUT_SYN ... for this packet. */
#define NAT_BITS(bits) ((bits) << 16)
#define NAT_BITS_OF(what) ((what) >> 16)
#define NAT_KIND_OF(what) ((what)&0xff)

union nat_any_key {
	struct nat_key4 four;
	struct nat_key6 six;
};

/* At TC, makes the first len bytes readable, or all of a shorter packet. Only data in fragments of
 * the buffer is moved. */
PCN_INLINE void nat_reach(struct CTXTYPE *ctx, __u32 len)
{
#ifdef PCN_TC
	__u32 linear = pcn_data_end(ctx) - pcn_data(ctx);

	if (linear < len && linear < ctx->len)
		bpf_skb_pull_data(ctx, ctx->len < len ? ctx->len : len);
	asm volatile("" : : : "memory"); /* pointers are read again */
#else
	(void)ctx;
	(void)len;
#endif
}

PCN_INLINE __u32 nat_tcp_bits(__u8 flags)
{
	return (flags >> 1 & 1) * NAT_OUT_SYN | (flags >> 4 & 1) * NAT_OUT_ACK |
	       (flags & 1) * NAT_OUT_FIN | (flags >> 2 & 1) * NAT_OUT_RST;
}

/* Reads an ICMP header. */
PCN_INLINE int nat_read_icmp(struct pcn_cursor *c, struct nat_view *v, const int v6)
{
	struct pcn_icmp *icmp = pcn_parse_icmp(c);
	__u32 kind;

	if (!icmp)
		return -1;
	if (v6 ? pcn_icmp6_has_id(icmp->type) : pcn_icmp_has_id(icmp->type)) {
		kind = NAT_QUERY;
		v->local_port = icmp->id;
	} else if (v6 ? pcn_icmp6_is_error(icmp->type) : pcn_icmp_is_error(icmp->type)) {
		kind = NAT_ERROR;
	} else {
		kind = v6 && icmp->type >= 133 && icmp->type <= 137 ? NAT_LOCAL : NAT_REST;
	}
	v->what = kind | NAT_CHECK(2) | NAT_BITS(NAT_OUT_ACK);
	return 0;
}

/* Reads the header after the IP header. -1 if it is incomplete. */
PCN_INLINE int nat_read_l4(struct pcn_cursor *c, struct nat_view *v, __u8 proto, const int egress,
			   const int v6)
{
	struct pcn_ports *ports = c->pos;

	v->local_port = v->remote_port = 0;
	switch (proto) {
	case IPPROTO_TCP:
		if (c->pos + 20 > c->end)
			return -1;
		v->what = NAT_PORTS | NAT_CHECK(16) | NAT_BITS(nat_tcp_bits(((__u8 *)c->pos)[13]));
		break;
	case IPPROTO_UDP:
		v->what = NAT_PORTS | NAT_CHECK(6) | NAT_CHECK_UDP | NAT_BITS(NAT_OUT_ACK);
		break;
	case IPPROTO_UDPLITE:
	case IPPROTO_DCCP:
		v->what = NAT_PORTS | NAT_CHECK(6) | NAT_BITS(NAT_OUT_ACK);
		break;
	case IPPROTO_SCTP:
		v->what = NAT_FIXED | NAT_BITS(NAT_OUT_ACK);
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (proto == (v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
			return nat_read_icmp(c, v, v6);
		/* fall through */
	default:
		v->what = NAT_OTHER | NAT_BITS(NAT_OUT_ACK);
		return 0;
	}
	if (c->pos + 8 > c->end)
		return -1;
	v->local_port = egress ? ports->source : ports->destination;
	v->remote_port = egress ? ports->destination : ports->source;
	return 0;
}

/* Reads the header after the IP header of a fragment or a whole packet. -1 if it is incomplete. */
PCN_INLINE int nat_read_part(struct pcn_cursor *c, struct nat_view *v, __u8 proto,
			     enum pcn_fragment fragment, const int egress, const int v6)
{
	if (fragment == PCN_FRAGMENT_LATER) {
		v->local_port = v->remote_port = 0;
		v->what = NAT_LATER;
		return 0;
	}
	if (nat_read_l4(c, v, proto, egress, v6))
		return -1;
	if (fragment == PCN_FRAGMENT_FIRST)
		v->what |= NAT_FIRST;
	return 0;
}

/* The offset of a byte of the packet from the start of the frame. */
PCN_INLINE __u32 nat_behind(struct CTXTYPE *ctx, const void *byte)
{
	long at = byte - pcn_data(ctx);

	asm volatile("" : "+r"(at)); /* pointers have 64 bits until they are subtracted */
	return at;
}

/* Reads an IPv4 packet. -1 if it is malformed. */
PCN_INLINE int nat_read4(struct CTXTYPE *ctx, struct pcn_cursor *c, struct nat_view *v,
			 struct nat_key4 *key, const int egress)
{
	struct iphdr *ip = pcn_parse_ipv4(c);

	if (!ip || pcn_skip_ipv4_options(c, ip))
		return -1;
	v->id = ip->id;
	key->local = egress ? ip->saddr : ip->daddr;
	key->remote = egress ? ip->daddr : ip->saddr;
	key->proto = ip->protocol;
	key->zero[0] = key->zero[1] = key->zero[2] = 0;
	v->l4 = nat_behind(ctx, c->pos);
	if (nat_read_part(c, v, ip->protocol, pcn_ipv4_fragment(ip), egress, 0))
		return -1;
	key->local_port = v->local_port;
	key->remote_port = v->remote_port;
	return 0;
}

/* Processes the extension header at byte `at` of the frame: returns its length, 0 if it is another
 * header, -1 if it is incomplete. */
PCN_GLOBAL int nat_extension(struct CTXTYPE *ctx, __u32 at,
			     struct pcn_ipv6_payload *found PCN_NONNULL)
{
	struct pcn_ipv6_extension *e = pcn_data(ctx) + (at & 0x3ff);

	if (!pcn_ipv6_is_extension(found->protocol) || found->fragment == PCN_FRAGMENT_LATER)
		return 0;
	if ((void *)(e + 1) > pcn_data_end(ctx))
		return -1;
	return pcn_ipv6_note(found, e) & 0xfff;
}

/* Skips the extension headers starting at byte `at` of the frame, like pcn_skip_ipv6_extensions,
 * but with a call for each, which reduces the verifier's work. */
PCN_GLOBAL int nat_extensions(struct CTXTYPE *ctx, __u32 at,
			      struct pcn_ipv6_payload *found PCN_NONNULL)
{
	int length = 0, size = 1;

	for (int i = 0; i <= PCN_IPV6_EXTENSIONS && size > 0; i++) {
		size = nat_extension(ctx, at + length, found);
		if (size < 0 || length + size > PCN_IPV6_EXTENSIONS_MAX)
			return -1;
		length += size;
	}
	return size ? -1 : length;
}

/* Moves past the headers of an IPv6 packet whose fixed header was taken. -1 if they are incomplete.
 * */
PCN_INLINE int nat_skip6(struct CTXTYPE *ctx, struct pcn_cursor *c, const struct ipv6hdr *ip,
			 struct pcn_ipv6_payload *found)
{
	long at = (const void *)(ip + 1) - pcn_data(ctx);
	int length;

	asm volatile("" : "+r"(at)); /* pointers have 64 bits until they are subtracted */
	__builtin_memset(found, 0, sizeof(*found));
	found->protocol = ip->nexthdr;
	if (!pcn_ipv6_is_extension(ip->nexthdr))
		return 0;
	length = nat_extensions(ctx, at, found);
	c->pos += length & 0x1ff;
	return length < 0 || c->pos > c->end ? -1 : 0;
}

/* Reads an IPv6 packet. -1 if it is malformed. */
PCN_INLINE int nat_read6(struct CTXTYPE *ctx, struct pcn_cursor *c, struct nat_view *v,
			 struct nat_key6 *key, const int egress)
{
	struct pcn_ipv6_payload found;
	struct ipv6hdr *ip = pcn_parse_ipv6(c);

	if (!ip)
		return -1;
	if (nat_skip6(ctx, c, ip, &found))
		return -1;
	v->id = found.id;
	pcn_address_copy(key->local,
			 egress ? ip->saddr.in6_u.u6_addr32 : ip->daddr.in6_u.u6_addr32);
	pcn_address_copy(key->remote,
			 egress ? ip->daddr.in6_u.u6_addr32 : ip->saddr.in6_u.u6_addr32);
	key->proto = found.protocol;
	key->zero[0] = key->zero[1] = key->zero[2] = 0;
	v->l4 = nat_behind(ctx, c->pos);
	if (nat_read_part(c, v, found.protocol, found.fragment, egress, 1))
		return -1;
	key->local_port = v->local_port;
	key->remote_port = v->remote_port;
	return 0;
}

/* Reads an IP packet whose header starts at byte l3. -1 if it is malformed. The paths for all kinds
 * of packet are merged: the verifier forgets what it knows about each. */
PCN_INLINE int nat_read(struct CTXTYPE *ctx, __u32 l3, struct nat_view *v, union nat_any_key *key,
			const int egress, const int v6)
{
	struct pcn_cursor c = { .pos = pcn_data(ctx) + (l3 & 0x3f), .end = pcn_data_end(ctx) };

	if (v6 ? nat_read6(ctx, &c, v, &key->six, egress)
	       : nat_read4(ctx, &c, v, &key->four, egress))
		return -1;
	v->l3 = l3;
	v->what = pcn_opaque(v->what, v6 ? key->six.local[3] : key->four.local);
	return 0;
}

/* The header at byte `at` of the frame; NULL if it is incomplete. */
PCN_INLINE void *nat_header(struct CTXTYPE *ctx, __u32 at, __u32 length)
{
	void *header = pcn_data(ctx) + (at & 0x3ff);

	return header + length > pcn_data_end(ctx) ? NULL : header;
}

/* At TC, makes the headers of an IP packet readable, including options and extension headers. */
PCN_INLINE void nat_reach_ip(struct CTXTYPE *ctx, __u32 l3, const int v6)
{
	__u32 len = l3 + (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + 20;

	nat_reach(ctx, len);
#ifdef PCN_TC
	const __u8 *ip = nat_header(ctx, l3, sizeof(struct iphdr));

	if (ip && (v6 ? pcn_ipv6_is_extension(ip[6]) : (ip[0] & 0xf) > 5))
		nat_reach(ctx, len + (v6 ? PCN_IPV6_EXTENSIONS_MAX : 40));
#endif
}

/* Writes the new address. `delta` is its difference for checksums. */
PCN_INLINE void nat_write_address(void *l3, const __be32 *addr, __u16 delta, const int egress,
				  const int v6)
{
	if (v6) {
		struct ipv6hdr *ip = l3;
		pcn_address_copy(egress ? ip->saddr.in6_u.u6_addr32 : ip->daddr.in6_u.u6_addr32,
				 addr);
	} else {
		struct iphdr *ip = l3;
		if (egress)
			ip->saddr = *addr;
		else
			ip->daddr = *addr;
		pcn_csum_ipv4(ip, delta);
	}
}

/* Turns a packet for an external endpoint of another internal host back in (RFC 4787, REQ-9): in
 * its current form, from outside, as if the next router had returned it. */
PCN_INLINE int nat_turn(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct pcn_cursor c;
	__u8 mac[ETH_ALEN];

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, NAT_MALFORMED);
	__builtin_memcpy(mac, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
	pcn_count(&counters, NAT_HAIRPINNED);
	return pcn_pkt_turn(ctx, md);
}

/* Translates a packet for its session. -1 if it has become shorter. */
PCN_INLINE int nat_rewrite(struct CTXTYPE *ctx, const struct nat_view *v,
			   const struct nat_session4 *s, const int egress, const int v6)
{
	void *l3 = nat_header(ctx, v->l3, v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	__u32 offset = NAT_CHECK_OF(v->what), query = NAT_KIND_OF(v->what) == NAT_QUERY;
	struct pcn_ports *ports = nat_header(ctx, v->l4, 8);
	struct pcn_icmp *icmp = (void *)ports;
	__u16 *check = nat_header(ctx, v->l4 + offset, sizeof(*check));
	__u32 flags = v6 ? PCN_CSUM_IPV6 : 0;

	if (!l3 || (offset && (!ports || !check)))
		return -1;
	nat_write_address(l3, v6 ? ((const struct nat_session6 *)s)->addr : &s->addr, s->addr_delta,
			  egress, v6);
	if (!offset) {
		if (v6)
			pcn_csum_bytes(ctx, s->addr_delta);
		return 0;
	}
	if (query)
		icmp->id = s->port;
	else if (egress)
		ports->source = s->port;
	else
		ports->destination = s->port;
	if (v->what & NAT_CHECK_UDP)
		flags |= PCN_CSUM_UDP;
	pcn_csum_l4(ctx, ports, check, !v6 && query ? 0 : s->addr_delta, s->port_delta, flags);
	return 0;
}

#endif
