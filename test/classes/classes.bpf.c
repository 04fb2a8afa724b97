// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent cube for tests: the traffic class of a UDP packet is its destination port. */
#include <pcn/cube.h>
#include <pcn/flow.h>

PCN_INLINE int classes(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct pcn_flow flow = {};

	pcn_flow_read(ctx, &flow);
	if (flow.protocol == IPPROTO_UDP)
		md->traffic_class = bpf_ntohs(flow.destination_port);
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return classes(ctx, md);
}

PCN_EGRESS
{
	return classes(ctx, md);
}

PCN_LICENSE;
