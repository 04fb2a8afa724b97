// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The verdicts of a program: `return pcn_pkt_...(ctx, md, ...)`. */
#ifndef PCN_VERDICT_H
#define PCN_VERDICT_H

#include <pcn/core.h>

/* Sends the packet out of a port of this cube: through the cube's egress program and the port's
 * transparent cubes to the port's peer. Ingress programs of standard cubes only. */
PCN_INLINE int pcn_pkt_send(struct CTXTYPE *ctx, struct pcn_md *md, __u16 port)
{
	(void)ctx;
	md->out_port = port;
	return PCN_SEND;
}

/* Drops the packet and counts it with the reason. */
PCN_INLINE int pcn_pkt_drop(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason)
{
	(void)ctx;
	md->reason = reason;
	return PCN_DROP;
}

/* In an ingress program of a standard cube: passes the packet to the stack of the netdev where it
 * entered or, in a shadow cube, to its namespace through the port where it came in. In other
 * programs: lets the packet continue. */
PCN_INLINE int pcn_pkt_pass(struct CTXTYPE *ctx, struct pcn_md *md)
{
	(void)ctx;
	(void)md;
	return PCN_PASS;
}

/* Passes the packet to the cube's namespace, where it arrives on the interface of the port. A cube
 * without a namespace (SHADOW is 0) drops it as no-peer. Standard cubes at TC only. */
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

/* Sends a copy out of every port of a set except the one where the packet came in. The control
 * plane writes the cube's sets (cube.Floods); if the set does not exist or has no other port with a
 * peer, the packet is dropped as no-peer. Tagged members get the frame with `tag` as its outer tag,
 * the others without: `tag` is a PCN_TAG, or 0 to leave the frame unchanged for all; `tagged` says
 * whether the frame has that tag now. Inner tags stay. The words md->md are lost. Ingress programs
 * of standard cubes only. */
PCN_INLINE int pcn_pkt_flood_set(struct CTXTYPE *ctx, struct pcn_md *md, __u16 set, __u32 tag,
				 int tagged)
{
	return pcn_core_to_set(ctx, md, set | (tagged ? PCN_SET_TAGGED : 0), tag);
}

/* Sends the packet to the cube's slow path. */
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

/* In an egress program of a transparent cube: turns the packet around, as if the other side had
 * returned it to the cube. It continues in the cube's ingress program, then inwards; the words in
 * md->md stay. The receiver only accepts a frame with its own address: swap the two addresses in
 * the Ethernet header. */
PCN_INLINE int pcn_pkt_turn(struct CTXTYPE *ctx, struct pcn_md *md)
{
	(void)ctx;
	(void)md;
	return PCN_TURN;
}

/* Internal: read by pcn_pkt_reply(), so that the linker knows which cubes reply. */
const volatile __u32 pcn_replies = 1;

/* In an ingress program of a transparent cube: sends the packet, of which the cube has made an answer,
 * back to where it came from. It continues in the cube's egress program, then outwards; the words in
 * md->md stay. The cube swaps the addresses itself, in the Ethernet header, too. */
PCN_INLINE int pcn_pkt_reply(struct CTXTYPE *ctx, struct pcn_md *md)
{
	(void)ctx;
	(void)md;
	(void)pcn_replies;
	return PCN_TURN;
}

/* In an ingress program of a standard cube: offers a packet that is addressed to the cube itself to
 * the transparent cubes of a port, one of which may turn it; the cube then receives it on that
 * port. The packet does not leave. If no cube turns it, this program gets it again, on the port
 * where it came in, and pcn_offered() is true. Use it only if pcn_offers is not 0. */
PCN_INLINE int pcn_pkt_offer(struct CTXTYPE *ctx, struct pcn_md *md, __u16 port)
{
	(void)ctx;
	md->out_port = port;
	return PCN_OFFER;
}

/* Not 0 if the packet was offered. In the egress program of a transparent cube: the packet is
 * addressed to the standard cube and will not leave, so turn it, or pass it on unchanged. In the
 * ingress program of a standard cube: no cube turned it. */
PCN_INLINE int pcn_offered(const struct pcn_md *md)
{
	return md->flags & PCN_MD_OFFERED;
}

/* Not 0 if a transparent cube of md->in_port turned the packet. It does not come from the link, and
 * its Ethernet header may be arbitrary. */
PCN_INLINE int pcn_turned(const struct pcn_md *md)
{
	return md->flags & PCN_MD_TURNED;
}

/* The number of outputs of a transparent cube. pcn_pkt_redirect reads it: that is how the linker
 * knows which cubes redirect. */
const volatile __u32 pcn_outputs = 16;

/* In a program of a transparent cube: redirects the packet to an output of the cube, which the
 * configuration leads to a netdev (list `outputs` of the model): the netdev sends it or, at TC, may
 * receive it; or to a port of another cube, which receives it. No further program of this path sees
 * it. If the output is not configured or its destination is gone, the packet is dropped as
 * `no-output`. */
PCN_INLINE int pcn_pkt_redirect(struct CTXTYPE *ctx, struct pcn_md *md, __u16 output)
{
	(void)ctx;
	(void)pcn_outputs;
	md->out_port = output;
	return PCN_REDIRECT;
}

/* In a program of a transparent cube at TC: sends a copy to an output of the cube that leads to a netdev, and processing of
 * the packet continues. Returns 0, or -1 if there is no copy: the output is not configured or leads to a port, its netdev
 * is gone, or the program is at XDP, which cannot copy a packet. The copy may pass programs of this cube before the
 * function returns: read nothing from per-CPU maps that was written before, nor through pointers into the packet. */
PCN_INLINE int pcn_pkt_mirror(struct CTXTYPE *ctx, struct pcn_md *md, __u16 output)
{
	(void)pcn_outputs;
#ifdef PCN_TC
	return pcn_core_mirror(ctx, md, output);
#else
	(void)ctx;
	(void)md;
	(void)output;
	return -1;
#endif
}

/* Internal: outputs in md->out_port of which md->md[0] is the interface index: the netdev sends the frame as it is, or to
 * the neighbour that the kernel finds. */
#define PCN_OUTPUT_NETDEV 0xfffe
#define PCN_OUTPUT_NEIGH 0xffff

/* pcn_pkt_redirect_netdev and pcn_pkt_redirect_neigh read it: programs of external services may not. */
const volatile __u32 pcn_netdevs = 1;

/* In a program of a transparent cube at TC: a netdev, by its interface index, sends the frame. The packet meets the egress
 * programs of that netdev; no further program of this path sees it. 0: it is dropped as `no-output`. */
PCN_INLINE int pcn_pkt_redirect_netdev(struct CTXTYPE *ctx, struct pcn_md *md, __u32 ifindex)
{
	(void)ctx;
	(void)pcn_outputs;
	(void)pcn_netdevs;
	md->md[0] = ifindex;
	md->out_port = PCN_OUTPUT_NETDEV;
	return PCN_REDIRECT;
}

/* The same, to the neighbour that the host's routes say for the packet's destination. The kernel finds it, and writes the
 * Ethernet header. */
PCN_INLINE int pcn_pkt_redirect_neigh(struct CTXTYPE *ctx, struct pcn_md *md, __u32 ifindex)
{
	int verdict = pcn_pkt_redirect_netdev(ctx, md, ifindex);

	md->out_port = PCN_OUTPUT_NEIGH;
	return verdict;
}

/* Continues in another program of this cube and direction, selected by index; does not return. The
 * words in md->md stay. If the index has no program, the packet is dropped as `no-program`. */
PCN_INLINE int pcn_call_program(struct CTXTYPE *ctx, struct pcn_md *md, __u16 index)
{
	(void)ctx;
	md->reason = index;
	return PCN_CALL;
}

/* Sends a copy to the slow path; processing of the packet continues. Returns 0, or -1 if the copy
 * was shed. */
PCN_INLINE int pcn_pkt_copy(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason)
{
	return pcn_core_copy(ctx, md, reason);
}

#endif
