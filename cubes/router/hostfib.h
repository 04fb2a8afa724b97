// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Forwarding by the routes and neighbours of the host, for ports whose peers are netdevs of the host. */
#ifndef ROUTER_HOSTFIB_H
#define ROUTER_HOSTFIB_H

#include <pcn/hostfib.h>
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

/* How the host forwards a packet received on a netdev: the port, and the MAC addresses of the
 * frame. -1: pass it to the stack. */
PCN_INLINE int router_ask_host(struct CTXTYPE *ctx, const struct router_netdev *in, __u16 proto,
			       struct pcn_cursor *c, __u64 *to, __u64 *from)
{
	struct bpf_fib_lookup q = { .ifindex = in->index };
	__u32 *port, index;

	if (pcn_hostfib_ask(ctx, proto, c, &q) != PCN_HOSTFIB_ROUTE)
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
