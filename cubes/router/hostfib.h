// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Forwarding by the routes and neighbours of the host (bpf_fib_lookup), for ports whose peers are
 * netdevs of the host. If the lookup has no immediate answer, the stack decides: it resolves
 * neighbours, answers, fragments and sends errors. So this code drops no packet that the stack
 * would forward. */
#ifndef ROUTER_HOSTFIB_H
#define ROUTER_HOSTFIB_H

#include "address.h"

/* A netdev that is the peer of a port, by the port's index. */
struct router_netdev {
	__u64 mac; /* as returned by pcn_mac */
	__u32 index;
	__u32 pad;
};
PCN_MAP(netdevs, BPF_MAP_TYPE_ARRAY, __u32, struct router_netdev, 512);

/* The port of a netdev, by interface index. */
PCN_MAP(netdev_ports, BPF_MAP_TYPE_HASH, __u32, __u32, 1024);

#define ROUTER_AF_INET 2
#define ROUTER_AF_INET6 10

/* Prepares the lookup for an IPv4 packet. 0: only the stack can forward it. */
PCN_INLINE int router_ask_host4(struct pcn_cursor *c, struct bpf_fib_lookup *q)
{
	struct iphdr *ip = pcn_cursor_take(c, sizeof(*ip));

	if (!ip || *(__u8 *)ip != 0x45 || ip->ttl <= 1 || !pcn_ipv4_checksum_ok(ip, c->end) ||
	    router_martian_source4(bpf_ntohl(ip->saddr)))
		return 0;
	q->family = ROUTER_AF_INET;
	q->l4_protocol = ip->protocol;
	q->tos = ip->tos;
	q->ipv4_src = ip->saddr;
	q->ipv4_dst = ip->daddr;
#ifdef PCN_XDP
	q->tot_len = bpf_ntohs(ip->tot_len);
#endif
	if (pcn_has_ports(ip->protocol) && pcn_ipv4_fragment(ip) == PCN_FRAGMENT_NONE) {
		struct pcn_ports *ports = pcn_parse_ports(c);

		if (ports) {
			q->sport = ports->source;
			q->dport = ports->destination;
		}
	}
	return 1;
}

/* The same for IPv6. */
PCN_INLINE int router_ask_host6(struct pcn_cursor *c, struct bpf_fib_lookup *q)
{
	struct ipv6hdr *ip = pcn_parse_ipv6(c);

	if (!ip || ip->hop_limit <= 1 || router_martian6(&ip->saddr) ||
	    router_multicast6(&ip->saddr) || router_multicast6(&ip->daddr) ||
	    router_link_local6(&ip->saddr) || router_link_local6(&ip->daddr) ||
	    ip->nexthdr == IPPROTO_HOPOPTS)
		return 0;
	q->family = ROUTER_AF_INET6;
	q->l4_protocol = ip->nexthdr;
	q->flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
	pcn_address_set6(q->ipv6_src, &ip->saddr);
	pcn_address_set6(q->ipv6_dst, &ip->daddr);
#ifdef PCN_XDP
	q->tot_len = bpf_ntohs(ip->payload_len) + sizeof(*ip);
#endif
	if (pcn_has_ports(ip->nexthdr)) {
		struct pcn_ports *ports = pcn_parse_ports(c);

		if (ports) {
			q->sport = ports->source;
			q->dport = ports->destination;
		}
	}
	return 1;
}

/* How the host forwards a packet received on a netdev: the port, and the MAC addresses of the
 * frame. -1: pass it to the stack. */
PCN_INLINE int router_ask_host(struct CTXTYPE *ctx, const struct router_netdev *in, __u16 proto,
			       struct pcn_cursor *c, __u64 *to, __u64 *from)
{
	struct bpf_fib_lookup q = { .ifindex = in->index };
	__u32 *port, index;

	if (proto == bpf_htons(ETH_P_IP) ? !router_ask_host4(c, &q) : !router_ask_host6(c, &q))
		return -1;
	if (bpf_fib_lookup(ctx, &q, sizeof(q), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return -1;
	index = q.ifindex;
	port = bpf_map_lookup_elem(&netdev_ports, &index);
	if (!port)
		return -1;
	*to = pcn_mac(q.dmac);
	*from = pcn_mac(q.smac);
	return *port;
}

/* A packet of a router that forwards by the host's routes: the port where it leaves, with its MAC
 * addresses; -1: pass it to the stack; -2: the port's peer is not a netdev. */
PCN_INLINE int router_host(struct CTXTYPE *ctx, struct pcn_md *md, __u64 *to, __u64 *from, int *v6)
{
	__u32 in = md->in_port;
	struct router_netdev *netdev = bpf_map_lookup_elem(&netdevs, &in);
	struct pcn_cursor c;

	if (!netdev || !netdev->index)
		return -2;
#ifdef PCN_TC
	if (ctx->vlan_present)
		return -1;
#endif
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + 4);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || router_destination(eth) != netdev->mac)
		return -1;
	__u16 proto = eth->h_proto;

	if (proto != bpf_htons(ETH_P_IP) && proto != bpf_htons(ETH_P_IPV6))
		return -1;
	*v6 = proto == bpf_htons(ETH_P_IPV6);
	return router_ask_host(ctx, netdev, proto, &c, to, from);
}

#endif
