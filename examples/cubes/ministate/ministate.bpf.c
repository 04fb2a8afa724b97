// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A stateful firewall for a port or a netdev: what goes out may go out, and its replies may come in; what
 * else comes in needs a rule. */
#include <pcn/cube.h>
#include <pcn/classify.h>
#include <pcn/conntrack_packet.h>

enum ministate_reason {
	MINISTATE_TRUNCATED = PCN_REASON_FIRST, /* shorter than its Ethernet header */
	MINISTATE_INVALID,			/* fits no connection, and opens none */
	MINISTATE_NO_RULE,			/* comes in, is no reply, and no rule accepts it */
	MINISTATE_NO_ENTRY,			/* no memory for another connection */
};
PCN_REASONS(ministate_reason);

/* Judges a packet, `in` if it comes in. Each cube has its own zone in the table of connections. */
PCN_INLINE int judge(struct CTXTYPE *ctx, struct pcn_md *md, const int in)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();
	struct pcn_classify_match match;

	if (!w || pcn_flow_read(ctx, &w->flow))
		return pcn_pkt_drop(ctx, md, MINISTATE_TRUNCATED);
	int class = pcn_conntrack_track(ctx, w, pcn_instance(md), 0);
	if (class == PCN_CT_INVALID)
		return pcn_pkt_drop(ctx, md, w->refusal ? MINISTATE_NO_ENTRY : MINISTATE_INVALID);
	if (class == PCN_CT_UNTRACKED && !(w->flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md); /* ARP, for example */
	if (pcn_conntrack_known(w) && (!in || w->reply || w->accepted))
		return pcn_pkt_pass(ctx, md);
	if (in && pcn_classify_packet(ctx, md, &match, pcn_classify_set(md, 0)) <= 0) {
		pcn_conntrack_refuse(w);
		return pcn_pkt_drop(ctx, md, MINISTATE_NO_RULE);
	}
	if (pcn_conntrack_accept(w) < 0)
		return pcn_pkt_drop(ctx, md, MINISTATE_NO_ENTRY);
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return judge(ctx, md, 1);
}

PCN_EGRESS
{
	return judge(ctx, md, 0);
}

PCN_LICENSE;
