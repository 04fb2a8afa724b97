// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* ARP, IPv4, IPv6 and the headers after them, read through a cursor. Each parser takes a header and
 * moves the cursor past it, or returns NULL if the header is incomplete or malformed. At TC, open
 * the cursor with the number of bytes that may be needed: Ethernet, 14; IPv4, 20 to 60; IPv6, 40,
 * and PCN_IPV6_EXTENSIONS_MAX for its extension headers; ports, 4; ICMP, 8. */
#ifndef PCN_IP_H
#define PCN_IP_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <pcn/csum.h>
#include <pcn/packet.h>

/* An ARP packet for IPv4 over Ethernet (RFC 826). */
struct pcn_arp {
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 operation;
	__u8 sender_mac[ETH_ALEN];
	__be32 sender;
	__u8 target_mac[ETH_ALEN];
	__be32 target;
} __attribute__((packed));

/* ARP operations, in host byte order. */
#define PCN_ARP_REQUEST 1
#define PCN_ARP_REPLY 2

/* Takes an ARP packet: NULL if it is not one for IPv4 over Ethernet. */
PCN_INLINE struct pcn_arp *pcn_parse_arp(struct pcn_cursor *c)
{
	struct pcn_arp *arp = pcn_cursor_take(c, sizeof(*arp));

	if (!arp || arp->hardware != bpf_htons(1) || arp->protocol != bpf_htons(ETH_P_IP) ||
	    arp->hardware_len != ETH_ALEN || arp->protocol_len != 4)
		return NULL;
	return arp;
}

/* Takes an IPv4 header without its options: NULL if the version is not 4, if the header length is
 * below 20 bytes, or if it exceeds the total length. It checks neither the total length against the
 * frame nor the checksum. */
PCN_INLINE struct iphdr *pcn_parse_ipv4(struct pcn_cursor *c)
{
	struct iphdr *ip = pcn_cursor_take(c, sizeof(*ip));

	if (!ip || ip->version != 4 || ip->ihl < 5 || bpf_ntohs(ip->tot_len) < ip->ihl * 4)
		return NULL;
	return ip;
}

/* Moves past the options of an IPv4 header that was just taken. -1 if they are incomplete. */
PCN_INLINE int pcn_skip_ipv4_options(struct pcn_cursor *c, const struct iphdr *ip)
{
	__u32 options = (ip->ihl * 4 - sizeof(*ip)) & 0x3c;

	if (c->pos + options > c->end)
		return -1;
	c->pos += options;
	return 0;
}

/* True if the checksum of an IPv4 header, including options, is correct; end is the cursor's. False
 * also if the options are incomplete. */
PCN_INLINE int pcn_ipv4_checksum_ok(const struct iphdr *ip, const void *end)
{
	const __u32 *word = (const void *)ip;
	__u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];

	if (ip->ihl > 5) {
		for (__u32 i = 5; i < 15; i++) {
			if (i >= ip->ihl)
				break;
			if ((const void *)(word + i + 1) > end)
				return 0;
			sum += word[i];
		}
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Which part of a packet a frame contains. */
enum pcn_fragment {
	PCN_FRAGMENT_NONE = 0, /* all of it */
	PCN_FRAGMENT_FIRST,    /* the beginning: it has ports */
	PCN_FRAGMENT_LATER,    /* a later part: it has no headers after the IP header */
};

/* Which part of a packet follows an IPv4 header. */
PCN_INLINE enum pcn_fragment pcn_ipv4_fragment(const struct iphdr *ip)
{
	if (ip->frag_off & bpf_htons(0x1fff))
		return PCN_FRAGMENT_LATER;
	return ip->frag_off & bpf_htons(0x2000) ? PCN_FRAGMENT_FIRST : PCN_FRAGMENT_NONE;
}

/* Takes an IPv6 header: NULL if the version is not 6. It does not check the payload length. */
PCN_INLINE struct ipv6hdr *pcn_parse_ipv6(struct pcn_cursor *c)
{
	struct ipv6hdr *ip = pcn_cursor_take(c, sizeof(*ip));

	return ip && ip->version == 6 ? ip : NULL;
}

/* True for IPv4 addresses, in host byte order, that are never valid as a source (RFC 1812 5.3.7, RFC
 * 6890): 0/8, 127/8, 224/4 and 240/4. */
PCN_INLINE int pcn_ipv4_is_martian(__u32 address)
{
	return address - 0x01000000 >= 0xdf000000 || address >> 24 == 127;
}

/* True for IPv6 addresses that are never valid on a link: unspecified, loopback, and IPv4-mapped or
 * -compatible (RFC 6890). */
PCN_INLINE int pcn_ipv6_is_martian(const struct in6_addr *a)
{
	const __be32 *w = a->in6_u.u6_addr32;

	/* One comparison reduces the verifier's work: a product is 0 if a factor is. */
	return !((w[0] | w[1]) | (__u64)w[2] * (w[2] ^ bpf_htonl(0xffff)));
}

/* True for ff00::/8. */
PCN_INLINE int pcn_ipv6_is_multicast(const struct in6_addr *a)
{
	return a->in6_u.u6_addr8[0] == 0xff;
}

/* True for fe80::/10. */
PCN_INLINE int pcn_ipv6_is_link_local(const struct in6_addr *a)
{
	return (a->in6_u.u6_addr32[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

/* The ports at the start of TCP, UDP, UDP-Lite, SCTP and DCCP. */
struct pcn_ports {
	__be16 source;
	__be16 destination;
};

/* True for protocols that begin with struct pcn_ports. */
PCN_INLINE int pcn_has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP ||
	       protocol == IPPROTO_DCCP || protocol == IPPROTO_UDPLITE;
}

/* Takes the ports: NULL at the end of the packet. First check pcn_has_ports and whether the packet
 * is a fragment. */
PCN_INLINE struct pcn_ports *pcn_parse_ports(struct pcn_cursor *c)
{
	return pcn_cursor_take(c, sizeof(struct pcn_ports));
}

/* The first eight bytes of ICMP and ICMPv6. In errors, `id` and `sequence` have other meanings, and
 * the packet that caused the error follows. */
struct pcn_icmp {
	__u8 type;
	__u8 code;
	__sum16 check;
	__be16 id;
	__be16 sequence;
};

/* Takes an ICMP or ICMPv6 header: NULL at the end of the packet. */
PCN_INLINE struct pcn_icmp *pcn_parse_icmp(struct pcn_cursor *c)
{
	return pcn_cursor_take(c, sizeof(struct pcn_icmp));
}

/* True for ICMP types that have an id: queries and their replies (RFC 792, 950). */
PCN_INLINE int pcn_icmp_has_id(__u8 type)
{
	return type == 0 || type == 8 || (type >= 13 && type <= 18);
}

/* True for ICMP errors, which contain the beginning of another packet. */
PCN_INLINE int pcn_icmp_is_error(__u8 type)
{
	return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/* True for ICMPv6 types that have an id: echo request and reply. */
PCN_INLINE int pcn_icmp6_has_id(__u8 type)
{
	return type == 128 || type == 129;
}

/* True for ICMPv6 errors, which contain the beginning of another packet (RFC 4443). */
PCN_INLINE int pcn_icmp6_is_error(__u8 type)
{
	return type < 128;
}

#endif
