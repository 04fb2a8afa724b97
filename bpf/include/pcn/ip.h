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

/* The result of pcn_skip_ipv6_extensions. */
struct pcn_ipv6_payload {
	__u8 protocol;	 /* of the header at the cursor: TCP, ICMPv6 ... 59: nothing follows */
	__u8 fragment;	 /* enum pcn_fragment */
	__u8 routing;	 /* type of the routing header plus 1; 0: there is none */
	__u8 hop_by_hop; /* 1: there is a hop-by-hop options header */
	__u16 length;	 /* length of the extension headers in bytes */
	__u16 pad;
	__be32 id; /* of a fragment */
};

/* The maximum number of extension headers, and of their bytes, that are skipped. */
#define PCN_IPV6_EXTENSIONS 8
#define PCN_IPV6_EXTENSIONS_MAX 256

/* Internal: the header of most extensions. */
struct pcn_ipv6_extension {
	__u8 next;
	__u8 length;
	__u8 type;
	__u8 rest;
	__be32 word;
};

/* Internal: all ones if the protocol is `one`, else 0, by arithmetic that neither compiler nor
 * verifier turns into branches: each branch would double the verifier's work per header. */
PCN_INLINE __u64 pcn_ipv6_is(__u64 protocol, __u64 one)
{
	__u64 mask = ((protocol ^ one) - 1) >> 63;

	asm volatile("" : "+r"(mask));
	return -mask;
}

/* Internal: all ones if a protocol is an extension header other than ESP. 135, 139 and 140 are from
 * RFC 6275, 7401 and 5533. */
PCN_INLINE __u64 pcn_ipv6_is_extension(__u64 protocol)
{
	return pcn_ipv6_is(protocol, IPPROTO_HOPOPTS) | pcn_ipv6_is(protocol, IPPROTO_ROUTING) |
	       pcn_ipv6_is(protocol, IPPROTO_FRAGMENT) | pcn_ipv6_is(protocol, IPPROTO_AH) |
	       pcn_ipv6_is(protocol, IPPROTO_DSTOPTS) | pcn_ipv6_is(protocol, 135) |
	       pcn_ipv6_is(protocol, 139) | pcn_ipv6_is(protocol, 140);
}

/* Internal: records the relevant fields of an extension header, and returns its size. */
PCN_INLINE __u32 pcn_ipv6_note(struct pcn_ipv6_payload *found, const struct pcn_ipv6_extension *e)
{
	__u64 protocol = found->protocol;
	__u64 authentication = pcn_ipv6_is(protocol, IPPROTO_AH);
	__u64 fragment = pcn_ipv6_is(protocol, IPPROTO_FRAGMENT);
	__u64 routing = pcn_ipv6_is(protocol, IPPROTO_ROUTING);
	__u64 offset = (__u64)e->type << 8 | e->rest;
	__u64 later = -(offset & 0xfff8) >> 63;
	__u64 size = ((__u64)e->length + 1 + (authentication & 1)) << (3 - (authentication & 1));

	asm volatile("" : "+r"(later));
	later = -later & fragment;
	found->hop_by_hop |= pcn_ipv6_is(protocol, IPPROTO_HOPOPTS) & 1;
	found->routing = (found->routing & ~routing) | ((e->type + 1) & routing);
	found->fragment = ((found->fragment | (offset & 1 & fragment)) & ~later) | (later & 2);
	found->id = (found->id & ~fragment) | (e->word & fragment);
	found->protocol = e->next;
	return (size & ~fragment) | (8 & fragment);
}

/* Moves past the extension headers of an IPv6 packet (RFC 8200), of which `next` is the first, and
 * reports what it found. -1 if they are incomplete or too many. ESP is not skipped. After the
 * fragment header of a later fragment, nothing is skipped. */
PCN_INLINE int pcn_skip_ipv6_extensions(struct pcn_cursor *c, __u8 next,
					struct pcn_ipv6_payload *found)
{
	void *first = c->pos;
	__u64 unknown = c->end - first, length = 0;

	__builtin_memset(found, 0, sizeof(*found));
	found->protocol = next;
	for (int i = 0; i <= PCN_IPV6_EXTENSIONS; i++) {
		struct pcn_ipv6_extension *e = first + length;
		__u64 later = found->fragment >> 1;

		if (!(pcn_ipv6_is_extension(found->protocol) & (later - 1)))
			break;
		if (i == PCN_IPV6_EXTENSIONS || (void *)(e + 1) > c->end)
			return -1;
		length += pcn_ipv6_note(found, e) & 0xfff;
		if (length > PCN_IPV6_EXTENSIONS_MAX)
			return -1;
	}
	length =
		pcn_opaque(length, unknown) & 0x1ff; /* one path from here, whatever their number */
	if (first + length > c->end)
		return -1;
	found->length = length;
	c->pos = first + length;
	return 0;
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
