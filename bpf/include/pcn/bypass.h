// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The way past the host's stack, for a transparent cube on a netdev that decides on packets the host forwards: by the
 * routes and neighbours of the host, out of an output of the cube (list `outputs`). Whatever that cannot do at once is
 * for the stack, unchanged. Frames of VLAN netdevs are forwarded in their place: received with a tag by the netdev that the
 * cube is on and, at XDP, sent with one by an output. Go package bypass keeps the maps.
 *
 * Include it yourself. */
#ifndef PCN_BYPASS_H
#define PCN_BYPASS_H

#include <pcn/cube.h>
#include <pcn/hostfib.h>

/* Why a packet is for the stack. The names are those of counters in the grouping `to-stack`. */
enum pcn_bypass {
	PCN_BYPASS_NOT_ROUTED, /* to another MAC address, of another protocol, of an unknown VLAN, or with several tags */
	PCN_BYPASS_EXCEPTION, /* the stack answers, or fragments, or refuses it */
	PCN_BYPASS_NO_WAY, /* for the host, without a route, or to a neighbour that is not resolved */
	PCN_BYPASS_NO_OUTPUT, /* the route leads to a netdev that is no output, or back */
	PCN_BYPASS_REASONS,
};
PCN_COUNTERS(bypass_to_stack, pcn_bypass, PCN_BYPASS_REASONS);

/* Internal: the netdev that the cube is on, or a VLAN netdev on that. */
struct pcn_bypass_netdev {
	__u64 mac; /* as returned by pcn_mac */
	__u32 index;
	__u32 pad;
};
PCN_MAP(bypass_netdev, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_bypass_netdev, 1);

/* Internal: how many VLAN netdevs a cube may receive from, and how many netdevs its outputs may lead to. */
#define PCN_BYPASS_NETDEVS 4096

/* Internal: the VLAN netdevs that receive the frames with a tag, by PCN_TAG of its EtherType and VLAN id. */
PCN_MAP_FLAGS(bypass_vlans, BPF_MAP_TYPE_HASH, __u32, struct pcn_bypass_netdev, PCN_BYPASS_NETDEVS,
	      BPF_F_NO_PREALLOC);

/* How frames leave for which a route says a netdev. */
struct pcn_bypass_exit {
	__u32 output; /* of the cube: it leads to that netdev or, if that is a VLAN netdev, to the one below */
	__u32 tag; /* PCN_TAG of that VLAN netdev, or 0 */
};

/* Internal: by interface index. */
PCN_MAP_FLAGS(bypass_exits, BPF_MAP_TYPE_HASH, __u32, struct pcn_bypass_exit, PCN_BYPASS_NETDEVS,
	      BPF_F_NO_PREALLOC);

/* Where a packet would go. */
struct pcn_bypass_way {
	struct bpf_fib_lookup q; /* of a route: the netdev and the addresses of the frame */
	struct pcn_bypass_exit exit;
	__u32 was; /* PCN_TAG of the frame; 0: it has no tag */
};

/* Internal: the netdev whose frame this is, if that is addressed to the host and has a packet of IP; otherwise NULL. The cursor is
 * behind the header and the tag, which is stored in *tag; *ethertype is that of the packet. */
PCN_INLINE const struct pcn_bypass_netdev *
pcn_bypass_routed(struct CTXTYPE *ctx, struct pcn_cursor *c, __be16 *ethertype, __u32 *tag)
{
	const struct pcn_bypass_netdev *in;
	struct ethhdr *eth;
	__u32 key = 0;

	pcn_cursor_open(c, ctx,
			sizeof(struct ethhdr) + sizeof(struct pcn_vlan_hdr) +
				sizeof(struct ipv6hdr) + 4);
	eth = pcn_parse_eth(c);
	if (!eth)
		return NULL;
	*tag = 0;
	*ethertype = eth->h_proto;
#ifdef PCN_TC
	if (ctx->vlan_present)
		*tag = PCN_TAG(bpf_ntohs((__u16)ctx->vlan_proto), ctx->vlan_tci);
	else
#endif
		if (pcn_is_vlan_proto(*ethertype)) {
		struct pcn_vlan_hdr *vlan = pcn_cursor_take(c, sizeof(*vlan));

		if (!vlan)
			return NULL;
		*tag = PCN_TAG(bpf_ntohs(*ethertype), bpf_ntohs(vlan->tci));
		*ethertype = vlan->proto;
	}
	if (*ethertype != bpf_htons(ETH_P_IP) && *ethertype != bpf_htons(ETH_P_IPV6))
		return NULL;
	if (*tag) {
		key = PCN_TAG(pcn_tag_proto(*tag), pcn_tag_vid(*tag));
		in = bpf_map_lookup_elem(&bypass_vlans, &key);
	} else {
		in = bpf_map_lookup_elem(&bypass_netdev, &key);
	}
	return in && pcn_mac(eth->h_dest) == in->mac ? in : NULL;
}

/* How frames leave for which a route says a netdev, by its interface index; NULL: by no output of the cube. */
PCN_INLINE const struct pcn_bypass_exit *pcn_bypass_exit(__u32 ifindex)
{
	return bpf_map_lookup_elem(&bypass_exits, &ifindex);
}

/* Looks up where the host would send a packet; changes nothing. Returns -1 if pcn_bypass_send can send it there, or an
 * enum pcn_bypass that says why it is for the stack. */
PCN_INLINE int pcn_bypass_find(struct CTXTYPE *ctx, struct pcn_bypass_way *way)
{
	struct pcn_cursor c;
	__be16 ethertype;
	__u32 index;
	const struct pcn_bypass_netdev *in = pcn_bypass_routed(ctx, &c, &ethertype, &way->was);

	if (!in)
		return PCN_BYPASS_NOT_ROUTED;
	index = in->index;
	__builtin_memset(&way->q, 0, sizeof(way->q));
	way->q.ifindex = index;
	switch (pcn_hostfib_ask(ctx, ethertype, &c, &way->q)) {
	case PCN_HOSTFIB_EXCEPTION:
		return PCN_BYPASS_EXCEPTION;
	case PCN_HOSTFIB_NO_ROUTE:
		return PCN_BYPASS_NO_WAY;
	}
	const struct pcn_bypass_exit *out = pcn_bypass_exit(way->q.ifindex);
	/* Back where it came from: the stack sends a redirect. */
	if (!out || way->q.ifindex == index)
		return PCN_BYPASS_NO_OUTPUT;
	way->exit = *out;
	return -1;
}

/* The verdict for a packet that is for the stack, which counts why. */
PCN_INLINE int pcn_bypass_not(struct CTXTYPE *ctx, struct pcn_md *md, enum pcn_bypass why)
{
	pcn_count(&bypass_to_stack, why);
	return pcn_pkt_pass(ctx, md);
}

/* Replaces the tag of a frame (PCN_TAG, or 0 for none), and updates md->packet_len. 0, or -1 if that is not possible: a frame that
 * had no tag is unchanged then, another one is to be dropped. */
PCN_INLINE int pcn_bypass_retag(struct CTXTYPE *ctx, struct pcn_md *md, __u32 was, __u32 tag)
{
	int failed;

	if (was == tag)
		return 0;
	if (!tag)
		failed = pcn_vlan_pop(ctx);
	else
		failed = was ? pcn_vlan_set(ctx, tag) : pcn_vlan_push(ctx, tag);
	md->packet_len = pcn_frame_len(ctx);
	return failed ? -1 : 0;
}

/* The verdict for a packet for which pcn_bypass_find has found a way: writes the frame for the next hop, takes one from
 * the TTL or hop limit, and redirects it to the output. At TC, a VLAN netdev adds its tag itself. */
PCN_INLINE int pcn_bypass_send(struct CTXTYPE *ctx, struct pcn_md *md,
			       const struct pcn_bypass_way *way)
{
	__u32 was = way->was, tag = way->exit.tag;

#ifdef PCN_TC
	tag = 0;
#endif
	if (pcn_bypass_retag(ctx, md, was, tag))
		return was ? pcn_pkt_drop(ctx, md, PCN_REASON_MALFORMED)
			   : pcn_bypass_not(ctx, md, PCN_BYPASS_EXCEPTION);
	if (pcn_hostfib_write(ctx, &way->q, tag))
		return was == tag ? pcn_bypass_not(ctx, md, PCN_BYPASS_EXCEPTION)
				  : pcn_pkt_drop(ctx, md, PCN_REASON_MALFORMED);
#ifdef PCN_TC
	if (way->exit.tag)
		return pcn_pkt_redirect_netdev(ctx, md, way->q.ifindex);
#endif
	return pcn_pkt_redirect(ctx, md, way->exit.output);
}

/* The verdict for a packet that the cube has accepted: past the stack, or to it if that is not possible. */
PCN_INLINE int pcn_bypass(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct pcn_bypass_way way;
	int why = pcn_bypass_find(ctx, &way);

	return why < 0 ? pcn_bypass_send(ctx, md, &way) : pcn_bypass_not(ctx, md, why);
}

#endif
