// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the NAT makes of a packet that was read, and its translation for a session. */
#ifndef NAT_REWRITE_H
#define NAT_REWRITE_H

#include "open.h"

#define NAT_EGRESS 1
#define NAT_INGRESS 0

/* What the NAT does with a packet, in one number: enum nat_kind, and of the following. */

/* Offset of the checksum from l4; 0: there is none. */
#define NAT_CHECK(offset) ((offset) << 8)
#define NAT_CHECK_OF(what) ((what) >> 8 & 0x1f)
/* A checksum of 0 means that there is none. */
#define NAT_CHECK_UDP 0x2000
/* The first fragment of a datagram. */
#define NAT_FIRST 0x4000
/* TCP flags. */
#define NAT_TCP(flags) ((flags) << 16)
#define NAT_TCP_OF(what) ((what) >> 16)
#define NAT_KIND_OF(what) ((what)&0xff)

/* The kind of an ICMP packet. */
PCN_INLINE __u32 nat_icmp_kind(__u8 type, const int v6)
{
	if (v6 ? pcn_icmp6_has_id(type) : pcn_icmp_has_id(type))
		return NAT_QUERY;
	if (v6 ? pcn_icmp6_is_error(type) : pcn_icmp_is_error(type))
		return NAT_ERROR;
	return v6 && type >= 133 && type <= 137 ? NAT_LOCAL : NAT_REST;
}

/* The kind of a packet that is whole or a first fragment, and where its checksum is. */
PCN_INLINE __u32 nat_what_l4(const struct pcn_flow *f, const int v6)
{
	switch (f->protocol) {
	case IPPROTO_TCP:
		return NAT_PORTS | NAT_CHECK(16) | NAT_TCP(f->tcp_flags);
	case IPPROTO_UDP:
		return NAT_PORTS | NAT_CHECK(6) | NAT_CHECK_UDP;
	case IPPROTO_UDPLITE:
	case IPPROTO_DCCP:
		return NAT_PORTS | NAT_CHECK(6);
	case IPPROTO_SCTP:
		return NAT_FIXED;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (f->protocol == (v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
			return nat_icmp_kind(f->icmp_type, v6) | NAT_CHECK(2);
	}
	return NAT_OTHER;
}

/* What a packet is. -1 if it is malformed, or if its headers cannot be written. */
PCN_INLINE int nat_what(struct CTXTYPE *ctx, const struct pcn_flow *f, __u32 *what, const int v6)
{
	if (!(f->has & PCN_FLOW_L4))
		return -1;
	if (f->fragment == PCN_FRAGMENT_LATER) {
		*what = NAT_LATER;
		return 0;
	}
	*what = nat_what_l4(f, v6);
	pcn_reach(ctx, f->l4 + 20);
	if (NAT_KIND_OF(*what) != NAT_OTHER &&
	    !pcn_header(ctx, f->l4, f->protocol == IPPROTO_TCP ? 20 : 8))
		return -1;
	if (f->fragment == PCN_FRAGMENT_FIRST)
		*what |= NAT_FIRST;
	return 0;
}

/* The key of a packet for a session. */
PCN_INLINE void nat_key(struct nat_key *key, const struct pcn_flow *f, const int egress,
			const int v6)
{
	pcn_address_copy(key->local, egress ? f->source : f->destination);
	pcn_address_copy(key->remote, egress ? f->destination : f->source);
	key->local_port = egress ? f->source_port : f->destination_port;
	key->remote_port = egress ? f->destination_port : f->source_port;
	if (!(f->has & PCN_FLOW_PORTS))
		key->remote_port = 0; /* ICMP: the id is that of the internal endpoint */
	key->zone = (v6 ? NAT_V6 : 0) | (egress ? 0 : NAT_IN);
	key->proto = f->protocol;
	key->zero = 0;
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
PCN_INLINE int nat_rewrite(struct CTXTYPE *ctx, const struct pcn_flow *f, __u32 what,
			   const struct nat_session *s, const int egress, const int v6)
{
	void *l3 = pcn_header(ctx, f->l3, v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	__u32 offset = NAT_CHECK_OF(what), query = NAT_KIND_OF(what) == NAT_QUERY;
	struct pcn_ports *ports = pcn_header(ctx, f->l4, 8);
	struct pcn_icmp *icmp = (void *)ports;
	__u16 *check = pcn_header(ctx, f->l4 + offset, sizeof(*check));
	__u32 flags = v6 ? PCN_CSUM_IPV6 : 0;

	if (!l3 || (offset && (!ports || !check)))
		return -1;
	nat_write_address(l3, v6 ? s->addr : &s->addr[3], s->addr_delta, egress, v6);
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
	if (what & NAT_CHECK_UDP)
		flags |= PCN_CSUM_UDP;
	pcn_csum_l4(ctx, ports, check, !v6 && query ? 0 : s->addr_delta, s->port_delta, flags);
	return 0;
}

#endif
