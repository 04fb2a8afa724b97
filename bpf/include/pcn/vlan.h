// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* 802.1Q and 802.1ad tags, the same at both hooks. At TC the outer tag usually lives in the
 * skb (vlan_tci), at XDP always in the bytes. */
#ifndef PCN_VLAN_H
#define PCN_VLAN_H

#include <pcn/packet.h>

/* The bits of a tag's tci, in host byte order, that are its id. */
#define PCN_VLAN_VID_MASK 0x0fff

struct pcn_vlan_hdr {
	__be16 tci;
	__be16 proto;
};

/* True for the ethertypes that announce a tag. */
PCN_INLINE int pcn_is_vlan_proto(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

/* Reads the outer tag: its id (0..4095), or -1 when the frame has none. Packet pointers that were
 * read before are invalid then. */
PCN_INLINE int pcn_get_vlan_id(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	if (ctx->vlan_present)
		return ctx->vlan_tci & PCN_VLAN_VID_MASK;
#endif
	struct pcn_cursor c;
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct pcn_vlan_hdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || !pcn_is_vlan_proto(eth->h_proto))
		return -1;
	struct pcn_vlan_hdr *tag = pcn_cursor_take(&c, sizeof(*tag));
	return tag ? bpf_ntohs(tag->tci) & PCN_VLAN_VID_MASK : -1;
}

/* True when the frame has a tag. Packet pointers that were read before are invalid then. */
PCN_INLINE int pcn_is_vlan_present(struct CTXTYPE *ctx)
{
	return pcn_get_vlan_id(ctx) >= 0;
}

#endif
