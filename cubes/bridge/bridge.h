// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The entries of the bridge's tables, and the tags of frames. */
#ifndef BRIDGE_H
#define BRIDGE_H

#include <pcn/cube.h>
#include <pcn/fdb.h>

/* The maximum number of ports of a cube: port indexes are lower. This index is the bridge itself.
 * */
#define BRIDGE_PORTS 512
#define BRIDGE_VLANS 4096

enum bridge_reason {
	BRIDGE_TRUNCATED = PCN_REASON_FIRST, /* shorter than an Ethernet header or its tag */
	BRIDGE_GROUP_SOURCE,		     /* the source is a group address */
	BRIDGE_LINK_LOCAL,		     /* link-local, never forwarded (802.1Q, 8.6.3) */
	BRIDGE_TAGGED,			     /* a tagged frame on an access port */
	BRIDGE_UNTAGGED,    /* an untagged frame on a trunk without a native VLAN */
	BRIDGE_NOT_ALLOWED, /* its VLAN is not allowed on the ingress port */
	BRIDGE_STP_BLOCKED, /* the spanning tree blocks the ingress port */
	BRIDGE_SAME_PORT,   /* the destination is on the ingress port */
	BRIDGE_OUT_BLOCKED, /* the destination's port does not forward in the VLAN */
	BRIDGE_TAG_FAILED,  /* no room for a tag */
	BRIDGE_BPDU_FLOOD,  /* more BPDUs on a port than its trees would send */
};
PCN_REASONS(bridge_reason);

/* A port. A set of VLANs has a bit per VLAN. The sets of ports per VLAN are the framework's. */
struct bridge_port {
	__u64 mac;   /* as returned by pcn_mac() */
	__u16 pvid;  /* VLAN of untagged frames, in both directions; 0: there is none */
	__u8 trunk;  /* frames may have tags */
	__u8 random; /* mac is not configured */
	__u8 pad[4];
	__u64 member[BRIDGE_VLANS / 64];  /* VLANs that the port is a member of */
	__u64 learn[BRIDGE_VLANS / 64];	  /* VLANs in which it learns */
	__u64 forward[BRIDGE_VLANS / 64]; /* VLANs in which it forwards */
};

PCN_INLINE int bridge_in(const __u64 *set, __u16 vlan)
{
	return set[vlan / 64 & (BRIDGE_VLANS / 64 - 1)] >> (vlan % 64) & 1;
}

/* The tag control information of an 802.1Q tag, or one of these. */
#define BRIDGE_NO_TAG -1
#define BRIDGE_CUT_TAG -2

/* Returns the outer tag if it is an 802.1Q tag. A service tag (802.1ad), and everything after an
 * outer tag, is payload. */
PCN_INLINE int bridge_tci(struct CTXTYPE *ctx, struct pcn_cursor *c, __be16 proto)
{
#ifdef PCN_TC
	(void)c;
	if (ctx->vlan_present)
		return ctx->vlan_proto == bpf_htons(ETH_P_8021Q) ? (int)ctx->vlan_tci
								 : BRIDGE_NO_TAG;
	if (proto != bpf_htons(ETH_P_8021Q))
		return BRIDGE_NO_TAG;
	__be16 tci;
	if (bpf_skb_load_bytes(ctx, sizeof(struct ethhdr), &tci, sizeof(tci)))
		return BRIDGE_CUT_TAG;
	return bpf_ntohs(tci);
#else
	(void)ctx;
	if (proto != bpf_htons(ETH_P_8021Q))
		return BRIDGE_NO_TAG;
	struct pcn_vlan_hdr *tag = pcn_cursor_take(c, sizeof(*tag));
	return tag ? bpf_ntohs(tag->tci) : BRIDGE_CUT_TAG;
#endif
}

/* Pops the tag (now is negative), pushes one (was is) or replaces it. 0, or an error. */
PCN_NOINLINE int bridge_retag(struct CTXTYPE *ctx, int was, int now)
{
	if (now < 0)
		return pcn_vlan_pop(ctx);
	if (was < 0)
		return pcn_vlan_push(ctx, PCN_TAG(ETH_P_8021Q, now));
	return pcn_vlan_set(ctx, PCN_TAG(ETH_P_8021Q, now));
}

#endif
