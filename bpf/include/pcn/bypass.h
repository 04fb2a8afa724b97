// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The way past the host's stack, for a transparent cube on a netdev that decides on packets the host forwards: by the
 * routes and neighbours of the host, out of an output of the cube (list `outputs`). Whatever that cannot do at once is
 * for the stack, unchanged. Go package bypass keeps the maps.
 *
 * Include it yourself. */
#ifndef PCN_BYPASS_H
#define PCN_BYPASS_H

#include <pcn/cube.h>
#include <pcn/hostfib.h>

/* Why a packet is for the stack. The names are those of counters in the grouping `to-stack`. */
enum pcn_bypass {
	PCN_BYPASS_NOT_ROUTED, /* to another MAC address, of another protocol, or with a VLAN tag */
	PCN_BYPASS_EXCEPTION,  /* the stack answers, or fragments, or refuses it */
	PCN_BYPASS_NO_WAY, /* for the host, without a route, or to a neighbour that is not resolved */
	PCN_BYPASS_NO_OUTPUT, /* the route leads to a netdev that is no output, or back */
	PCN_BYPASS_REASONS,
};
PCN_COUNTERS(bypass_to_stack, pcn_bypass, PCN_BYPASS_REASONS);

/* Internal: the netdev that the cube is on. */
struct pcn_bypass_netdev {
	__u64 mac; /* as returned by pcn_mac */
	__u32 index;
	__u32 pad;
};
PCN_MAP(bypass_netdev, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_bypass_netdev, 1);

/* Internal: the output that leads to a netdev, by interface index. */
PCN_MAP(bypass_output_of, BPF_MAP_TYPE_HASH, __u32, __u32, 16);

/* Where a packet would go. */
struct pcn_bypass_way {
	struct bpf_fib_lookup q; /* of a route: the netdev and the addresses of the frame */
	int output;		 /* of the cube */
};

/* Internal: whether the host routes a frame, and what is behind its Ethernet header. The EtherType, or 0. */
PCN_INLINE __be16 pcn_bypass_routed(struct CTXTYPE *ctx, struct pcn_cursor *c,
				    const struct pcn_bypass_netdev *own)
{
	struct ethhdr *eth;

	pcn_cursor_open(c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + 4);
	eth = pcn_parse_eth(c);
	if (!eth || pcn_mac(eth->h_dest) != own->mac)
		return 0;
#ifdef PCN_TC
	if (ctx->vlan_present)
		return 0;
#endif
	if (eth->h_proto != bpf_htons(ETH_P_IP) && eth->h_proto != bpf_htons(ETH_P_IPV6))
		return 0;
	return eth->h_proto;
}

/* The output of the cube that leads to a netdev, by its interface index; -1: there is none. */
PCN_INLINE int pcn_bypass_output(__u32 ifindex)
{
	__u32 *output = bpf_map_lookup_elem(&bypass_output_of, &ifindex);

	return output ? (int)*output : -1;
}

/* Looks up where the host would send a packet; changes nothing. Returns -1 if pcn_bypass_send can send it there, or an
 * enum pcn_bypass that says why it is for the stack. */
PCN_INLINE int pcn_bypass_find(struct CTXTYPE *ctx, struct pcn_bypass_way *way)
{
	__u32 zero = 0;
	struct pcn_bypass_netdev *own = bpf_map_lookup_elem(&bypass_netdev, &zero);
	struct pcn_cursor c;
	__be16 ethertype = own ? pcn_bypass_routed(ctx, &c, own) : 0;

	if (!ethertype)
		return PCN_BYPASS_NOT_ROUTED;
	__builtin_memset(&way->q, 0, sizeof(way->q));
	way->q.ifindex = own->index;
	switch (pcn_hostfib_ask(ctx, ethertype, &c, &way->q)) {
	case PCN_HOSTFIB_EXCEPTION:
		return PCN_BYPASS_EXCEPTION;
	case PCN_HOSTFIB_NO_ROUTE:
		return PCN_BYPASS_NO_WAY;
	}
	way->output = pcn_bypass_output(way->q.ifindex);
	/* Back where it came from: the stack sends a redirect. */
	return way->output < 0 || way->q.ifindex == own->index ? PCN_BYPASS_NO_OUTPUT : -1;
}

/* The verdict for a packet that is for the stack, which counts why. */
PCN_INLINE int pcn_bypass_not(struct CTXTYPE *ctx, struct pcn_md *md, enum pcn_bypass why)
{
	pcn_count(&bypass_to_stack, why);
	return pcn_pkt_pass(ctx, md);
}

/* The verdict for a packet for which pcn_bypass_find has found a way: writes the frame for the next hop, takes one from
 * the TTL or hop limit, and redirects it to the output. */
PCN_INLINE int pcn_bypass_send(struct CTXTYPE *ctx, struct pcn_md *md,
			       const struct pcn_bypass_way *way)
{
	if (pcn_hostfib_frame(ctx, &way->q))
		return pcn_bypass_not(ctx, md, PCN_BYPASS_EXCEPTION);
	return pcn_pkt_redirect(ctx, md, way->output);
}

/* The verdict for a packet that the cube has accepted: past the stack, or to it if that is not possible. */
PCN_INLINE int pcn_bypass(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct pcn_bypass_way way;
	int why = pcn_bypass_find(ctx, &way);

	return why < 0 ? pcn_bypass_send(ctx, md, &way) : pcn_bypass_not(ctx, md, why);
}

#endif
