// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Where a packet goes: to the host, or through it. */
#ifndef IPTABLES_LOCAL_H
#define IPTABLES_LOCAL_H

#include <pcn/cube.h>
#include <pcn/flow.h>

/* The families of addresses, as the kernel numbers them. */
#define IPTABLES_INET 2
#define IPTABLES_INET6 10

/* The types of a packet in an skb: linux/if_packet.h. */
#define IPTABLES_HOST 0
#define IPTABLES_BROADCAST 1
#define IPTABLES_MULTICAST 2
#define IPTABLES_OTHERHOST 3

/* The loopback netdev, by which nothing is forwarded: a NAT leads answers to the host that way. */
#define IPTABLES_LOOPBACK 1

/* Whether a packet that is sent was received before. The kernel clears the netdev of what it encapsulates. */
PCN_INLINE int iptables_is_forwarded(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	return ctx->ingress_ifindex != 0 && ctx->ifindex != IPTABLES_LOOPBACK;
#else
	(void)ctx;
	return 0;
#endif
}

/* Whether an address is that of a group, or of all stations of a link. */
PCN_INLINE int iptables_is_group(const struct pcn_flow *flow)
{
	if (flow->has & PCN_FLOW_IPV6)
		return (bpf_ntohl(flow->destination[0]) >> 24) == 0xff;
	__u32 to = bpf_ntohl(flow->destination[3]);

	return to >> 28 == 0xe || to == 0xffffffff;
}

/* Whether the host receives a packet itself, as its routes say. A netdev that forwards nothing receives all that comes to
 * its MAC address: the host drops what is for others after INPUT instead of before it. */
PCN_GLOBAL int iptables_is_local(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL)
{
	struct bpf_fib_lookup q = {};

#ifdef PCN_TC
	if (ctx->pkt_type == IPTABLES_OTHERHOST)
		return 0;
	q.ifindex = ctx->ifindex;
#else
	q.ifindex = ctx->ingress_ifindex;
#endif
	if (iptables_is_group(flow))
		return 1;
	q.l4_protocol = flow->protocol;
	q.sport = flow->source_port;
	q.dport = flow->destination_port;
	if (flow->has & PCN_FLOW_IPV6) {
		q.family = IPTABLES_INET6;
		__builtin_memcpy(q.ipv6_src, flow->source, sizeof(q.ipv6_src));
		__builtin_memcpy(q.ipv6_dst, flow->destination, sizeof(q.ipv6_dst));
	} else {
		q.family = IPTABLES_INET;
		q.tos = flow->dscp << 2;
		q.ipv4_src = flow->source[3];
		q.ipv4_dst = flow->destination[3];
	}
	long route = bpf_fib_lookup(ctx, &q, sizeof(q), 0);
	return route == BPF_FIB_LKUP_RET_NOT_FWDED || route == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

#endif
