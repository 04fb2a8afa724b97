// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Ethernet frames in GTP-U: PDU sessions of type Ethernet (3GPP TS 23.501, 5.6.10.2; TS 29.281). A message carries a frame from
 * its destination address on, with its tags, and without FCS. At both hooks; at TC tags move between the frame and the skb, and
 * the protocol of the skb follows.
 *
 *	if (pcn_gtpu_strip_frame(ctx, &g))
 *		... drop it ...
 *	md->packet_len = pcn_frame_len(ctx); */
#ifndef PCN_GTPU_FRAME_H
#define PCN_GTPU_FRAME_H

#include <pcn/gtpu.h>
#include <pcn/vlan.h>

/* Internal: the kernel cuts only packets of which that many bytes stay. A shorter one becomes one of the shortest that Ethernet
 * has, 60 bytes. */
#define PCN_GTPU_FRAME_SHORT (sizeof(struct ethhdr) + sizeof(struct ipv6hdr))
#define PCN_GTPU_FRAME_PADDED 60

/* Internal: the steps in which the bytes of a frame are added up, and the longest frame for which that is done. */
#define PCN_GTPU_FRAME_STEP 64
#define PCN_GTPU_FRAME_STEPS 32

/* Internal: makes the frame end at byte `end`; at TC a short one is padded. */
PCN_INLINE long pcn_gtpu_frame_end(struct CTXTYPE *ctx, __u32 at, __u32 end)
{
	__u32 length = pcn_frame_len(ctx);

#ifdef PCN_TC
	if (length > end && bpf_skb_change_tail(ctx, end, 0))
		return -1;
	if (end - at < PCN_GTPU_FRAME_SHORT)
		return bpf_skb_change_tail(ctx, at + PCN_GTPU_FRAME_PADDED, 0);
#else
	(void)at;
	if (length > end)
		return bpf_xdp_adjust_tail(ctx, (int)(end - length));
#endif
	return 0;
}

#ifdef PCN_TC
/* Internal: makes the protocol of the skb that of the frame, and moves an outer tag into the skb. The kernel only does that
 * when it pops a tag that is in the frame. The second push puts the first tag there, and then both are popped. */
PCN_INLINE long pcn_gtpu_frame_protocol(struct CTXTYPE *ctx)
{
	return bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), 1) ||
	       bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), 1) || bpf_skb_vlan_pop(ctx) ||
	       bpf_skb_vlan_pop(ctx);
}
#endif

/* Takes a frame out of its tunnel: the payload of a G-PDU that pcn_gtpu_read has read. What is behind it goes, and at TC a frame of
 * less than 54 bytes is padded to 60. Returns 0, or -1 if that is not possible: it is shorter than an Ethernet header, or the
 * tunnel behind a tag; then it may be neither the old nor the new one, and is to be dropped. Pointers into the packet are not
 * valid any more. The caller adapts md->packet_len. */
PCN_GLOBAL int pcn_gtpu_strip_frame(struct CTXTYPE *ctx, const struct pcn_gtpu *g PCN_NONNULL)
{
	__u32 at = g->at;
	struct ethhdr inner;

	if (g->payload < sizeof(inner) || at > 0xfff ||
	    pcn_load_bytes(ctx, at, &inner, sizeof(inner)) ||
	    pcn_gtpu_frame_end(ctx, at, at + g->payload))
		return -1;
#ifdef PCN_TC
	struct ethhdr *eth;
	__be16 proto = inner.h_proto;
	__u64 flags = proto == bpf_htons(ETH_P_IPV6) ? PCN_GTPU_DECAP_IPV6 : PCN_GTPU_DECAP_IPV4;

	if (ctx->vlan_present)
		return -1;
	/* Linux before 6.4 does not know the flags. */
	if (bpf_skb_adjust_room(ctx, -(int)at, BPF_ADJ_ROOM_MAC, flags) &&
	    bpf_skb_adjust_room(ctx, -(int)at, BPF_ADJ_ROOM_MAC, 0))
		return -1;
	eth = pcn_data(ctx);
	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return -1;
	*eth = inner;
	return ctx->protocol != proto && pcn_gtpu_frame_protocol(ctx) ? -1 : 0;
#else
	return bpf_xdp_adjust_head(ctx, at) ? -1 : 0;
#endif
}

/* Internal: the sum of the frame's bytes, one by one; 0 if it is too long for that. */
PCN_INLINE __u16 pcn_gtpu_frame_add(struct CTXTYPE *ctx)
{
	__u32 length = pcn_frame_len(ctx), at = 0;
	__u64 sum = 0xffff;

	if (length > PCN_GTPU_FRAME_STEP * PCN_GTPU_FRAME_STEPS)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_GTPU_FRAME_STEPS; i++) {
		__be32 word[PCN_GTPU_FRAME_STEP / 4] = {};
		__s64 left = (__s64)length - at;

		if (left <= 0)
			break;
		if (pcn_load_some(ctx, at, word,
				  left < PCN_GTPU_FRAME_STEP ? left : PCN_GTPU_FRAME_STEP,
				  sizeof(word)))
			return 0;
		sum += (__u32)bpf_csum_diff(NULL, 0, word, sizeof(word), 0);
		at += sizeof(word);
	}
	return pcn_csum_words(sum);
}

/* Internal: the sum of the frame's bytes for the checksum of UDP, without tags in the skb; 0 if it is not known. Whatever it can, it
 * concludes from the headers: a device may have to write the checksum of the packet yet. */
PCN_INLINE __u16 pcn_gtpu_frame_sum(struct CTXTYPE *ctx, const struct pcn_flow *f,
				    const __be32 *word)
{
	__u16 sum = f->l3 == sizeof(struct ethhdr) ? pcn_encap_inner_sum(ctx, f, word) : 0;
	const struct ethhdr *eth = pcn_data(ctx);

	if (!sum)
		return pcn_gtpu_frame_add(ctx);
	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return 0;
	struct pcn_macs macs = pcn_macs(eth);
	return pcn_csum_words((__u64)sum + (__u32)macs.to + (macs.to >> 32) + (__u16)macs.from +
			      (macs.from >> 16) + eth->h_proto);
}

/* Internal: the tags that were in the skb, as they are in a frame, from the outer one on. */
struct pcn_gtpu_tags {
	__be32 word[2];
	__u32 bytes;
};

/* Internal: takes tags out of the skb. -1: there are more than two. */
PCN_INLINE int pcn_gtpu_frame_tags(struct CTXTYPE *ctx, struct pcn_gtpu_tags *tags)
{
#ifdef PCN_TC
	for (int i = 0; i < 2; i++) {
		if (!ctx->vlan_present)
			return 0;
		tags->word[i] =
			bpf_htonl(PCN_TAG(bpf_ntohs((__u16)ctx->vlan_proto), ctx->vlan_tci));
		tags->bytes += sizeof(tags->word[i]);
		if (bpf_skb_vlan_pop(ctx))
			return -1;
	}
	return ctx->vlan_present ? -1 : 0;
#else
	(void)ctx;
	(void)tags;
	return 0;
#endif
}

/* Internal: makes room for the outer headers, and at TC for the tags. */
PCN_INLINE long pcn_gtpu_frame_room(struct CTXTYPE *ctx, const struct pcn_encap *e, __u32 tags)
{
	__u32 inner = sizeof(struct ethhdr) + (tags & 0xf);
	__u32 room = pcn_encap_overhead(e) + inner;

#ifdef PCN_TC
	__u64 flags = e->ipv6 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;

	/* The kernel inserts headers before packets of IP alone, and sets the protocol then. */
	if (ctx->protocol == bpf_htons(ETH_P_IP) || ctx->protocol == bpf_htons(ETH_P_IPV6))
		return bpf_skb_adjust_room(ctx, room, BPF_ADJ_ROOM_MAC,
					   flags | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
						   BPF_F_ADJ_ROOM_ENCAP_L2(inner) |
						   BPF_F_ADJ_ROOM_ENCAP_L2_ETH);
	return bpf_skb_change_head(ctx, room, 0);
#else
	return bpf_xdp_adjust_head(ctx, -(int)room);
#endif
}

/* Internal: writes the header of a frame in a tunnel, at byte `at`, with the tags that were in the skb. At XDP it is there. */
PCN_INLINE long pcn_gtpu_frame_write(struct CTXTYPE *ctx, __u32 at, const struct ethhdr *inner,
				     const struct pcn_gtpu_tags *tags)
{
#ifdef PCN_TC
	struct {
		struct ethhdr eth;
		__be16 more[8];
	} h = { .eth = *inner };
	__be16 *next = &h.more[0];

	if (tags->bytes) {
		h.eth.h_proto = (__be16)tags->word[0];
		next[0] = (__be16)(tags->word[0] >> 16);
		next[1] = tags->bytes > 4 ? (__be16)tags->word[1] : inner->h_proto;
		next[2] = (__be16)(tags->word[1] >> 16);
		next[3] = inner->h_proto;
	}
	return bpf_skb_store_bytes(ctx, at, &h, sizeof(*inner) + (tags->bytes & 0xc), 0);
#else
	(void)ctx;
	(void)at;
	(void)inner;
	(void)tags;
	return 0;
#endif
}

/* Internal: reads what the outer headers take over from the frame, before it is changed. */
PCN_INLINE int pcn_gtpu_frame_read(struct CTXTYPE *ctx, struct pcn_encap *e,
				   const struct pcn_flow *f, struct ethhdr *inner)
{
	__be32 word[2] = {};

	if (pcn_load_bytes(ctx, 0, inner, sizeof(*inner)))
		return -1;
	e->tos = 0;
	e->sum = 0;
	if (f->has & PCN_FLOW_IP) {
		if (pcn_load_bytes(ctx, f->l3 & 0x1f, word, sizeof(word)))
			return -1;
		e->tos = bpf_ntohl(word[0]) >> (f->has & PCN_FLOW_IPV6 ? 20 : 16);
	}
	if (e->dscp)
		e->tos = (e->dscp - 1) << 2 | (e->tos & 3);
	if (e->ipv6)
		e->sum = pcn_gtpu_frame_sum(ctx, f, word);
	return 0;
}

/* Internal: makes room, and writes the headers. */
PCN_INLINE int pcn_gtpu_frame_put(struct CTXTYPE *ctx, struct pcn_encap *e,
				  const struct pcn_gtpu_tunnel *t, const struct ethhdr *inner,
				  const struct pcn_gtpu_tags *tags)
{
	struct ethhdr *eth;
	__be32 word[4] = {};

	if (pcn_gtpu_frame_room(ctx, e, tags->bytes) ||
	    pcn_gtpu_frame_write(ctx, sizeof(*eth) + pcn_encap_overhead(e), inner, tags))
		return -1;
	eth = pcn_data(ctx);
	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return -1;
	eth->h_proto = bpf_htons(e->ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	pcn_set_macs(eth, t->to, t->from);
	pcn_gtpu_words(t, e->length + e->between - 8, word);
	if (pcn_encap_write(ctx, e, word))
		return -1;
#ifdef PCN_TC
	if (ctx->protocol != bpf_htons(e->ipv6 ? ETH_P_IPV6 : ETH_P_IP) &&
	    pcn_gtpu_frame_protocol(ctx))
		return -1;
#endif
	return 0;
}

/* Puts a frame, which `f` describes, into a tunnel, with its tags; `e` and `t` are as for pcn_gtpu_encap. Returns 0, or -1 if
 * that is not possible, as for a superframe, or one with three tags in the skb; then the frame may be neither the old
 * nor the new one, and is to be dropped. Pointers into the packet are not valid any more. The caller sets md->packet_len. */
PCN_GLOBAL int pcn_gtpu_encap_frame(struct CTXTYPE *ctx, struct pcn_encap *e PCN_NONNULL,
				    const struct pcn_gtpu_tunnel *t PCN_NONNULL,
				    const struct pcn_flow *f PCN_NONNULL)
{
	struct pcn_gtpu_tags tags = {};
	struct ethhdr inner;

#ifdef PCN_TC
	if (ctx->gso_size)
		return -1;
#endif
	e->kind = PCN_ENCAP_GUE;
	e->port = bpf_htons(PCN_GTPU_PORT);
	e->between = pcn_gtpu_length(t);
	if (pcn_gtpu_frame_read(ctx, e, f, &inner) || pcn_gtpu_frame_tags(ctx, &tags))
		return -1;
	if (tags.bytes) {
		/* the EtherType behind the tags; the inner tag was in the frame, and is in its sum */
		if (pcn_load_bytes(ctx, offsetof(struct ethhdr, h_proto), &inner.h_proto, 2))
			return -1;
		if (e->sum)
			e->sum = pcn_csum_words((__u64)e->sum + tags.word[0]);
	}
	e->length = pcn_frame_len(ctx) + tags.bytes;
	return pcn_gtpu_frame_put(ctx, e, t, &inner, &tags);
}

#endif
