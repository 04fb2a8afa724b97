// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Encapsulates IP packets: IP in IP (RFC 2003, RFC 2473, RFC 4213), and GUE (draft-ietf-intarea-gue, variant 1: the packet
 * directly follows the UDP header). The IP packet must follow the Ethernet header, without VLAN tags in the frame.
 * Works at both hooks; at TC, superframes stay superframes, with smaller segments. */
#ifndef PCN_ENCAP_H
#define PCN_ENCAP_H

#include <linux/udp.h>
#include <pcn/csum.h>
#include <pcn/flow.h>

enum pcn_encap_kind {
	PCN_ENCAP_IP, /* only the outer IP header */
	PCN_ENCAP_GUE,
};

/* The outer headers. */
struct pcn_encap {
	pcn_address source; /* the family of both is that of the outer header */
	pcn_address destination;
	__be16 source_port; /* of GUE */
	__be16 port;
	__u8 kind; /* enum pcn_encap_kind */
	__u8 ttl;
	__u8 ipv6;	 /* the outer header is IPv6 */
	__u8 inner_ipv6; /* the inner packet is IPv6 */
	__u32 length;	 /* internal: of the packet */
	__u16 sum;    /* internal: of its bytes, if the UDP checksum of GUE needs it; 0: unknown */
	__u8 tos;     /* internal: DSCP and ECN */
	__u8 between; /* internal: bytes between the UDP header and the packet */
	__u8 dscp;    /* of the outer header, plus 1; 0: the DSCP of the packet */
	__u8 zero[3];
};

/* The bytes that encapsulation adds. */
PCN_INLINE __u32 pcn_encap_overhead(const struct pcn_encap *e)
{
	return (e->ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) +
	       (e->kind == PCN_ENCAP_GUE ? sizeof(struct udphdr) + e->between : 0);
}

/* Internal: makes room between the Ethernet header and the packet. At XDP, the Ethernet header then stays where it was, and
 * the new one is not yet written. */
PCN_INLINE long pcn_encap_room(struct CTXTYPE *ctx, const struct pcn_encap *e)
{
	__u32 room = pcn_encap_overhead(e);
#ifdef PCN_TC
	__u64 flags = e->ipv6 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;

	if (e->kind == PCN_ENCAP_GUE)
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	return bpf_skb_adjust_room(ctx, room, BPF_ADJ_ROOM_MAC, flags);
#else
	return bpf_xdp_adjust_head(ctx, -(int)room);
#endif
}

/* Internal: the sum of the words of an address. */
PCN_INLINE __u64 pcn_encap_sum16(const __be32 *a)
{
	return (__u64)a[0] + a[1] + a[2] + a[3];
}

/* Internal: the sum of all bytes of a packet, from its headers alone: with a correct checksum, the bytes that it covers add
 * up to the complement of the pseudo header, whether the checksum is already present or a device will write it. 0 if
 * unknown: for a fragment, or a packet without a checksum. Only for outer IPv6 headers, because outer IPv4 needs no
 * UDP checksum. */
PCN_INLINE __u16 pcn_encap_inner_sum(struct CTXTYPE *ctx, const struct pcn_flow *f,
				     const __be32 *word)
{
	/* of the packet, although the flow may be that which an ICMP error is about */
	__u32 protocol = !(f->has & PCN_FLOW_ICMP) ? f->protocol
			 : f->has & PCN_FLOW_IPV6  ? IPPROTO_ICMPV6
						   : IPPROTO_ICMP;
	__u64 sum = 0xffff;

	if (f->fragment != PCN_FRAGMENT_NONE || !(f->has & PCN_FLOW_L4))
		return 0;
	if (protocol == IPPROTO_UDP) {
		__u16 check = 0;

		if (pcn_load_bytes(ctx, f->l4 + offsetof(struct udphdr, check), &check, 2) ||
		    !check)
			return 0;
	} else if (protocol != IPPROTO_TCP &&
		   (protocol != IPPROTO_ICMPV6 || !(f->has & PCN_FLOW_IPV6))) {
		return 0;
	}
	if (f->has & PCN_FLOW_IPV6) {
		/* the fixed header, without the addresses, which are in the pseudo header too */
		__u32 length =
			bpf_ntohs(word[1] & 0xffff) + sizeof(struct ipv6hdr) - (f->l4 - f->l3);

		if (f->l4 - f->l3 != sizeof(struct ipv6hdr))
			return 0;
		sum += (__u64)word[0] + word[1];
		sum += (__u16)~pcn_csum_words((__u64)bpf_htonl(length) + bpf_htonl(protocol));
	} else {
		/* a correct header adds up to zero, leaving the complement of the pseudo header */
		__u32 length = bpf_ntohl(word[0]) % 65536 - (f->l4 - f->l3);

		sum += (__u16)~pcn_csum_words((__u64)f->source[3] + f->destination[3] +
					      bpf_htonl(length) + bpf_htonl(protocol));
	}
	return pcn_csum_words(sum);
}

/* Internal: writes an outer IPv4 header. */
PCN_INLINE void pcn_encap_write4(struct iphdr *ip, const struct pcn_encap *e)
{
	__u32 length = e->length + pcn_encap_overhead(e);
	__be32 *word = (void *)ip;
	__u8 protocol = e->kind == PCN_ENCAP_GUE ? IPPROTO_UDP
			: e->inner_ipv6		 ? IPPROTO_IPV6
						 : IPPROTO_IPIP;

	word[0] = bpf_htonl(0x45000000 | e->tos << 16 | (length & 0xffff));
	word[1] = bpf_htonl(0x4000); /* DF: the packet fits the path */
	word[2] = bpf_htonl(e->ttl << 24 | protocol << 16);
	word[3] = e->source[3];
	word[4] = e->destination[3];
	ip->check = ~pcn_csum_words((__u64)word[0] + word[1] + word[2] + word[3] + word[4]);
}

/* Internal: writes an outer IPv6 header. */
PCN_INLINE void pcn_encap_write6(struct ipv6hdr *ip, const struct pcn_encap *e)
{
	__u32 length = e->length + pcn_encap_overhead(e) - sizeof(*ip);
	__be32 *word = (void *)ip;
	__u8 protocol = e->kind == PCN_ENCAP_GUE ? IPPROTO_UDP
			: e->inner_ipv6		 ? IPPROTO_IPV6
						 : IPPROTO_IPIP;

	word[0] = bpf_htonl(0x60000000 | e->tos << 20);
	word[1] = bpf_htonl(length << 16 | protocol << 8 | e->ttl);
	__builtin_memcpy(word + 2, e->source, sizeof(pcn_address));
	__builtin_memcpy(word + 6, e->destination, sizeof(pcn_address));
}

/* Internal: writes the UDP header of GUE. */
PCN_INLINE void pcn_encap_write_udp(struct udphdr *udp, const struct pcn_encap *e)
{
	__u32 length = e->length + e->between + sizeof(*udp);
	__u16 check = 0;

	udp->source = e->source_port;
	udp->dest = e->port;
	udp->len = bpf_htons(length);
	if (e->ipv6 && e->sum) {
		check = ~pcn_csum_words(pcn_encap_sum16(e->source) +
					pcn_encap_sum16(e->destination) + bpf_htonl(length) +
					bpf_htonl(IPPROTO_UDP) + udp->source + udp->dest +
					udp->len + e->sum);
		check = check ?: 0xffff;
	}
	udp->check = check;
}

/* Internal: reads the fields that outer headers copy from the packet. -1: it is truncated, or behind a tag. */
PCN_INLINE int pcn_encap_read(struct CTXTYPE *ctx, struct pcn_encap *e, const struct pcn_flow *f)
{
	__be32 word[2], *there = pcn_data(ctx) + sizeof(struct ethhdr);

	e->inner_ipv6 = !!(f->has & PCN_FLOW_IPV6);
	if (f->l3 != sizeof(struct ethhdr))
		return -1;
	if ((void *)(there + 2) <= pcn_data_end(ctx)) {
		word[0] = there[0];
		word[1] = there[1];
	} else if (pcn_load_bytes(ctx, sizeof(struct ethhdr), word, sizeof(word))) {
		return -1;
	}
	if (e->inner_ipv6) {
		e->tos = bpf_ntohl(word[0]) >> 20;
		e->length = (bpf_ntohl(word[1]) >> 16) + sizeof(struct ipv6hdr);
	} else {
		e->tos = bpf_ntohl(word[0]) >> 16;
		e->length = bpf_ntohl(word[0]) & 0xffff;
	}
	if (e->dscp)
		e->tos = (e->dscp - 1) << 2 | (e->tos & 3);
	e->sum = 0;
	if (!e->ipv6 || e->kind != PCN_ENCAP_GUE)
		return 0;
#ifdef PCN_TC
	if (ctx->gso_size)
		return 0; /* each segment has its own sum */
#endif
	e->sum = pcn_encap_inner_sum(ctx, f, word);
	return 0;
}

/* Internal: writes the outer headers. `between` are words after the UDP header, e->between bytes of 16; NULL: none. */
PCN_INLINE int pcn_encap_write(struct CTXTYPE *ctx, struct pcn_encap *e, const __be32 *between)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx), *l3 = data + sizeof(struct ethhdr),
	     *l4;

	if (e->ipv6) {
		l4 = l3 + sizeof(struct ipv6hdr);
		if (l4 > end)
			return -1;
		pcn_encap_write6(l3, e);
	} else {
		l4 = l3 + sizeof(struct iphdr);
		if (l4 > end)
			return -1;
		pcn_encap_write4(l3, e);
	}
	if (e->kind != PCN_ENCAP_GUE)
		return 0;
	if (l4 + sizeof(struct udphdr) > end)
		return -1;
	if (between && e->sum)
		e->sum = pcn_csum_words(pcn_encap_sum16(between) + e->sum);
	pcn_encap_write_udp(l4, e);
	if (!between)
		return 0;
	l4 += sizeof(struct udphdr);
	if (l4 + 8 > end)
		return -1;
	__builtin_memcpy(l4, between, 8);
	if (e->between == 8)
		return 0;
	if (l4 + 16 > end)
		return -1;
	__builtin_memcpy(l4 + 8, between + 2, 8);
	return 0;
}

/* Internal: makes room for the outer headers after pcn_encap_read, and writes them. */
PCN_INLINE int pcn_encap_put(struct CTXTYPE *ctx, struct pcn_encap *e, const __be32 *between,
			     __u64 to, __u64 from)
{
	struct ethhdr *eth;

	if (pcn_encap_room(ctx, e))
		return -1;
	eth = pcn_data(ctx);
	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return -1;
	eth->h_proto = bpf_htons(e->ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	pcn_set_macs(eth, to, from);
	return pcn_encap_write(ctx, e, between);
}

/* Encapsulates the packet of `f`, which must directly follow the Ethernet header, and sets the frame's MAC addresses.
 * Returns 0, or -1 on failure; the frame may then be neither the old nor the new one, and must be dropped. Pointers into
 * the packet are invalid afterwards. The caller updates md->packet_len. */
PCN_GLOBAL int pcn_encap(struct CTXTYPE *ctx, struct pcn_encap *e PCN_NONNULL,
			 const struct pcn_flow *f PCN_NONNULL, __u64 to, __u64 from)
{
	e->between = 0;
	if (pcn_encap_read(ctx, e, f))
		return -1;
	return pcn_encap_put(ctx, e, NULL, to, from);
}

#endif
