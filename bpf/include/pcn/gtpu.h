// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reads and writes GTP-U, the tunnels of mobile networks (3GPP TS 29.281), with the whole chain of extension headers and the
 * PDU Session Container (TS 38.415). Go package `gtpu` reads and writes the same messages.
 *
 *	struct pcn_gtpu g;
 *
 *	if (pcn_gtpu_read(ctx, flow.l4 + sizeof(struct udphdr), length, &g) != PCN_GTPU_OK)
 *		... drop it ...
 *	if (g.type == PCN_GTPU_PDU && pcn_gtpu_strip(ctx, flow.l3, &g))
 *		... drop it ... */
#ifndef PCN_GTPU_H
#define PCN_GTPU_H

#include <pcn/encap.h>

/* The UDP port of GTP-U. */
#define PCN_GTPU_PORT 2152

/* Types of messages. */
enum pcn_gtpu_type {
	PCN_GTPU_ECHO_REQUEST = 1,
	PCN_GTPU_ECHO_RESPONSE = 2,
	PCN_GTPU_ERROR_INDICATION = 26,
	PCN_GTPU_SUPPORTED_EXTENSIONS = 31,
	PCN_GTPU_END_MARKER = 254,
	PCN_GTPU_PDU = 255, /* G-PDU: a packet of a user */
};

/* The optional parts of a message. */
enum pcn_gtpu_has {
	PCN_GTPU_SEQUENCE = 1,
	PCN_GTPU_SESSION = 2,	 /* the PDU Session Container: qfi, uplink */
	PCN_GTPU_UPLINK = 4,	 /* which says that the packet is from a user */
	PCN_GTPU_REFLECTIVE = 8, /* or that its QoS is to be reflected (RQI) */
};

struct pcn_gtpu {
	__u32 teid;
	__u32 at;	/* bytes from the start of the frame to the payload */
	__u16 payload;	/* bytes */
	__u16 sequence; /* of messages with one */
	__u8 type;
	__u8 has; /* enum pcn_gtpu_has */
	__u8 qfi;
	__u8 extension; /* the one that is unknown, of PCN_GTPU_UNKNOWN */
};

/* What pcn_gtpu_read returns. */
enum pcn_gtpu_read {
	PCN_GTPU_OK,
	PCN_GTPU_VERSION,   /* another version, or GTP' */
	PCN_GTPU_MALFORMED, /* shorter than it says, or with more extension headers than eight */
	PCN_GTPU_UNKNOWN, /* with an extension header that a receiver must know, but this one does not */
};

/* Internal: the flags. */
#define PCN_GTPU_VERSION1 0x30 /* version 1, and not GTP' */
#define PCN_GTPU_E 4
#define PCN_GTPU_S 2
#define PCN_GTPU_PN 1
/* Internal: a receiver must know extension headers with this bit in their type. */
#define PCN_GTPU_MUST 0x80
#define PCN_GTPU_SESSION_CONTAINER 0x85
#define PCN_GTPU_EXTENSIONS 8

/* Internal: the header that all messages have, and the part that follows if any of E, S and PN is set. */
struct pcn_gtpu_header {
	__u8 flags;
	__u8 type;
	__be16 length; /* of what follows these eight bytes */
	__be32 teid;
	__be16 sequence;
	__u8 pdu_number;
	__u8 next;
};

/* Internal: an extension header, as short as it may be. */
struct pcn_gtpu_extension {
	__u8 length; /* in four bytes */
	__u8 content[2];
	__u8 next; /* the last byte */
};

/* Internal: what a PDU Session Container says. */
PCN_INLINE void pcn_gtpu_session(struct pcn_gtpu *g, const __u8 content[2])
{
	int uplink = content[0] >> 4 == 1;

	g->has = (g->has & PCN_GTPU_SEQUENCE) | PCN_GTPU_SESSION | (uplink ? PCN_GTPU_UPLINK : 0) |
		 (!uplink && content[1] & 0x40 ? PCN_GTPU_REFLECTIVE : 0);
	g->qfi = content[1] & 0x3f;
}

/* Internal: reads the chain of extension headers; `next` is the type of the first one, `end` where the message ends. */
PCN_INLINE int pcn_gtpu_chain(struct CTXTYPE *ctx, struct pcn_gtpu *g, __u8 next, __u32 end)
{
	struct pcn_gtpu_extension x;
	__u32 length;

#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_GTPU_EXTENSIONS; i++) {
		if (!next)
			return PCN_GTPU_OK;
		if (g->at + sizeof(x) > end || pcn_load_bytes(ctx, g->at, &x, sizeof(x)))
			return PCN_GTPU_MALFORMED;
		length = x.length * 4;
		if (!length || g->at + length > end)
			return PCN_GTPU_MALFORMED;
		if (next == PCN_GTPU_SESSION_CONTAINER) {
			pcn_gtpu_session(g, x.content);
		} else if (next & PCN_GTPU_MUST) {
			g->extension = next;
			return PCN_GTPU_UNKNOWN;
		}
		g->at += length;
		if (length > sizeof(x) && pcn_load_bytes(ctx, g->at - 1, &x.next, 1))
			return PCN_GTPU_MALFORMED;
		next = x.next;
	}
	return next ? PCN_GTPU_MALFORMED : PCN_GTPU_OK;
}

/* Internal: reads the most frequent kind of message, with a PDU Session Container of four bytes and nothing else. 0 if it is
 * another one, or cannot be read directly. */
PCN_INLINE int pcn_gtpu_quick(struct CTXTYPE *ctx, __u32 at, __u32 length, struct pcn_gtpu *g)
{
	const struct pcn_gtpu_header *h =
		pcn_header(ctx, at, sizeof(*h) + sizeof(struct pcn_gtpu_extension));
	const struct pcn_gtpu_extension *x = (void *)(h + 1);
	__u32 more;

	if (!h || h->flags != (PCN_GTPU_VERSION1 | PCN_GTPU_E) ||
	    h->next != PCN_GTPU_SESSION_CONTAINER || x->length != 1 || x->next)
		return 0;
	more = bpf_ntohs(h->length);
	if (more < 8 || more + 8 > length)
		return 0;
	g->teid = bpf_ntohl(h->teid);
	g->type = h->type;
	g->at = at + sizeof(*h) + sizeof(*x);
	g->payload = more - 8;
	pcn_gtpu_session(g, x->content);
	return 1;
}

/* Reads a message that begins at byte `at` of the frame and has up to `length` bytes, those behind the UDP header. Returns
 * enum pcn_gtpu_read; what was read before an error is in `g`. */
PCN_GLOBAL int pcn_gtpu_read(struct CTXTYPE *ctx, __u32 at, __u32 length,
			     struct pcn_gtpu *g PCN_NONNULL)
{
	struct pcn_gtpu_header h = {};
	__u32 end;
	int result;

	__builtin_memset(g, 0, sizeof(*g));
	if (at > 0xffff || length > 0xffff)
		return PCN_GTPU_MALFORMED;
	if (pcn_gtpu_quick(ctx, at, length, g))
		return PCN_GTPU_OK;
	if (length < 8 || pcn_load_bytes(ctx, at, &h, 8))
		return PCN_GTPU_MALFORMED;
	g->type = h.type;
	g->teid = bpf_ntohl(h.teid);
	if ((h.flags & 0xf0) != PCN_GTPU_VERSION1)
		return PCN_GTPU_VERSION;
	end = bpf_ntohs(h.length) + 8;
	if (end > length)
		return PCN_GTPU_MALFORMED;
	end += at;
	g->at = at + 8;
	if (h.flags & (PCN_GTPU_E | PCN_GTPU_S | PCN_GTPU_PN)) {
		g->at += 4;
		if (g->at > end || pcn_load_bytes(ctx, at + 8, &h.sequence, 4))
			return PCN_GTPU_MALFORMED;
		if (h.flags & PCN_GTPU_S) {
			g->has = PCN_GTPU_SEQUENCE;
			g->sequence = bpf_ntohs(h.sequence);
		}
		if (h.flags & PCN_GTPU_E) {
			result = pcn_gtpu_chain(ctx, g, h.next, end);
			if (result)
				return result;
		}
	}
	g->payload = end - g->at;
	return PCN_GTPU_OK;
}

/* Internal: BPF_F_ADJ_ROOM_DECAP_L3_IPV4 and its twin, which headers of Linux before 6.4 do not have. */
#define PCN_GTPU_DECAP_IPV4 (1ULL << 7)
#define PCN_GTPU_DECAP_IPV6 (1ULL << 8)

/* Internal: removes bytes behind the Ethernet header, whose packet is one of IPv6 or IPv4 then. */
PCN_INLINE long pcn_gtpu_cut(struct CTXTYPE *ctx, __u32 bytes, int ipv6)
{
#ifdef PCN_TC
	__u64 flags = ipv6 ? PCN_GTPU_DECAP_IPV6 : PCN_GTPU_DECAP_IPV4;

	/* Linux before 6.4 does not know the flags, which only matter to a host that gets the packet. */
	return bpf_skb_adjust_room(ctx, -(int)bytes, BPF_ADJ_ROOM_MAC, flags) &&
	       bpf_skb_adjust_room(ctx, -(int)bytes, BPF_ADJ_ROOM_MAC, 0);
#else
	(void)ipv6;
	return bpf_xdp_adjust_head(ctx, bytes);
#endif
}

/* Takes the packet of a user out of its tunnel: a G-PDU that pcn_gtpu_read has read, whose outer IP header is at byte `l3`,
 * right behind the Ethernet header. Returns 0, or -1 if that is not possible: the payload is no IP packet, or the frame has a
 * tag in its bytes; then it may be neither the old nor the new one, and is to be dropped. Pointers into the packet are not
 * valid any more. The caller adapts md->packet_len: g->at - l3 bytes are gone. */
PCN_GLOBAL int pcn_gtpu_strip(struct CTXTYPE *ctx, __u32 l3, const struct pcn_gtpu *g PCN_NONNULL)
{
	const __u8 *first = pcn_header(ctx, g->at, 1);
	struct ethhdr *eth = pcn_data(ctx);
	__u32 bytes = g->at - l3;
	struct pcn_macs macs;
	__u8 version;

	if (l3 != sizeof(*eth) || bytes > 0xfff || (void *)(eth + 1) > pcn_data_end(ctx))
		return -1;
	macs = pcn_macs(eth);
	if (first && g->at <= 0x3ff)
		version = *first >> 4;
	else if (pcn_load_bytes(ctx, g->at, &version, 1))
		return -1;
	else
		version >>= 4;
	if (version != 4 && version != 6)
		return -1;
	if (pcn_gtpu_cut(ctx, bytes, version == 6))
		return -1;
	eth = pcn_data(ctx);
	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return -1;
	pcn_set_macs(eth, macs.to, macs.from);
	eth->h_proto = bpf_htons(version == 6 ? ETH_P_IPV6 : ETH_P_IP);
	return 0;
}

/* The tunnel of a packet. */
struct pcn_gtpu_tunnel {
	__u64 to, from; /* the addresses of the frame, as returned by pcn_mac() */
	__u32 teid;
	__u8 qfi;    /* 0: without a PDU Session Container */
	__u8 uplink; /* of the container: the packet is from a user */
	__u8 reflective;
	__u8 zero;
};

/* Internal: the bytes of the header of a tunnel. */
PCN_INLINE __u32 pcn_gtpu_length(const struct pcn_gtpu_tunnel *t)
{
	return t->qfi ? sizeof(struct pcn_gtpu_header) + sizeof(struct pcn_gtpu_extension) : 8;
}

/* The bytes that encapsulation adds. */
PCN_INLINE __u32 pcn_gtpu_overhead(const struct pcn_encap *e, const struct pcn_gtpu_tunnel *t)
{
	return (e->ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + sizeof(struct udphdr) +
	       pcn_gtpu_length(t);
}

/* Internal: the words of the header of a tunnel, behind whose first eight bytes there are `length` more. */
PCN_INLINE void pcn_gtpu_words(const struct pcn_gtpu_tunnel *t, __u32 length, __be32 word[4])
{
	word[0] = bpf_htonl((PCN_GTPU_VERSION1 | (t->qfi ? PCN_GTPU_E : 0)) << 24 |
			    PCN_GTPU_PDU << 16 | (length & 0xffff));
	word[1] = bpf_htonl(t->teid);
	if (t->qfi) {
		word[2] = bpf_htonl(PCN_GTPU_SESSION_CONTAINER);
		word[3] = bpf_htonl(1 << 24 | (t->uplink ? 1 << 20 : 0) |
				    ((t->qfi & 0x3f) | (t->reflective ? 0x40 : 0)) << 8);
	}
}

/* Puts the packet of `f`, which is right behind the Ethernet header, into a tunnel. `e` has the outer addresses, hop
 * limit and source port; its kind and destination port are set here. Returns 0, or -1 if that is not possible, as for a
 * superframe, whose segments have different lengths; then the frame may be neither the old nor the new one, and is to be
 * dropped. Pointers into the packet are not valid any more. The caller adapts md->packet_len. */
PCN_GLOBAL int pcn_gtpu_encap(struct CTXTYPE *ctx, struct pcn_encap *e PCN_NONNULL,
			      const struct pcn_gtpu_tunnel *t PCN_NONNULL,
			      const struct pcn_flow *f PCN_NONNULL)
{
	__be32 word[4] = {};

#ifdef PCN_TC
	if (ctx->gso_size)
		return -1;
#endif
	e->kind = PCN_ENCAP_GUE;
	e->port = bpf_htons(PCN_GTPU_PORT);
	e->between = pcn_gtpu_length(t);
	if (pcn_encap_read(ctx, e, f))
		return -1;
	pcn_gtpu_words(t, e->length + e->between - 8, word);
	return pcn_encap_put(ctx, e, word, t->to, t->from);
}

#endif
