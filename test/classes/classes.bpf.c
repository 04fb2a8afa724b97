// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent cube for tests, which makes the destination port of a UDP packet that comes in its traffic class, and the last
 * byte of its source MAC address its QFI; or shows its class, in the last bytes of its destination MAC address. */
#include <pcn/cube.h>
#include <pcn/flow.h>

PCN_CONFIG(bool, shows) = false;

PCN_INLINE int classes_show(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct ethhdr *eth = pcn_data(ctx);

	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return pcn_pkt_drop(ctx, md, PCN_REASON_UNSPECIFIED);
	eth->h_dest[2] = md->traffic_class >> 24;
	eth->h_dest[3] = md->traffic_class >> 16;
	eth->h_dest[4] = md->traffic_class >> 8;
	eth->h_dest[5] = md->traffic_class;
	return pcn_pkt_pass(ctx, md);
}

PCN_INLINE int classes_give(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct pcn_flow flow = {};
	__u8 qfi = 0;

	pcn_flow_read(ctx, &flow);
	if (flow.protocol == IPPROTO_UDP)
		md->traffic_class = bpf_ntohs(flow.destination_port);
	pcn_load_bytes(ctx, 2 * ETH_ALEN - 1, &qfi, sizeof(qfi));
	md->tenant = qfi;
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return shows ? classes_show(ctx, md) : classes_give(ctx, md);
}

PCN_EGRESS
{
	return shows ? classes_show(ctx, md) : pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
