// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Forwards by the routes and neighbours of the host (bpf_fib_lookup). Whatever the lookup cannot
 * answer at once goes to the stack, which resolves neighbours, answers, fragments and sends errors:
 * no packet is dropped here that the stack would forward. */
#include <pcn/cube.h>
#include <pcn/hostfib.h>

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

PCN_INGRESS
{
	__u32 zero = 0, index, *output;
	struct fastpath_netdev *own = bpf_map_lookup_elem(&netdev, &zero);
	struct bpf_fib_lookup q = {};
	struct pcn_cursor c;

	if (!own)
		return to_stack(ctx, md, FASTPATH_NOT_ROUTED);
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + 4);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || pcn_mac(eth->h_dest) != own->mac)
		return to_stack(ctx, md, FASTPATH_NOT_ROUTED);
#ifdef PCN_TC
	if (ctx->vlan_present)
		return to_stack(ctx, md, FASTPATH_NOT_ROUTED);
#endif
	if (eth->h_proto != bpf_htons(ETH_P_IP) && eth->h_proto != bpf_htons(ETH_P_IPV6))
		return to_stack(ctx, md, FASTPATH_NOT_ROUTED);
	q.ifindex = own->index;
	switch (pcn_hostfib_ask(ctx, eth->h_proto, &c, &q)) {
	case PCN_HOSTFIB_EXCEPTION:
		return to_stack(ctx, md, FASTPATH_EXCEPTION);
	case PCN_HOSTFIB_NO_ROUTE:
		return to_stack(ctx, md, FASTPATH_NO_WAY);
	}
	index = q.ifindex;
	output = bpf_map_lookup_elem(&output_of, &index);
	if (!output ||
	    index == own->index) /* back where it came from: the stack sends a redirect */
		return to_stack(ctx, md, FASTPATH_NO_OUTPUT);
	if (pcn_hostfib_frame(ctx, &q))
		return to_stack(ctx, md, FASTPATH_EXCEPTION);
	return pcn_pkt_redirect(ctx, md, *output);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
