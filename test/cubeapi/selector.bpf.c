// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent cube for tests: it redirects IPv4 packets to the output that is the last digit of
 * their destination, if there is one for it; others continue. */
#include <pcn/cube.h>

PCN_INLINE int select(struct CTXTYPE *ctx, struct pcn_md *md, int redirects)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct iphdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct iphdr *ip = eth && eth->h_proto == bpf_htons(ETH_P_IP) ? pcn_parse_ipv4(&c) : NULL;

	if (!ip || !redirects)
		return pcn_pkt_pass(ctx, md);
	return pcn_pkt_redirect(ctx, md, bpf_ntohl(ip->daddr) % 10);
}

PCN_CONFIG(bool, incoming) = true;
PCN_CONFIG(bool, outgoing) = false;

PCN_INGRESS
{
	return select(ctx, md, incoming);
}

PCN_EGRESS
{
	return select(ctx, md, outgoing);
}

PCN_LICENSE;
