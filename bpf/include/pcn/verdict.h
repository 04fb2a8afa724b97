// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What a program can do with a packet: `return pcn_pkt_...(ctx, md, ...)`. */
#ifndef PCN_VERDICT_H
#define PCN_VERDICT_H

#include <pcn/core.h>

/* Sends the packet out of a port of this cube: through the cube's egress program, the port's
 * transparent cubes, then to the port's peer. Ingress programs of standard cubes only. */
PCN_INLINE int pcn_pkt_send(struct CTXTYPE *ctx, struct pcn_md *md, __u16 port)
{
	(void)ctx;
	md->out_port = port;
	return PCN_SEND;
}

/* Drops the packet and counts it under the reason. */
PCN_INLINE int pcn_pkt_drop(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason)
{
	(void)ctx;
	md->reason = reason;
	return PCN_DROP;
}

/* Standard cube, ingress: the stack of the netdev where the packet entered gets it, or, if the
 * cube is a shadow cube, its namespace by the port where it came in. Elsewhere the packet goes
 * on. */
PCN_INLINE int pcn_pkt_pass(struct CTXTYPE *ctx, struct pcn_md *md)
{
	(void)ctx;
	(void)md;
	return PCN_PASS;
}

/* Gives the packet to the cube's namespace, where it comes in by the interface of the port. A cube
 * without one (SHADOW is 0) drops it as no-peer. TC, standard cubes. */
PCN_INLINE int pcn_pkt_namespace(struct CTXTYPE *ctx, struct pcn_md *md, __u16 port)
{
	(void)ctx;
	md->out_port = port;
	return PCN_NAMESPACE;
}

/* Sends a copy out of every port except the one where the packet came in. */
PCN_INLINE int pcn_pkt_flood(struct CTXTYPE *ctx, struct pcn_md *md)
{
	(void)ctx;
	(void)md;
	return PCN_FLOOD;
}

/* Sends a copy out of every port of a set but the one where the packet came in. The control plane
 * fills the cube's sets (cube.Floods); a set that is not there, or leads nowhere else, drops the
 * packet as no-peer. Ports that are tagged members get the frame with `tag` as its outer tag, the
 * others without: `tag` is a PCN_TAG, or 0 to leave the frame as it is for all; `tagged` tells
 * whether the frame has that tag at the moment. Tags further inside stay. The words md->md are
 * lost. Ingress programs of standard cubes only. */
PCN_INLINE int pcn_pkt_flood_set(struct CTXTYPE *ctx, struct pcn_md *md, __u16 set, __u32 tag,
				 int tagged)
{
	return pcn_core_to_set(ctx, md, set | (tagged ? PCN_SET_TAGGED : 0), tag);
}

/* Hands the packet to the cube's slow path. */
PCN_INLINE int pcn_pkt_controller(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason)
{
	(void)ctx;
	md->reason = reason;
	return PCN_CONTROLLER;
}

/* The same, with four words for the control plane. */
PCN_INLINE int pcn_pkt_controller_md(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason,
				     const __u32 words[4])
{
	(void)ctx;
	md->reason = reason;
	md->md[0] = words[0];
	md->md[1] = words[1];
	md->md[2] = words[2];
	md->md[3] = words[3];
	return PCN_CONTROLLER;
}

/* Transparent cube, egress: the packet turns back, as if what is outside had returned it to the cube.
 * Its ingress program is next, then what is behind it; the words in md->md stay. Who is behind
 * takes a frame that has its address: swap the two in the Ethernet header. */
PCN_INLINE int pcn_pkt_turn(struct CTXTYPE *ctx, struct pcn_md *md)
{
	(void)ctx;
	(void)md;
	return PCN_TURN;
}

/* Standard cube, ingress: offers a packet that is for the cube itself to the transparent cubes of a
 * port, for one of them to turn it: then the cube receives it on that port. It does not leave. If none
 * turns it, this program gets it again, on the port where it came in, and pcn_offered() is true. Only
 * where pcn_offers is not 0. */
PCN_INLINE int pcn_pkt_offer(struct CTXTYPE *ctx, struct pcn_md *md, __u16 port)
{
	(void)ctx;
	md->out_port = port;
	return PCN_OFFER;
}

/* Not 0: the packet was offered. In the egress program of a transparent cube: it is for the cube itself
 * and will not leave, so turn it, or pass it on as it is. In the ingress program of a standard cube:
 * nobody turned it. */
PCN_INLINE int pcn_offered(const struct pcn_md *md)
{
	return md->flags & PCN_MD_OFFERED;
}

/* Not 0: a transparent cube of md->in_port turned the packet. It does not come from the link, and its
 * Ethernet header may be any. */
PCN_INLINE int pcn_turned(const struct pcn_md *md)
{
	return md->flags & PCN_MD_TURNED;
}

/* Goes on in another program of this cube and direction, by its index; does not come back. The
 * words in md->md stay. A packet for an index without a program is dropped as `no-program`. */
PCN_INLINE int pcn_call_program(struct CTXTYPE *ctx, struct pcn_md *md, __u16 index)
{
	(void)ctx;
	md->reason = index;
	return PCN_CALL;
}

/* Sends a copy to the slow path; the packet itself goes on. 0, or -1 if the copy was shed. */
PCN_INLINE int pcn_pkt_copy(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason)
{
	return pcn_core_copy(ctx, md, reason);
}

#endif
