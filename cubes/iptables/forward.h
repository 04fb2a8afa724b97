// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* forward=fib: packets of open connections go from the netdev that received them to the one that sends them, by the routes
 * and neighbours of the host, without its stack. FORWARD is on the way out there, so they meet its rules as others do. */
#ifndef IPTABLES_FORWARD_H
#define IPTABLES_FORWARD_H

#include <pcn/conntrack_packet.h>
#include <pcn/hostaddr.h>
#include <pcn/hostfib.h>

#include "local.h"

/* Packets of open connections are forwarded without the stack. */
PCN_CONFIG(bool, forward_fib) = false;

#ifdef PCN_TC
/* Where a packet leaves, and its frame is written for that: the interface index. 0: only the stack can forward it. The first
 * packets of a connection are for the stack, too, which checks what no lookup does: their source (rp_filter). Routes that
 * depend on marks are for the stack. */
PCN_GLOBAL __u32 iptables_forward(struct CTXTYPE *ctx, struct pcn_conntrack_work *w PCN_NONNULL,
				  __u32 zone)
{
	struct bpf_fib_lookup q = { .ifindex = ctx->ifindex };
	struct pcn_cursor c;

	if (ctx->pkt_type != IPTABLES_HOST || ctx->mark || ctx->vlan_present ||
	    pcn_address_type_of(w->flow.destination, w->flow.has & PCN_FLOW_IPV6) !=
		    PCN_ADDRESS_UNICAST)
		return 0;
	if (pcn_conntrack_key(&w->fresh.key, &w->flow, zone) < 0 ||
	    pcn_conntrack_find(&w->fresh.key) <= 0)
		return 0;
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + 4);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || (eth->h_proto != bpf_htons(ETH_P_IP) && eth->h_proto != bpf_htons(ETH_P_IPV6)))
		return 0;
	/* Back where it came from: the stack tells the sender of a shorter way. */
	if (pcn_hostfib_ask(ctx, eth->h_proto, &c, &q) != PCN_HOSTFIB_ROUTE ||
	    q.ifindex == ctx->ifindex || pcn_hostfib_frame(ctx, &q))
		return 0;
	return q.ifindex;
}
#endif

#endif
