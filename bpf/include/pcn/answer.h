// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Answers of cubes with IP addresses of their own: ARP (RFC 826), neighbour solicitations (RFC 4861), and echo requests. The
 * caller knows which addresses are the cube's. */
#ifndef PCN_ANSWER_H
#define PCN_ANSWER_H

#include <pcn/csum.h>
#include <pcn/ip.h>

/* A neighbour solicitation or advertisement with the one option that both have. */
struct pcn_nd {
	__u8 type;
	__u8 code;
	__sum16 check;
	__be32 flags;
	struct in6_addr target;
	__u8 option; /* 1 source, 2 target link-layer address */
	__u8 option_len;
	__u8 mac[ETH_ALEN];
};

/* The first type of neighbour discovery. */
#define PCN_ND_ROUTER_SOLICITATION 133
/* Type: a request for the MAC address of an IPv6 address. */
#define PCN_ND_SOLICITATION 135
/* Type: an answer to it. */
#define PCN_ND_ADVERTISEMENT 136
/* The last type. */
#define PCN_ND_REDIRECT 137

/* Flags of an advertisement, in host byte order: the sender is a router. */
#define PCN_ND_ROUTER 0x80000000
/* Internal: it answers a solicitation, and replaces what is known. */
#define PCN_ND_SOLICITED 0x40000000
#define PCN_ND_OVERRIDE 0x20000000

/* Turns an ARP request into the reply that its target has the address `mac` (pcn_mac). */
PCN_INLINE void pcn_arp_reply(struct ethhdr *eth, struct pcn_arp *a, __u64 mac)
{
	__be32 sender = a->sender, target = a->target;
	__u64 station = pcn_mac(a->sender_mac);

	__builtin_memcpy(a->target_mac, &station, ETH_ALEN);
	__builtin_memcpy(a->sender_mac, &mac, ETH_ALEN);
	a->operation = bpf_htons(PCN_ARP_REPLY);
	a->target = sender;
	a->sender = target;
	pcn_set_macs(eth, station, mac);
}

/* The sum of the words that an ICMPv6 checksum covers in a solicitation or advertisement: 0xffff if
 * it is correct. */
PCN_INLINE __u16 pcn_nd_sum(const struct ipv6hdr *ip, const struct pcn_nd *nd)
{
	const __u32 *address = (const void *)&ip->saddr, *word = (const void *)nd;
	__u64 sum = (__u64)bpf_htonl(sizeof(*nd)) + bpf_htonl(IPPROTO_ICMPV6);

	for (int i = 0; i < 8; i++)
		sum += (__u64)address[i] + word[i];
	return pcn_csum_words(sum);
}

/* Turns a solicitation, without tags in the frame and with its option, into the advertisement that the target has the
 * address `mac`. flags are those beyond solicited and override. -1: the frame is too short. */
PCN_INLINE int pcn_nd_advertise(struct CTXTYPE *ctx, __u64 mac, __u32 flags)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, 14 + sizeof(struct ipv6hdr) + sizeof(struct pcn_nd));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct ipv6hdr *ip = eth ? pcn_parse_ipv6(&c) : NULL;
	struct pcn_nd *nd = ip ? pcn_cursor_take(&c, sizeof(*nd)) : NULL;

	if (!nd)
		return -1;
	pcn_set_macs(eth, pcn_mac(nd->mac), mac);
	ip->daddr = ip->saddr;
	ip->saddr = nd->target;
	ip->hop_limit = 255;
	nd->type = PCN_ND_ADVERTISEMENT;
	nd->flags = bpf_htonl(flags | PCN_ND_SOLICITED | PCN_ND_OVERRIDE);
	nd->option = 2;
	__builtin_memcpy(nd->mac, &mac, ETH_ALEN);
	nd->check = 0;
	nd->check = ~pcn_nd_sum(ip, nd);
	return 0;
}

#endif
