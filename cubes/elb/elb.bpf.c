// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A fast path for TCP services of a proxy on the host: new connections are assigned a server, source and destination of their
 * segments are translated, and they leave by the netdev that leads to the other end. Everything else passes to the stack, where
 * the proxy keeps its existing connections. */
#include "elb.h"
#include "error.h"
#include "open.h"

/* Returns 1 if a frame is addressed to the host, and stores where it comes from in the work area. Not inlined: the compiler would keep
 * a pointer into the context, which the verifier rejects. */
PCN_GLOBAL int elb_is_for_host(struct CTXTYPE *ctx)
{
	struct elb_work *w = elb_work();
	struct pcn_cursor c;
#ifdef PCN_TC
	__u32 index = ctx->ifindex;
#else
	__u32 index = ctx->ingress_ifindex;
#endif
	struct elb_netdev *in = bpf_map_lookup_elem(&netdevs, &index);

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || !in || !w || pcn_mac(eth->h_dest) != in->mac)
		return 0;
	w->netdev = index;
	w->mac = pcn_mac(eth->h_source);
	return 1;
}

PCN_INGRESS
{
	struct elb_work *w = elb_work();

	if (!w || !elb_is_for_host(ctx))
		return pcn_pkt_pass(ctx, md);
	__builtin_memset(&w->flow, 0, sizeof(w->flow));
	if (pcn_flow_read_inline(ctx, &w->flow) || !(w->flow.has & PCN_FLOW_L4) ||
	    w->flow.vlan != PCN_FLOW_UNTAGGED || w->flow.fragment != PCN_FRAGMENT_NONE)
		return pcn_pkt_pass(ctx, md);
	if (elb_is_error(&w->flow))
		return elb_error(ctx, md);
	if (w->flow.protocol != IPPROTO_TCP || !(w->flow.has & PCN_FLOW_PORTS))
		return pcn_pkt_pass(ctx, md);
	elb_key(&w->key, &w->flow);
	struct pcn_session *e = pcn_session_find(&w->key);
	return e ? elb_known(ctx, md, w, e) : elb_unknown(ctx, md, w);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
