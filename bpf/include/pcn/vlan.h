// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* 802.1Q and 802.1ad tags, with the same functions at both hooks. At TC the outer tag is usually in
 * the skb (vlan_tci), at XDP always in the packet data. The helpers process the outer tag; inner
 * tags stay unchanged. */
#ifndef PCN_VLAN_H
#define PCN_VLAN_H

#include <pcn/packet.h>

/* The fields of a tag's TCI, in host byte order: VLAN id, priority, drop eligible indicator. */
#define PCN_VLAN_VID_MASK 0x0fff
#define PCN_VLAN_PCP_MASK 0xe000
#define PCN_VLAN_DEI 0x1000

/* A tag as one number in host byte order, never 0: PCN_TAG(ETH_P_8021Q, vid) has the tag's
 * EtherType in the upper half and the TCI in the lower half. */
#define PCN_TAG(proto, tci) ((__u32)(proto) << 16 | ((tci)&0xffff))

struct pcn_vlan_hdr {
	__be16 tci;
	__be16 proto;
};

/* True for the EtherTypes of tags. */
PCN_INLINE int pcn_is_vlan_proto(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

/* The EtherType of a tag: ETH_P_8021Q or ETH_P_8021AD, in host byte order. */
PCN_INLINE __u16 pcn_tag_proto(__u32 tag)
{
	return tag >> 16;
}

/* The TCI of a tag, in host byte order. */
PCN_INLINE __u16 pcn_tag_tci(__u32 tag)
{
	return tag & 0xffff;
}

/* The VLAN id of a tag, 0..4095. */
PCN_INLINE __u16 pcn_tag_vid(__u32 tag)
{
	return tag & PCN_VLAN_VID_MASK;
}

/* Reads the outer tag, as PCN_TAG; 0 if the frame has none. Invalidates packet pointers that were
 * read before. */
PCN_INLINE __u32 pcn_vlan_tag(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	if (ctx->vlan_present)
		return PCN_TAG(bpf_ntohs((__u16)ctx->vlan_proto), ctx->vlan_tci);
#endif
	struct pcn_cursor c;
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct pcn_vlan_hdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || !pcn_is_vlan_proto(eth->h_proto))
		return 0;
	struct pcn_vlan_hdr *tag = pcn_cursor_take(&c, sizeof(*tag));
	return tag ? PCN_TAG(bpf_ntohs(eth->h_proto), bpf_ntohs(tag->tci)) : 0;
}

/* Reads the VLAN id of the outer tag (0..4095); -1 if the frame has none. Invalidates packet
 * pointers that were read before. */
PCN_INLINE int pcn_get_vlan_id(struct CTXTYPE *ctx)
{
	__u32 tag = pcn_vlan_tag(ctx);

	return tag ? pcn_tag_vid(tag) : -1;
}

/* True if the frame has a tag. Invalidates packet pointers that were read before. */
PCN_INLINE int pcn_is_vlan_present(struct CTXTYPE *ctx)
{
	return pcn_vlan_tag(ctx) != 0;
}

/* Pushes an outer tag: 0, or negative if there is no room or no Ethernet header. The length changes
 * and packet bytes move, so packet pointers become invalid. */
PCN_INLINE int pcn_vlan_push(struct CTXTYPE *ctx, __u32 tag)
{
#ifdef PCN_TC
	return bpf_skb_vlan_push(ctx, bpf_htons(pcn_tag_proto(tag)), pcn_tag_tci(tag));
#else
	if (pcn_data(ctx) + sizeof(struct ethhdr) > pcn_data_end(ctx) ||
	    bpf_xdp_adjust_head(ctx, -(int)sizeof(struct pcn_vlan_hdr)))
		return -1;
	__u32 *words = pcn_data(ctx);
	if ((void *)(words + 4) > pcn_data_end(ctx))
		return -1;
	words[0] = words[1];
	words[1] = words[2];
	words[2] = words[3];
	words[3] = bpf_htonl(tag);
	return 0;
#endif
}

/* Pops the outer tag: 0, or negative if the frame has none. The length changes and packet bytes
 * move, so packet pointers become invalid. */
PCN_INLINE int pcn_vlan_pop(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	if (!ctx->vlan_present && !pcn_is_vlan_proto(ctx->protocol))
		return -1;
	return bpf_skb_vlan_pop(ctx);
#else
	__u32 *words = pcn_data(ctx);
	if ((void *)words + sizeof(struct ethhdr) + sizeof(struct pcn_vlan_hdr) >
		    pcn_data_end(ctx) ||
	    !pcn_is_vlan_proto(((struct ethhdr *)words)->h_proto))
		return -1;
	words[3] = words[2];
	words[2] = words[1];
	words[1] = words[0];
	return bpf_xdp_adjust_head(ctx, sizeof(struct pcn_vlan_hdr));
#endif
}

/* Replaces the outer tag: 0, or negative if the frame has none. At TC it is popped and pushed, so
 * only call this if the tags differ. Packet pointers become invalid. */
PCN_INLINE int pcn_vlan_set(struct CTXTYPE *ctx, __u32 tag)
{
#ifdef PCN_TC
	int err = pcn_vlan_pop(ctx);

	return err ? err : pcn_vlan_push(ctx, tag);
#else
	__u32 *words = pcn_data(ctx);
	if ((void *)words + sizeof(struct ethhdr) + sizeof(struct pcn_vlan_hdr) >
		    pcn_data_end(ctx) ||
	    !pcn_is_vlan_proto(((struct ethhdr *)words)->h_proto))
		return -1;
	words[3] = bpf_htonl(tag);
	return 0;
#endif
}

#endif
