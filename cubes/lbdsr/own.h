// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Packets for the cube itself: ARP and neighbour discovery for its addresses, and echo requests. */
#ifndef LBDSR_OWN_H
#define LBDSR_OWN_H

#include "lbdsr.h"

/* True if an address is the cube's at a port. */
PCN_INLINE int lbdsr_is_own(const struct lbdsr_address_key *key)
{
	return !!bpf_map_lookup_elem(&addresses, key);
}

/* Gives what only the control plane can handle to it, within a limit. */
PCN_INLINE int lbdsr_control(struct CTXTYPE *ctx, struct pcn_md *md, const struct lbdsr_settings *s)
{
	if (!lbdsr_allowed(s, LBDSR_LIMIT_CONTROL))
		return pcn_pkt_drop(ctx, md, LBDSR_CONTROL_LIMIT);
	return pcn_pkt_controller(ctx, md, LBDSR_NEIGHBOUR);
}

/* An ARP packet. Returns -1 if the control plane is to have it. */
PCN_GLOBAL int lbdsr_arp(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u64 mac)
{
	struct lbdsr_address_key key = { .port = md->in_port };
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct pcn_arp));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct pcn_arp *a = eth ? pcn_parse_arp(&c) : NULL;
	if (!a)
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	__u64 sender = pcn_mac(a->sender_mac);

	if (sender & 1 || !sender)
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	if (a->operation != bpf_htons(PCN_ARP_REQUEST))
		return -1;
	pcn_address_set4(key.address, a->target);
	if (!lbdsr_is_own(&key))
		return pcn_pkt_drop(ctx, md, LBDSR_ARP_NOT_FOR_US);
	pcn_arp_reply(eth, a, mac);
	return pcn_pkt_send(ctx, md, md->in_port);
}

/* A neighbour solicitation or advertisement. Returns -1 if the control plane is to have it. */
PCN_GLOBAL int lbdsr_nd(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u64 mac)
{
	struct lbdsr_address_key key = { .port = md->in_port };
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, 14 + sizeof(struct ipv6hdr) + sizeof(struct pcn_nd));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct ipv6hdr *ip = eth ? pcn_parse_ipv6(&c) : NULL;
	struct pcn_nd *nd = ip ? pcn_cursor_take(&c, sizeof(*nd)) : NULL;
	if (!nd || ip->hop_limit != 255)
		return -1; /* a form without the option, or malformed */
	if (nd->type != PCN_ND_SOLICITATION || nd->option != 1 || nd->option_len != 1 ||
	    ip->payload_len != bpf_htons(sizeof(*nd)) || pcn_ipv6_is_multicast(&ip->saddr))
		return -1;
	if (nd->code || pcn_nd_sum(ip, nd) != 0xffff || pcn_mac(nd->mac) & 1)
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	pcn_address_set6(key.address, &nd->target);
	if (!lbdsr_is_own(&key))
		return pcn_pkt_drop(ctx, md, LBDSR_ARP_NOT_FOR_US);
	if (pcn_nd_advertise(ctx, mac, 0))
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	return pcn_pkt_send(ctx, md, md->in_port);
}

/* Turns an echo request into its reply, and sends it back. */
PCN_GLOBAL int lbdsr_echo(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u64 mac)
{
	struct pcn_cursor c;
	__be16 was, is;

	pcn_cursor_open(&c, ctx, 14 + sizeof(struct ipv6hdr) + sizeof(struct pcn_icmp));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	__u64 station = pcn_macs(eth).from;
	struct pcn_icmp *icmp;

	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = pcn_cursor_take(&c, sizeof(*ip));

		if (!ip || ip->ihl != 5)
			return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
		icmp = pcn_cursor_take(&c, sizeof(*icmp));
		if (!icmp)
			return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
		__be32 source = ip->saddr;

		ip->saddr = ip->daddr;
		ip->daddr = source;
		pcn_csum_ipv4(ip, pcn_csum_diff2(bpf_htons(ip->ttl << 8), bpf_htons(64 << 8)));
		ip->ttl = 64;
		icmp->type = 0;
		was = bpf_htons(8 << 8);
		is = 0;
		pcn_csum_l4(ctx, icmp, &icmp->check, 0, pcn_csum_diff2(was, is), 0);
	} else {
		struct ipv6hdr *ip = pcn_cursor_take(&c, sizeof(*ip));

		icmp = ip ? pcn_cursor_take(&c, sizeof(*icmp)) : NULL;
		if (!icmp)
			return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
		struct in6_addr source = ip->saddr;

		ip->saddr = ip->daddr;
		ip->daddr = source;
		ip->hop_limit = 64;
		icmp->type = 129;
		was = bpf_htons(128 << 8);
		is = bpf_htons(129 << 8);
		pcn_csum_l4(ctx, icmp, &icmp->check, 0, pcn_csum_diff2(was, is), PCN_CSUM_IPV6);
	}
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	pcn_set_macs(eth, station, mac);
	return pcn_pkt_send(ctx, md, md->in_port);
}

#endif
