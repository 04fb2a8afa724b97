// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Forwarding by the routes and neighbours of the host (bpf_fib_lookup). Whatever the lookup cannot
 * answer at once is for the stack, which resolves neighbours, answers, fragments and sends errors: a
 * cube that passes it on drops no packet that the stack would forward.
 *
 * Include it yourself. */
#ifndef PCN_HOSTFIB_H
#define PCN_HOSTFIB_H

#include <pcn/address.h>
#include <pcn/csum.h>
#include <pcn/ip.h>
#include <pcn/vlan.h>

/* What the host does with a packet. */
enum pcn_hostfib {
	PCN_HOSTFIB_ROUTE, /* it forwards the packet, and knows the next hop */
	PCN_HOSTFIB_EXCEPTION, /* only the stack can tell: options, a TTL of 1, an address that is not routed */
	PCN_HOSTFIB_NO_ROUTE, /* the lookup has no answer: it is for the host, or needs a neighbour */
};

/* Internal: the families of addresses, as the kernel numbers them. */
#define PCN_HOSTFIB_INET 2
#define PCN_HOSTFIB_INET6 10

/* Internal: the bytes of the shortest transport header of a superframe, that of UDP. */
#define PCN_HOSTFIB_TRANSPORT 8

/* Internal: the ports of a packet, which rules and multipath routes use. */
PCN_INLINE void pcn_hostfib_ports(struct pcn_cursor *c, struct bpf_fib_lookup *q)
{
	struct pcn_ports *ports = pcn_parse_ports(c);

	if (!ports)
		return;
	q->sport = ports->source;
	q->dport = ports->destination;
}

/* Internal: the length that must fit through a route. That of the segments of a superframe is at least this one. */
PCN_INLINE __u16 pcn_hostfib_length(struct CTXTYPE *ctx, __u16 length, __u32 header)
{
#ifdef PCN_TC
	if (ctx->gso_size)
		return header + PCN_HOSTFIB_TRANSPORT + ctx->gso_size;
#endif
	(void)ctx;
	(void)header;
	return length;
}

/* Internal: whether the segments of a superframe fit through a netdev. */
PCN_INLINE int pcn_hostfib_fits(struct CTXTYPE *ctx, __u32 ifindex)
{
#ifdef PCN_TC
	__u32 length = 0;

	return !ctx->gso_size || !bpf_check_mtu(ctx, ifindex, &length, 0, BPF_MTU_CHK_SEGS);
#else
	(void)ctx;
	(void)ifindex;
	return 1;
#endif
}

/* Internal: prepares the lookup for an IPv4 packet. 0: only the stack can forward it. */
PCN_INLINE int pcn_hostfib_ask4(struct CTXTYPE *ctx, struct pcn_cursor *c, struct bpf_fib_lookup *q)
{
	struct iphdr *ip = pcn_cursor_take(c, sizeof(*ip));

	if (!ip || *(__u8 *)ip != 0x45 || ip->ttl <= 1 || !pcn_ipv4_checksum_ok(ip, c->end) ||
	    pcn_ipv4_is_martian(bpf_ntohl(ip->saddr)))
		return 0;
	q->family = PCN_HOSTFIB_INET;
	q->l4_protocol = ip->protocol;
	q->tos = ip->tos;
	q->ipv4_src = ip->saddr;
	q->ipv4_dst = ip->daddr;
	q->tot_len = pcn_hostfib_length(ctx, bpf_ntohs(ip->tot_len), sizeof(*ip));
	if (pcn_has_ports(ip->protocol) && pcn_ipv4_fragment(ip) == PCN_FRAGMENT_NONE)
		pcn_hostfib_ports(c, q);
	return 1;
}

/* Internal: the same for IPv6. */
PCN_INLINE int pcn_hostfib_ask6(struct CTXTYPE *ctx, struct pcn_cursor *c, struct bpf_fib_lookup *q)
{
	struct ipv6hdr *ip = pcn_parse_ipv6(c);

	if (!ip || ip->hop_limit <= 1 || pcn_ipv6_is_martian(&ip->saddr) ||
	    pcn_ipv6_is_multicast(&ip->saddr) || pcn_ipv6_is_multicast(&ip->daddr) ||
	    pcn_ipv6_is_link_local(&ip->saddr) || pcn_ipv6_is_link_local(&ip->daddr) ||
	    ip->nexthdr == IPPROTO_HOPOPTS)
		return 0;
	q->family = PCN_HOSTFIB_INET6;
	q->l4_protocol = ip->nexthdr;
	q->flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
	pcn_address_set6(q->ipv6_src, &ip->saddr);
	pcn_address_set6(q->ipv6_dst, &ip->daddr);
	q->tot_len = pcn_hostfib_length(ctx, bpf_ntohs(ip->payload_len) + sizeof(*ip), sizeof(*ip));
	if (pcn_has_ports(ip->nexthdr))
		pcn_hostfib_ports(c, q);
	return 1;
}

/* Looks up the route of a packet of IPv4 or IPv6, by its ethertype, that a netdev received. The cursor is
 * behind the Ethernet header; q is zeros but for `ifindex`, the netdev. Returns BPF_FIB_LKUP_RET_..., or
 * -1 if only the stack can tell. q has the netdev where the packet leaves (ifindex) also if the neighbour
 * is not known. */
PCN_INLINE int pcn_hostfib_lookup(struct CTXTYPE *ctx, __be16 ethertype, struct pcn_cursor *c,
				  struct bpf_fib_lookup *q)
{
	if (ethertype == bpf_htons(ETH_P_IP) ? !pcn_hostfib_ask4(ctx, c, q)
					     : !pcn_hostfib_ask6(ctx, c, q))
		return -1;
	return bpf_fib_lookup(ctx, q, sizeof(*q), 0);
}

/* Asks how the host forwards a packet, with the arguments of pcn_hostfib_lookup. Returns an enum
 * pcn_hostfib: for a route, q has the netdev where the packet leaves (ifindex) and the MAC addresses of
 * the frame (smac, dmac). */
PCN_INLINE int pcn_hostfib_ask(struct CTXTYPE *ctx, __be16 ethertype, struct pcn_cursor *c,
			       struct bpf_fib_lookup *q)
{
	int route = pcn_hostfib_lookup(ctx, ethertype, c, q);

	if (route < 0)
		return PCN_HOSTFIB_EXCEPTION;
	if (route != BPF_FIB_LKUP_RET_SUCCESS)
		return PCN_HOSTFIB_NO_ROUTE;
	return pcn_hostfib_fits(ctx, q->ifindex) ? PCN_HOSTFIB_ROUTE : PCN_HOSTFIB_EXCEPTION;
}

/* Writes the frame for the next hop of a route, and takes one from the packet's TTL. tagged: not 0 if there is a tag in the packet
 * data. 0, or -1 if the packet has become shorter since pcn_hostfib_ask. */
PCN_INLINE int pcn_hostfib_write(struct CTXTYPE *ctx, const struct bpf_fib_lookup *q, __u32 tagged)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return -1;
	__be16 proto = eth->h_proto;
	if (tagged) {
		struct pcn_vlan_hdr *tag = pcn_cursor_take(&c, sizeof(*tag));

		if (!tag)
			return -1;
		proto = tag->proto;
	}
	void *packet = pcn_cursor_take(&c, sizeof(struct iphdr));
	if (!packet)
		return -1;
	__builtin_memcpy(eth->h_dest, q->dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, q->smac, ETH_ALEN);
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = packet;
		__be16 *word = packet + 8, was = *word;

		ip->ttl--;
		pcn_csum_ipv4(ip, pcn_csum_diff2(was, *word));
	} else {
		struct ipv6hdr *ip = packet;
		__be16 *word = packet + 6, was = *word;

		ip->hop_limit--;
		pcn_csum_bytes(ctx, pcn_csum_diff2(was, *word));
	}
	return 0;
}

/* The same for a frame without a tag in the packet data. */
PCN_INLINE int pcn_hostfib_frame(struct CTXTYPE *ctx, const struct bpf_fib_lookup *q)
{
	return pcn_hostfib_write(ctx, q, 0);
}

#endif
