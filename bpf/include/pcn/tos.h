// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Changes the DSCP of an IP packet (RFC 2474), or tells its sender to slow down by ECN (RFC 3168). */
#ifndef PCN_TOS_H
#define PCN_TOS_H

#include <pcn/csum.h>
#include <pcn/flow.h>

/* Internal: the first two bytes of a packet's IP header, readable with the rest of that of IPv4; NULL if it has none. */
PCN_INLINE __be16 *pcn_tos_at(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	struct pcn_cursor c;

	if (!(flow->has & PCN_FLOW_IP))
		return NULL;
	pcn_cursor_open(&c, ctx,
			sizeof(struct ethhdr) + PCN_FLOW_TAGS * sizeof(struct pcn_vlan_hdr) +
				sizeof(struct iphdr));
	__be16 *first = c.pos + (flow->l3 & 0xff);

	return (void *)first + sizeof(struct iphdr) > c.end ? NULL : first;
}

/* Internal: gives a packet another value of these bytes, of which only the traffic class differs. */
PCN_INLINE void pcn_tos_write(struct CTXTYPE *ctx, const struct pcn_flow *flow, __be16 *first,
			      __be16 is)
{
	__be16 was = *first;

	*first = is;
	if (flow->has & PCN_FLOW_IPV6)
		pcn_csum_bytes(ctx, pcn_csum_diff2(was, is));
	else
		pcn_csum_ipv4((struct iphdr *)first, pcn_csum_diff2(was, is));
}

/* Internal: where the traffic class is in these bytes: that of IPv6 begins four bits earlier. */
PCN_INLINE __u32 pcn_tos_shift(const struct pcn_flow *flow)
{
	return flow->has & PCN_FLOW_IPV6 ? 4 : 0;
}

/* Sets the DSCP of an IP packet; ECN stays. Others stay as they are. */
PCN_INLINE void pcn_set_dscp(struct CTXTYPE *ctx, const struct pcn_flow *flow, __u8 dscp)
{
	__u32 shift = pcn_tos_shift(flow) + 2;
	__be16 *first = pcn_tos_at(ctx, flow);

	if (first)
		pcn_tos_write(ctx, flow, first,
			      (*first & ~bpf_htons(0x3f << shift)) | bpf_htons(dscp << shift));
}

/* What a packet says about its ends (RFC 3168, RFC 9331). */
enum pcn_ecn {
	PCN_NOT_ECT, /* they do not understand ECN */
	PCN_ECT_1,   /* they do, and slow down by how many packets are marked */
	PCN_ECT_0,   /* they do */
	PCN_CE,	     /* it met congestion already */
};

/* What an IP packet says about ECN; PCN_NOT_ECT of others. */
PCN_INLINE enum pcn_ecn pcn_ecn(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	__be16 *first = pcn_tos_at(ctx, flow);

	return first ? bpf_ntohs(*first) >> pcn_tos_shift(flow) & 3 : PCN_NOT_ECT;
}

/* Marks an IP packet as one that met congestion, if its ends understand ECN. Returns 1, or 0: it stays as it is. */
PCN_INLINE int pcn_set_ce(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	__u32 shift = pcn_tos_shift(flow);
	__be16 *first = pcn_tos_at(ctx, flow);

	if (!first || !(*first & bpf_htons(3 << shift)))
		return 0;
	pcn_tos_write(ctx, flow, first, *first | bpf_htons(3 << shift));
	return 1;
}

#endif
