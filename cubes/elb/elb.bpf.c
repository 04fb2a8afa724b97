// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A fast path for TCP services that a proxy of the host has: new connections get a server, their segments are translated at
 * both ends, and leave by the netdev where they came in. Everything else passes to the stack, where the proxy has the
 * connections that it had. */
#include "elb.h"
#include "error.h"
#include "open.h"

/* Returns 1 if a frame is for the host, and stores its source address in the work area. It is not inlined: the compiler would keep
 * a pointer into the context, which the verifier refuses. */
PCN_GLOBAL int elb_is_for_host(struct CTXTYPE *ctx)
{
	struct elb_settings *s = elb_settings();
	struct elb_work *w = elb_work();
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || !s || !w || !s->mac || pcn_mac(eth->h_dest) != s->mac)
		return 0;
	w->mac = pcn_mac(eth->h_source);
	return 1;
}

PCN_INGRESS
{
	struct elb_settings *s = elb_settings();
	struct elb_work *w = elb_work();

	if (!s || !w || !elb_is_for_host(ctx))
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
	return e ? elb_known(ctx, md, w, e, s) : elb_unknown(ctx, md, w, s);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
