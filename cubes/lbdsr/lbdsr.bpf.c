// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A load balancer whose servers answer clients directly: packets for a virtual address go to one of its servers as they
 * are, with another MAC address or in a tunnel, and the answers do not come back this way. */
#include "lbdsr.h"
#include "forward.h"
#include "own.h"
#include "check.h"

/* The flow that an ICMP error is about, as its client sends it: in the error is a packet of the server. */
PCN_GLOBAL int lbdsr_inner(struct CTXTYPE *ctx, struct pcn_flow *flow PCN_NONNULL)
{
	struct pcn_flow inner = {};

	pcn_flow_read_inner(ctx, &inner, flow->l4 + 8, flow->ethertype);
	if (!(inner.has & PCN_FLOW_L4))
		return -1;
	pcn_address_copy(flow->source, inner.destination);
	pcn_address_copy(flow->destination, inner.source);
	flow->source_port = inner.destination_port;
	flow->destination_port = inner.source_port;
	flow->protocol = inner.protocol;
	flow->has |= inner.has & PCN_FLOW_PORTS;
	return 0;
}

/* An ICMP packet for the address of a service: an echo request is answered, an error goes to the server that it is about. */
PCN_INLINE int lbdsr_icmp(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_flow *flow,
			  const struct lbdsr_settings *s, __u64 mac)
{
	struct pcn_service_key key = { .protocol = flow->protocol };
	int v6 = flow->has & PCN_FLOW_IPV6;
	struct pcn_service *service;

	pcn_address_copy(key.address, flow->destination);
	service = bpf_map_lookup_elem(&services, &key);
	if (!service)
		return lbdsr_none(ctx, md, flow);
	if (flow->icmp_type == (v6 ? 128 : 8)) {
		if (!service->flags)
			return pcn_pkt_drop(ctx, md, LBDSR_NO_SERVER);
		return lbdsr_echo(ctx, md, mac);
	}
	if (!(v6 ? pcn_icmp6_is_error(flow->icmp_type) : pcn_icmp_is_error(flow->icmp_type)) ||
	    lbdsr_inner(ctx, flow))
		return pcn_pkt_drop(ctx, md, LBDSR_NO_SERVICE);
	service = pcn_balance_service(flow);
	if (!service)
		return pcn_pkt_drop(ctx, md, LBDSR_NO_SERVICE);
	return lbdsr_serve(ctx, md, flow, service, s, 1);
}

/* A packet from a client, or for the cube. */
PCN_INLINE int lbdsr_front(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_flow *flow,
			   const struct lbdsr_settings *s, __u64 mac)
{
	__u32 has = flow->has;
	struct pcn_service *service;

	if (!(has & PCN_FLOW_L4))
		return pcn_pkt_drop(ctx, md,
				    has & PCN_FLOW_IP ? LBDSR_MALFORMED : LBDSR_NO_SERVICE);
	if (has & PCN_FLOW_ICMP)
		return lbdsr_icmp(ctx, md, flow, s, mac);
	if (flow->fragment != PCN_FRAGMENT_NONE && lbdsr_fragment(flow))
		return pcn_pkt_drop(ctx, md, LBDSR_FRAGMENT_UNKNOWN);
	service = pcn_balance_service(flow);
	if (!service)
		return lbdsr_none(ctx, md, flow);
	return lbdsr_serve(ctx, md, flow, service, s,
			   (flow->tcp_flags & 0x12) == 0x02); /* SYN without ACK */
}

/* A packet for none of the services: what comes from a backend port goes to the frontend port. */
PCN_INLINE int lbdsr_back(struct CTXTYPE *ctx, struct pcn_md *md, const struct lbdsr_settings *s)
{
	if (!s->frontend)
		return pcn_pkt_drop(ctx, md, LBDSR_NO_FRONTEND);
	return pcn_pkt_send(ctx, md, s->frontend - 1);
}

PCN_INGRESS
{
	__u32 index = md->in_port, zero = 0;
	struct lbdsr_port *port = bpf_map_lookup_elem(&ports, &index);
	struct lbdsr_settings *s = bpf_map_lookup_elem(&settings, &zero);
	struct pcn_flow flow;
	int verdict;

	if (!port || !s)
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	struct ethhdr *eth = pcn_data(ctx);
	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	__u64 to = pcn_macs(eth).to, mac = port->mac;

	if (!pcn_flow_common(ctx, &flow)) {
		if (to == mac && !(checks && md->md[0])) {
			verdict = lbdsr_serve_known(ctx, md, &flow, s);
			if (verdict != -1)
				return verdict;
		}
	} else {
		__builtin_memset(&flow, 0, sizeof(flow));
		if (pcn_flow_read(ctx, &flow))
			return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	}

	if (checks && md->md[0])
		return lbdsr_check(ctx, md, &flow);

	if (flow.vlan != PCN_FLOW_UNTAGGED)
		return port->type == LBDSR_BACKEND ? lbdsr_back(ctx, md, s)
						   : pcn_pkt_drop(ctx, md, LBDSR_NO_SERVICE);
	if (flow.ethertype == bpf_htons(ETH_P_ARP)) {
		verdict = lbdsr_arp(ctx, md, mac);
		return verdict == -1 ? lbdsr_control(ctx, md, s) : verdict;
	}
	if (pcn_is_neighbour_discovery(ctx, &flow)) {
		verdict = lbdsr_nd(ctx, md, mac);
		return verdict == -1 ? lbdsr_control(ctx, md, s) : verdict;
	}
	if (to != mac && port->type == LBDSR_BACKEND)
		return lbdsr_back(ctx, md, s);
	if (to != mac)
		return lbdsr_other(ctx, md, s, to);
	return lbdsr_front(ctx, md, &flow, s, mac);
}

PCN_LICENSE;
