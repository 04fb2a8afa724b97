// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Rare cases: options, packets for the router itself, multicast and broadcast, and packets that are
 * too long. */
#ifndef ROUTER_SPECIAL_H
#define ROUTER_SPECIAL_H

#include "answer.h"

#define ROUTER_OPTION_LOOSE_ROUTE 131
#define ROUTER_OPTION_STRICT_ROUTE 137

/* All ones if a is b, by arithmetic that the verifier does not split into two paths: forty times
 * two paths would be too many. */
PCN_INLINE __u64 router_same(__u64 a, __u64 b)
{
	__u64 one = ((a ^ b) - 1) >> 63;

	asm volatile("" : "+r"(one));
	return -one;
}

/* Checks the options of an IPv4 header that has `length` bytes of them, and whose other words add
 * up to `sum`: 0, or the drop reason. */
PCN_GLOBAL int router_options(struct CTXTYPE *ctx, __u32 length, __u64 sum)
{
	__u64 skip = 0, over = 0, bad = 0, source_route = 0;
	__u8 option[48] __attribute__((aligned(8))) = {};

	if (length < 4 || length > 40)
		return ROUTER_BAD_HEADER;
	if (pcn_load_bytes(ctx, sizeof(struct ethhdr) + sizeof(struct iphdr), option, length))
		return ROUTER_TRUNCATED;
	for (int i = 0; i < 10; i++)
		sum += ((__u32 *)option)[i];
	if (pcn_csum_words(sum) != 0xffff)
		return ROUTER_BAD_CHECKSUM;
#pragma clang loop unroll(disable)
	for (__u64 i = 0; i < 40; i++) { /* the same for each byte, so there is only one path */
		__u64 kind = option[i], size = option[i + 1];
		__u64 behind = i - length;

		asm volatile("" : "+r"(behind)); /* no branches */
		__u64 here = router_same(skip, 0) & ~over & -(behind >> 63);
		__u64 last = router_same(kind, 0), filler = router_same(kind, 1);

		source_route |= here & (router_same(kind, ROUTER_OPTION_LOOSE_ROUTE) |
					router_same(kind, ROUTER_OPTION_STRICT_ROUTE));
		bad |= here & router_same(size & 0xfe, 0) & ~filler & ~last;
		over |= here & last;
		skip = (here & ~filler & (size - 1)) | (~here & (skip - 1));
	}
	if (source_route)
		return ROUTER_SOURCE_ROUTE;
	return bad ? ROUTER_BAD_HEADER : 0;
}

/* Offers a packet for an address of the router to the transparent cubes of the port that has the
 * address, once, unless it came in there. 0: it is for the router. */
PCN_INLINE int router_offer(struct CTXTYPE *ctx, struct pcn_md *md,
			    const struct router_owner_key *destination)
{
	if (!pcn_offers || pcn_offered(md))
		return 0;
	__u32 *owner = bpf_map_lookup_elem(&owners, destination);
	return owner && *owner != md->in_port ? pcn_pkt_offer(ctx, md, *owner) : 0;
}

/* An IPv4 packet for the router, or to a broadcast or multicast address on a link. With offer 0, a
 * packet for the router is not offered. */
PCN_GLOBAL int router_local4(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 destination)
{
	struct router_owner_key key;

	pcn_address_set4(key.address, bpf_htonl(destination));
	int verdict = router_offer(ctx, md, &key);
	if (verdict)
		return verdict;
	if (pcn_turned(md)) {
		struct pcn_cursor c;

		pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct iphdr));
		struct ethhdr *eth = pcn_parse_eth(&c);
		struct iphdr *ip = eth ? pcn_cursor_take(&c, sizeof(*ip)) : NULL;
		if (!ip)
			return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
		key.address[3] = ip->saddr;
		if (bpf_map_lookup_elem(&owners, &key))
			return pcn_pkt_drop(ctx, md, ROUTER_SPOOFED);
	}
	if (pcn_shadow)
		return pcn_pkt_namespace(ctx, md, md->in_port);
	if (destination >> 28 == 14)
		return pcn_pkt_drop(ctx, md, ROUTER_MULTICAST);
	if (destination == 0xffffffff)
		return pcn_pkt_drop(ctx, md, ROUTER_BROADCAST);
	return router_punt(ctx, md, ROUTER_LOCAL, ROUTER_CLASS_LOCAL, md->in_port, 0);
}

/* Instead of a verdict: the packet is for router_nd. The caller calls it, because the stack of
 * Linux 6.1 is too small for another function between the two. */
#define ROUTER_IS_ND -1

/* The verdict on an IPv6 packet for the router, or for a group on a link, or ROUTER_IS_ND:
 * neighbour discovery is processed separately, whatever the destination. */
PCN_GLOBAL int router_local6(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	struct router_owner_key key, source;
	struct pcn_cursor c;
	int multicast, type = -1;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + 8);
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct ipv6hdr *ip = eth ? pcn_parse_ipv6(&c) : NULL;
	if (!ip)
		return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
	multicast = pcn_ipv6_is_multicast(&ip->daddr);
	int group = router_destination(eth) & 1;
	pcn_address_set6(key.address, &ip->daddr);
	pcn_address_set6(source.address, &ip->saddr);
	if (ip->nexthdr == IPPROTO_ICMPV6) {
		struct pcn_icmp *icmp = pcn_parse_icmp(&c);

		if (!icmp)
			return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
		type = icmp->type;
	}
	if (type == PCN_ND_SOLICITATION || type == PCN_ND_ADVERTISEMENT)
		return ROUTER_IS_ND;
	int verdict = group ? 0 : router_offer(ctx, md, &key);
	if (verdict)
		return verdict;
	if (pcn_turned(md) && bpf_map_lookup_elem(&owners, &source))
		return pcn_pkt_drop(ctx, md, ROUTER_SPOOFED);
	if (pcn_shadow)
		return pcn_pkt_namespace(ctx, md, md->in_port);
	if (type >= PCN_ND_ROUTER_SOLICITATION && type <= PCN_ND_REDIRECT)
		return pcn_pkt_drop(ctx, md, ROUTER_ARP_NOT_FOR_US);
	if (multicast && type != 128)
		return pcn_pkt_drop(ctx, md, ROUTER_MULTICAST);
	return router_punt(ctx, md, ROUTER_LOCAL, ROUTER_CLASS_LOCAL, md->in_port, 0);
}

/* The verdict on an IPv6 packet whose source is an address of the router, a forgery, or
 * ROUTER_IS_ND: neighbour discovery reports another station with the address. */
PCN_GLOBAL int router_own_source6(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, int multicast)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + 8);
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct ipv6hdr *ip = eth ? pcn_parse_ipv6(&c) : NULL;
	struct pcn_icmp *icmp = ip ? pcn_parse_icmp(&c) : NULL;

	if (icmp && multicast && ip->nexthdr == IPPROTO_ICMPV6 &&
	    (icmp->type == PCN_ND_SOLICITATION || icmp->type == PCN_ND_ADVERTISEMENT))
		return ROUTER_IS_ND;
	return pcn_pkt_drop(ctx, md, ROUTER_SPOOFED);
}

/* The length of the longest packet that a frame produces: for a superframe, of a segment. */
PCN_INLINE __u32 router_segment(struct CTXTYPE *ctx, struct pcn_cursor *c, __u32 header,
				__u8 protocol, __u32 length)
{
#ifdef PCN_TC
	__u32 size = ctx->gso_size;

	if (!size)
		return length;
	if (protocol != IPPROTO_TCP)
		return header + sizeof(struct pcn_ports) * 2 + size;
	__u8 *tcp = pcn_cursor_take(c, 20);
	return tcp ? header + (tcp[12] >> 4) * 4 + size : length;
#else
	(void)ctx;
	(void)c;
	(void)header;
	(void)protocol;
	return length;
#endif
}

/* A packet that exceeds the MTU of a port by its length, or as a superframe: 0 if its segments fit,
 * else the verdict. */
PCN_GLOBAL int router_too_big(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 port,
			      __u32 mtu)
{
	struct pcn_cursor c;
	__u32 longest;
	int fragment = 0;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + 60);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = pcn_parse_ipv4(&c);

		if (!ip || pcn_skip_ipv4_options(&c, ip))
			return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
		fragment = !(ip->frag_off & bpf_htons(0x4000));
		longest = router_segment(ctx, &c, ip->ihl * 4, ip->protocol, mtu + 1);
	} else {
		struct ipv6hdr *ip = pcn_parse_ipv6(&c);

		if (!ip)
			return pcn_pkt_drop(ctx, md, ROUTER_TRUNCATED);
		longest = router_segment(ctx, &c, sizeof(*ip), ip->nexthdr, mtu + 1);
	}
	if (longest <= mtu)
		return 0;
	if (fragment)
		return router_punt(ctx, md, ROUTER_FRAGMENT, ROUTER_CLASS_LOCAL, port, mtu);
	return router_punt(ctx, md, ROUTER_TOO_BIG, ROUTER_CLASS_ICMP, port, mtu);
}

/* The verdict for a packet whose route leads nowhere. */
PCN_GLOBAL int router_nowhere(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 kind)
{
	switch (kind) {
	case ROUTER_KIND_BLACKHOLE:
		return pcn_pkt_drop(ctx, md, ROUTER_BLACKHOLE);
	case ROUTER_KIND_UNREACHABLE:
		return router_punt(ctx, md, ROUTER_UNREACHABLE_ROUTE, ROUTER_CLASS_ICMP, 0, 0);
	case ROUTER_KIND_PROHIBIT:
		return router_punt(ctx, md, ROUTER_PROHIBIT_ROUTE, ROUTER_CLASS_ICMP, 0, 0);
	}
	return router_punt(ctx, md, ROUTER_NO_ROUTE, ROUTER_CLASS_ICMP, 0, 0);
}

#endif
