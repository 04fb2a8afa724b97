// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the bridge's tables hold, and the tags of frames. */
#ifndef BRIDGE_H
#define BRIDGE_H

#include <pcn/cube.h>
#include <pcn/fdb.h>

/* As many as a cube can have: port indexes are below. The next is the bridge itself. */
#define BRIDGE_PORTS 512
#define BRIDGE_VLANS 4096

enum bridge_reason {
	BRIDGE_TRUNCATED = PCN_REASON_FIRST, /* shorter than an Ethernet header or its tag */
	BRIDGE_GROUP_SOURCE,		     /* no station sends from a group address */
	BRIDGE_LINK_LOCAL,		     /* for the neighbour only (802.1Q, 8.6.3) */
	BRIDGE_TAGGED,			     /* a tagged frame at an access port */
	BRIDGE_UNTAGGED,    /* a frame without a tag at a trunk without a native VLAN */
	BRIDGE_NOT_ALLOWED, /* its VLAN is not allowed on the port where it came in */
	BRIDGE_STP_BLOCKED, /* the spanning tree keeps the port where it came in closed */
	BRIDGE_SAME_PORT,   /* the destination is where the frame came from */
	BRIDGE_OUT_BLOCKED, /* the destination's port does not send frames of the VLAN */
	BRIDGE_TAG_FAILED,  /* no room for a tag */
	BRIDGE_BPDU_FLOOD,  /* more BPDUs on a port than its trees send */
};
PCN_REASONS(bridge_reason);

/* A port. A set of VLANs is a bit for each. Sets of ports are the framework's, by VLAN. */
struct bridge_port {
	__u64 mac;   /* as pcn_mac() gives it */
	__u16 pvid;  /* VLAN of frames without a tag, both ways; 0: there is none */
	__u8 trunk;  /* frames may have tags */
	__u8 random; /* mac is not configured */
	__u8 pad[4];
	__u64 member[BRIDGE_VLANS / 64];  /* VLANs of the port */
	__u64 learn[BRIDGE_VLANS / 64];	  /* those in which it learns */
	__u64 forward[BRIDGE_VLANS / 64]; /* those in which it takes and sends frames */
};

PCN_INLINE int bridge_in(const __u64 *set, __u16 vlan)
{
	return set[vlan / 64 & (BRIDGE_VLANS / 64 - 1)] >> (vlan % 64) & 1;
}

/* The bytes of a header up to its type, as three numbers: addresses as pcn_mac() gives them. */
struct bridge_addresses {
	__u64 to, from;
	__be16 proto;
};

PCN_INLINE struct bridge_addresses bridge_addresses(const struct ethhdr *eth)
{
	const __u64 mac = 0xffffffffffff;
	struct bridge_addresses a;
	const void *p = eth;

	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "see pcn_mac()");
	a.to = *(const __u64 *)p & mac;
	__u64 rest = *(const __u64 *)(p + ETH_ALEN);
	a.from = rest & mac;
	a.proto = rest >> 48;
	return a;
}

/* The tag control information of an 802.1Q tag, or one of these. */
#define BRIDGE_NO_TAG -1
#define BRIDGE_CUT_TAG -2

/* Returns the outer tag if it is of 802.1Q. A service tag (802.1ad) and what is behind an outer
 * tag are payload. */
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

/* Takes the tag off (now is negative), puts one on (was is) or changes it. 0, or an error. */
PCN_NOINLINE int bridge_retag(struct CTXTYPE *ctx, int was, int now)
{
	if (now < 0)
		return pcn_vlan_pop(ctx);
	if (was < 0)
		return pcn_vlan_push(ctx, PCN_TAG(ETH_P_8021Q, now));
	return pcn_vlan_set(ctx, PCN_TAG(ETH_P_8021Q, now));
}

#endif
