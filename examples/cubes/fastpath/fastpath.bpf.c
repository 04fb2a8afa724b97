// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Forwards by the routes and neighbours of the host (bpf_fib_lookup). Whatever the lookup cannot
 * answer at once goes to the stack, which resolves neighbours, answers, fragments and sends errors:
 * no packet is dropped here that the stack would forward. */
#include <pcn/cube.h>
#include <pcn/csum.h>

#define AF_INET 2
#define AF_INET6 10

enum fastpath_counter {
	FASTPATH_NOT_ROUTED,
	FASTPATH_EXCEPTION,
	FASTPATH_NO_WAY,
	FASTPATH_NO_OUTPUT,
	FASTPATH_COUNTERS,
};
PCN_COUNTERS(counters, fastpath_counter, FASTPATH_COUNTERS);

/* The netdev that the cube is on. */
struct fastpath_netdev {
	__u64 mac; /* as returned by pcn_mac */
	__u32 index;
	__u32 pad;
};
PCN_MAP(netdev, BPF_MAP_TYPE_ARRAY, __u32, struct fastpath_netdev, 1);

/* The output that leads to a netdev, by interface index. */
PCN_MAP(output_of, BPF_MAP_TYPE_HASH, __u32, __u32, 16);

PCN_INLINE int to_stack(struct CTXTYPE *ctx, struct pcn_md *md, enum fastpath_counter why)
{
	pcn_count(&counters, why);
	return pcn_pkt_pass(ctx, md);
}

/* Prepares the lookup for an IPv4 packet. 0: only the stack can forward it. */
PCN_INLINE int ask4(struct pcn_cursor *c, struct bpf_fib_lookup *q)
{
	struct iphdr *ip = pcn_cursor_take(c, sizeof(*ip));

	if (!ip || ip->version != 4 || ip->ihl != 5 || ip->ttl <= 1 ||
	    !pcn_ipv4_checksum_ok(ip, c->end))
		return 0;
	q->family = AF_INET;
	q->l4_protocol = ip->protocol;
	q->tos = ip->tos;
	q->ipv4_src = ip->saddr;
	q->ipv4_dst = ip->daddr;
#ifdef PCN_XDP
	q->tot_len =
		bpf_ntohs(ip->tot_len); /* at TC, the kernel knows the segments of a superframe */
#endif
	return 1;
}

/* The same for IPv6. */
PCN_INLINE int ask6(struct pcn_cursor *c, struct bpf_fib_lookup *q)
{
	struct ipv6hdr *ip = pcn_parse_ipv6(c);

	if (!ip || ip->hop_limit <= 1 || ip->nexthdr == IPPROTO_HOPOPTS ||
	    ip->daddr.in6_u.u6_addr8[0] == 0xff || ip->daddr.in6_u.u6_addr8[0] == 0xfe ||
	    ip->saddr.in6_u.u6_addr8[0] == 0xfe)
		return 0;
	q->family = AF_INET6;
	q->l4_protocol = ip->nexthdr;
	q->flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
	pcn_address_set6(q->ipv6_src, &ip->saddr);
	pcn_address_set6(q->ipv6_dst, &ip->daddr);
#ifdef PCN_XDP
	q->tot_len = bpf_ntohs(ip->payload_len) + sizeof(*ip);
#endif
	return 1;
}

/* Writes the frame for the next hop. 0, or -1 if it has become shorter. */
PCN_INLINE int write_hop(struct CTXTYPE *ctx, const struct bpf_fib_lookup *q)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	void *packet = pcn_cursor_take(&c, sizeof(struct iphdr));
	if (!eth || !packet)
		return -1;
	__builtin_memcpy(eth->h_dest, q->dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, q->smac, ETH_ALEN);
	if (q->family == AF_INET) {
		struct iphdr *ip = packet;
		__be16 *word = packet + 8, was = *word;

		ip->ttl--;
		pcn_csum_ipv4(ip, pcn_csum_diff2(was, *word));
	} else {
		struct ipv6hdr *ip = packet;
		__be16 *word = packet + 6, was = *word;

		ip->hop_limit--;
		pcn_csum_bytes(ctx, pcn_csum_diff2(was, *word));
	}
	return 0;
}

PCN_INGRESS
{
	__u32 zero = 0, index, *output;
	struct fastpath_netdev *own = bpf_map_lookup_elem(&netdev, &zero);
	struct bpf_fib_lookup q = {};
	struct pcn_cursor c;

	if (!own)
		return to_stack(ctx, md, FASTPATH_NOT_ROUTED);
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || pcn_mac(eth->h_dest) != own->mac)
		return to_stack(ctx, md, FASTPATH_NOT_ROUTED);
#ifdef PCN_TC
	if (ctx->vlan_present)
		return to_stack(ctx, md, FASTPATH_NOT_ROUTED);
#endif
	q.ifindex = own->index;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		if (!ask4(&c, &q))
			return to_stack(ctx, md, FASTPATH_EXCEPTION);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		if (!ask6(&c, &q))
			return to_stack(ctx, md, FASTPATH_EXCEPTION);
	} else {
		return to_stack(ctx, md, FASTPATH_NOT_ROUTED);
	}
	if (bpf_fib_lookup(ctx, &q, sizeof(q), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return to_stack(ctx, md, FASTPATH_NO_WAY);
	index = q.ifindex;
	output = bpf_map_lookup_elem(&output_of, &index);
	if (!output ||
	    index == own->index) /* back where it came from: the stack sends a redirect */
		return to_stack(ctx, md, FASTPATH_NO_OUTPUT);
	if (write_hop(ctx, &q))
		return to_stack(ctx, md, FASTPATH_EXCEPTION);
	return pcn_pkt_redirect(ctx, md, *output);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
