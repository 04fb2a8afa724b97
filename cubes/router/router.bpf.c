// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* An IP router (RFC 1812, RFC 8200). A packet for a resolved gateway costs one longest-prefix
 * lookup; everything else needed to send it, including the gateway's MAC address, is in the next
 * hop. A packet is not modified until it is certain that it is sent, so a packet that the control
 * plane returns can re-enter unchanged. */
#include "hostfib.h"
#include "special.h"

/* What is known about a packet to be forwarded, in either family. */
struct router_packet {
	struct router_address_key key; /* destination; the port is set later */
	__u32 length;		       /* length of the IP packet */
	__u32 ttl;
};

/* Sends a packet to a neighbour. */
PCN_INLINE int router_send(struct CTXTYPE *ctx, struct pcn_md *md, const int v6, __u64 to,
			   __u64 from, __u16 port)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
	if (v6) {
		struct ipv6hdr *ip = pcn_cursor_take(&c, sizeof(*ip));

		if (!ip)
			return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
		ip->hop_limit--;
		pcn_set_macs(eth, to, from);
#ifdef PCN_TC
		bpf_csum_update(ctx, 0xfeff); /* the device computed the sum of the whole packet */
#endif
	} else {
		struct iphdr *ip = pcn_cursor_take(&c, sizeof(*ip));

		if (!ip)
			return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
		/* RFC 1624, equation 3, for a word that is decremented. */
		__u32 sum = (__u16)~ip->check + 0xfffeU;

		ip->ttl--;
		ip->check = ~((sum & 0xffff) + (sum >> 16));
		pcn_set_macs(eth, to, from);
	}
	return pcn_pkt_send(ctx, md, port);
}

/* Forwards a packet by its route. */
PCN_INLINE int router_forward(struct CTXTYPE *ctx, struct pcn_md *md, const int v6,
			      struct router_packet *p, __u32 index)
{
	struct router_next_hop *hop = bpf_map_lookup_elem(&next_hops, &index);
	int verdict;

	if (hop && hop->kind == ROUTER_KIND_MULTIPATH) {
		index = router_member(ctx, md, hop->group, hop->members);
		hop = bpf_map_lookup_elem(&next_hops, &index);
	}
	if (!hop)
		return pcn_pkt_drop(ctx, md, ROUTER_NOT_READY);
	if (hop->kind != ROUTER_KIND_UNICAST)
		return router_nowhere(ctx, md, hop->kind);
	if (p->ttl <= 1)
		return router_punt(ctx, md, ROUTER_TTL_EXCEEDED, ROUTER_CLASS_ICMP, hop->port,
				   index);
	if (p->length > hop->mtu) {
		verdict = router_too_big(ctx, md, hop->port, hop->mtu);
		if (verdict)
			return verdict;
	}
	__u64 to = hop->to, from = hop->from;
	__u16 port = hop->port;
	if (!to) {
		p->key.port = port;
		if (hop->gateway[0] | hop->gateway[1] | hop->gateway[2] | hop->gateway[3])
			__builtin_memcpy(p->key.address, hop->gateway, sizeof(hop->gateway));
		to = router_neighbour_mac(ctx, md, &p->key);
		if (!to)
			return router_unresolved(ctx, md, &p->key, index);
	}
	return router_send(ctx, md, v6, to, from, port);
}

/* An IPv4 packet after its Ethernet header. */
PCN_INLINE int router_ip4(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_cursor *c,
			  const struct router_port *port, int group)
{
	struct router_packet p = {};
	struct iphdr *ip = pcn_cursor_take(c, sizeof(*ip));
	__u32 source, destination, hop;

	if (!ip)
		return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
	__u8 first = *(__u8 *)ip;
	p.length = bpf_ntohs(ip->tot_len);
#ifdef PCN_TC
	if (!p.length && ctx->gso_size) /* too long for the field */
		p.length = md->packet_len - sizeof(struct ethhdr);
#endif
	if (first >> 4 != 4 || first < 0x45 || p.length < (first & 15) * 4U ||
	    p.length > md->packet_len - sizeof(struct ethhdr))
		return pcn_pkt_drop(ctx, md, ROUTER_BAD_HEADER);
	const __u32 *word = (const void *)ip;
	__u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];

	if (first == 0x45 && pcn_csum_words(sum) != 0xffff)
		return pcn_pkt_drop(ctx, md, ROUTER_BAD_CHECKSUM);
	source = bpf_ntohl(ip->saddr);
	destination = bpf_ntohl(ip->daddr);
	p.ttl = ip->ttl;
	__u32 link_local = router_link_local4(source) | router_link_local4(destination);
	pcn_address_set4(p.key.address, ip->daddr);
	__be32 from = ip->saddr;

	if (first != 0x45) {
		int reason = router_options(ctx, ((first & 15) - 5) * 4, sum);

		if (reason)
			return pcn_pkt_drop(ctx, md, reason);
	}
	if (pcn_ipv4_is_martian(source) && (source || destination != 0xffffffff))
		return pcn_pkt_drop(ctx, md, ROUTER_MARTIAN_SOURCE);
	if (router_maybe_own(from ^ bpf_htonl(0xffff)) && !pcn_turned(md) &&
	    router_find4(from) == ROUTER_HOP_LOCAL)
		return pcn_pkt_drop(ctx, md, ROUTER_SPOOFED);
	if (destination >> 28 == 14 || destination == 0xffffffff)
		return router_local4(ctx, md, destination);
	if (router_martian_destination4(destination))
		return pcn_pkt_drop(ctx, md, ROUTER_MARTIAN_DESTINATION);
	if (any_rp_filter && port->rp_filter && !pcn_turned(md) &&
	    !router_accepts(port->rp_filter, router_find4(from), md->in_port))
		return pcn_pkt_drop(ctx, md, ROUTER_REVERSE_PATH);
	hop = router_route4(p.key.address[3]);
	if (!hop)
		return router_nowhere(ctx, md, ROUTER_KIND_NONE);
	if (hop == ROUTER_HOP_LOCAL)
		return router_local4(ctx, md, group ? 0 : destination);
	if (hop == ROUTER_HOP_BROADCAST)
		return router_local4(ctx, md, 0xffffffff);
	if (link_local)
		return pcn_pkt_drop(ctx, md, ROUTER_LINK_LOCAL);
	if (group)
		return pcn_pkt_drop(ctx, md, ROUTER_GROUP_FRAME);
	return router_forward(ctx, md, 0, &p, hop);
}

/* An IPv6 packet after its Ethernet header. */
PCN_INLINE int router_ip6(struct CTXTYPE *ctx, struct pcn_md *md, const struct router_port *port,
			  int group)
{
	struct router_packet p = {};
	struct pcn_cursor c;
	int verdict;
	__u32 hop;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct ipv6hdr *ip = eth ? pcn_cursor_take(&c, sizeof(*ip)) : NULL;
	if (!ip)
		return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
	p.length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
#ifdef PCN_TC
	if (!ip->payload_len && ctx->gso_size)
		p.length = md->packet_len - sizeof(struct ethhdr);
#endif
	if (ip->version != 6 || p.length > md->packet_len - sizeof(struct ethhdr))
		return pcn_pkt_drop(ctx, md, ROUTER_BAD_HEADER);
	p.ttl = ip->hop_limit;
	p.key.port = md->in_port;
	int multicast = pcn_ipv6_is_multicast(&ip->daddr);
	int link_local = pcn_ipv6_is_link_local(&ip->saddr);

	if (pcn_ipv6_is_multicast(&ip->saddr) ||
	    (pcn_ipv6_is_martian(&ip->saddr) && !(multicast && router_unspecified6(&ip->saddr))))
		return pcn_pkt_drop(ctx, md, ROUTER_MARTIAN_SOURCE);
	if (router_maybe_own(router_fold6(&ip->saddr)) && !pcn_turned(md)) {
		pcn_address_set6(p.key.address, &ip->saddr);
		if (router_route6(&ip->saddr) == ROUTER_HOP_LOCAL ||
		    bpf_map_lookup_elem(&addresses, &p.key)) {
			verdict = router_own_source6(ctx, md, multicast);
			return verdict == ROUTER_IS_ND ? router_nd(ctx, md, port->mac) : verdict;
		}
	}
	if (multicast)
		goto local;
	if (pcn_ipv6_is_martian(&ip->daddr))
		return pcn_pkt_drop(ctx, md, ROUTER_MARTIAN_DESTINATION);
	pcn_address_set6(p.key.address, &ip->daddr);
	if (pcn_ipv6_is_link_local(&ip->daddr)) { /* only valid on its own link */
		if (bpf_map_lookup_elem(&addresses, &p.key))
			goto local;
		return pcn_pkt_drop(ctx, md, ROUTER_LINK_LOCAL);
	}
	if (any_rp_filter && port->rp_filter && !link_local && !pcn_turned(md) &&
	    !router_accepts(port->rp_filter, router_route6(&ip->saddr), md->in_port))
		return pcn_pkt_drop(ctx, md, ROUTER_REVERSE_PATH);
	hop = router_route6(&ip->daddr);
	if (!hop)
		return router_nowhere(ctx, md, ROUTER_KIND_NONE);
	if (hop == ROUTER_HOP_LOCAL)
		goto local;
	if (link_local)
		return router_punt(ctx, md, ROUTER_BEYOND_SCOPE, ROUTER_CLASS_ICMP, 0, 0);
	if (group)
		return pcn_pkt_drop(ctx, md, ROUTER_GROUP_FRAME);
	return router_forward(ctx, md, 1, &p, hop);
local:
	verdict = router_local6(ctx, md);
	return verdict == ROUTER_IS_ND ? router_nd(ctx, md, port->mac) : verdict;
}

/* A packet of a family of which the port has no address, for one station or a group. Programs in
 * the cube's namespace may be about to configure one. Stations also send IPv6 to groups on links
 * without it. */
PCN_INLINE int router_no_address(struct CTXTYPE *ctx, struct pcn_md *md, int group)
{
	if (pcn_shadow)
		return pcn_pkt_namespace(ctx, md, md->in_port);
	return pcn_pkt_drop(ctx, md, group ? ROUTER_MULTICAST : ROUTER_NO_ADDRESS);
}

/* Forwards by the host's routes. */
PCN_GLOBAL int router_by_host(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	__u64 to = 0, from = 0;
	int v6 = 0, port = router_host(ctx, md, &to, &from, &v6);

	if (port == -2)
		return pcn_pkt_drop(ctx, md, ROUTER_NO_NETDEV);
	if (port < 0)
		return pcn_pkt_pass(ctx, md);
	return v6 ? router_send(ctx, md, 1, to, from, port)
		  : router_send(ctx, md, 0, to, from, port);
}

PCN_INGRESS
{
	struct pcn_cursor c;
	__u32 in = md->in_port;
	struct router_port *port = bpf_map_lookup_elem(&ports, &in);

	if (host_fib)
		return router_by_host(ctx, md);
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct iphdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
	if (!port || !port->mac)
		return pcn_pkt_drop(ctx, md, ROUTER_NOT_READY);
#ifdef PCN_TC
	if (ctx->vlan_present)
		return pcn_pkt_drop(ctx, md, ROUTER_TAGGED);
#endif
	__u64 destination = router_destination(eth);
	int group = destination & 1;

	if (destination != port->mac && !group && !pcn_turned(md))
		return pcn_pkt_drop(ctx, md, ROUTER_NOT_FOR_US);
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return port->has_ip4 ? router_ip4(ctx, md, &c, port, group)
				     : router_no_address(ctx, md, 0);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return port->has_ip6 ? router_ip6(ctx, md, port, group)
				     : router_no_address(ctx, md, group);
	if (eth->h_proto == bpf_htons(ETH_P_ARP))
		return port->has_ip4 ? router_arp(ctx, md, port->mac)
				     : router_no_address(ctx, md, 0);
	if (pcn_is_vlan_proto(eth->h_proto))
		return pcn_pkt_drop(ctx, md, ROUTER_TAGGED);
	return pcn_pkt_drop(ctx, md, ROUTER_PROTOCOL);
}

PCN_LICENSE;
