// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Answers requests for the router's own addresses: ARP (RFC 826) and neighbour solicitations (RFC
 * 4861). Everything else of both protocols goes to the control plane. */
#ifndef ROUTER_ANSWER_H
#define ROUTER_ANSWER_H

#include <pcn/answer.h>

#include "neighbour.h"
#include "route.h"

/* Sends ARP or neighbour discovery to the control plane, and to the namespace of a shadow cube,
 * whose kernel resolves neighbours for programs there. */
PCN_INLINE int router_control(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u16 reason)
{
	if (!pcn_shadow)
		return router_punt(ctx, md, reason, ROUTER_CLASS_CONTROL, md->in_port, 0);
	router_show(ctx, md, reason, ROUTER_CLASS_CONTROL);
	return pcn_pkt_namespace(ctx, md, md->in_port);
}

/* True if an IPv4 address is on the link of a port. */
PCN_INLINE int router_on_link4(__be32 address, __u16 port)
{
	__u32 index = router_find4(address);
	struct router_next_hop *hop = bpf_map_lookup_elem(&next_hops, &index);

	return hop && hop->kind == ROUTER_KIND_UNICAST && hop->port == port && !hop->gateway[3];
}

PCN_INLINE int router_on_link6(const struct in6_addr *address, __u16 port)
{
	if (pcn_ipv6_is_link_local(address))
		return 1;
	__u32 index = router_route6(address);
	struct router_next_hop *hop = bpf_map_lookup_elem(&next_hops, &index);

	return hop && hop->kind == ROUTER_KIND_UNICAST && hop->port == port &&
	       !(hop->gateway[0] | hop->gateway[1] | hop->gateway[2] | hop->gateway[3]);
}

/* An ARP packet. */
PCN_GLOBAL int router_arp(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u64 mac)
{
	struct router_address_key key = { .port = md->in_port }, from = { .port = md->in_port };
	struct router_address *own_address;
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct pcn_arp));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct pcn_arp *a = eth ? pcn_parse_arp(&c) : NULL;
	if (!a)
		return pcn_pkt_drop(ctx, md, ROUTER_BAD_HEADER);
	__be32 sender = a->sender, target = a->target;
	__u64 sender_mac = pcn_mac(a->sender_mac);

	if (sender_mac & 1 || !sender_mac)
		return pcn_pkt_drop(ctx, md, ROUTER_BAD_HEADER);
	pcn_address_set4(from.address, sender);
	pcn_address_set4(key.address, target);
	if (bpf_map_lookup_elem(&addresses, &from) || a->operation != bpf_htons(PCN_ARP_REQUEST))
		return router_control(ctx, md, ROUTER_ARP);
	own_address = bpf_map_lookup_elem(&addresses, &key);
	if (!own_address) {
		/* An announcement, or a request to another station: the sender may have moved. */
		struct router_neighbour *n = bpf_map_lookup_elem(&neighbours, &from);

		if (sender && n && n->state != ROUTER_PERMANENT && n->mac != sender_mac)
			return router_punt(ctx, md, ROUTER_ARP, ROUTER_CLASS_CONTROL, md->in_port,
					   0);
		return pcn_pkt_drop(ctx, md, ROUTER_ARP_NOT_FOR_US);
	}
	if (own_address->tentative)
		return router_punt(ctx, md, ROUTER_ARP, ROUTER_CLASS_CONTROL, md->in_port, 0);
	if (sender && router_on_link4(sender, md->in_port))
		router_heard(ctx, md, &from, sender_mac, ROUTER_ARP);

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct pcn_arp));
	eth = pcn_parse_eth(&c);
	a = pcn_cursor_take(&c, sizeof(*a));
	if (!eth || !a)
		return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
	pcn_arp_reply(eth, a, mac);
	return pcn_pkt_send(ctx, md, md->in_port);
}

/* An ICMPv6 packet of neighbour discovery, types 133 to 137. */
PCN_GLOBAL int router_nd(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u64 mac)
{
	struct router_address_key key = { .port = md->in_port };
	struct router_address *own_address;
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, 14 + sizeof(struct ipv6hdr) + sizeof(struct pcn_nd));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct ipv6hdr *ip = eth ? pcn_parse_ipv6(&c) : NULL;
	if (!ip || ip->hop_limit != 255)
		return pcn_pkt_drop(ctx, md, ROUTER_BAD_HEADER);
	int unspecified = router_unspecified6(&ip->saddr);
	int whole = ip->payload_len == bpf_htons(sizeof(struct pcn_nd));
	struct pcn_icmp *icmp = c.pos;
	int advertisement = (void *)(icmp + 1) <= c.end && icmp->type == PCN_ND_ADVERTISEMENT;
	struct pcn_nd *nd = pcn_cursor_take(&c, sizeof(*nd));
	/* Unusual forms, duplicate address probes of other stations, and advertisements. */
	if (!nd || !whole || nd->type != PCN_ND_SOLICITATION || nd->option != 1 ||
	    nd->option_len != 1 || unspecified) {
		if (advertisement)
			return router_control(ctx, md, ROUTER_ND);
		return router_punt(ctx, md, ROUTER_ND, ROUTER_CLASS_CONTROL, md->in_port, 0);
	}
	if (nd->code || pcn_nd_sum(ip, nd) != 0xffff || pcn_ipv6_is_multicast(&nd->target))
		return pcn_pkt_drop(ctx, md, ROUTER_BAD_HEADER);
	__u64 sender_mac = pcn_mac(nd->mac);

	if (sender_mac & 1 || !sender_mac)
		return pcn_pkt_drop(ctx, md, ROUTER_BAD_HEADER);
	pcn_address_set6(key.address, &nd->target);
	own_address = bpf_map_lookup_elem(&addresses, &key);
	if (!own_address)
		return pcn_pkt_drop(ctx, md, ROUTER_ARP_NOT_FOR_US);
	int on_link = router_on_link6(&ip->saddr, md->in_port);

	pcn_address_set6(key.address, &ip->saddr); /* the sender */
	if (own_address->tentative || bpf_map_lookup_elem(&addresses, &key))
		return router_punt(ctx, md, ROUTER_ND, ROUTER_CLASS_CONTROL, md->in_port, 0);
	if (on_link)
		router_heard(ctx, md, &key, sender_mac, ROUTER_ND);
	if (pcn_nd_advertise(ctx, mac, PCN_ND_ROUTER))
		return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
	return pcn_pkt_send(ctx, md, md->in_port);
}

#endif
