// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A load balancer that packets pass in both directions: those for a service get the address of one of its servers, and
 * those of the server the address of the service. All others cross it as they are, like a wire. A packet of a session costs
 * one lookup; open.h opens sessions, other.h has ICMP errors and fragments. */
#include "lbrp.h"
#include "open.h"
#include "other.h"
#include "translate.h"

/* A packet for a service without servers: the control plane answers it, within a limit. */
PCN_INLINE int lbrp_refuse(struct CTXTYPE *ctx, struct pcn_md *md, const struct lbrp_settings *s)
{
	__u32 only = 0;
	__u64 *bucket = bpf_map_lookup_elem(&limited, &only);

	if (!bucket || !pcn_bucket_take(bucket, &s->refusals, 1, pcn_time_coarse()))
		return pcn_pkt_drop(ctx, md, LBRP_REFUSE_LIMIT);
	return pcn_pkt_controller(ctx, md, LBRP_REFUSE);
}

/* Whether a packet is probably the first of its session: a SYN is, and a client's packet after another one of this CPU that was. */
PCN_INLINE int lbrp_expects_new(const struct lbrp_work *w)
{
	if (w->key.zone != LBRP_FRONT)
		return 0;
	if (w->key.protocol == IPPROTO_TCP)
		return (w->flow.tcp_flags & (PCN_CT_SYN | PCN_CT_ACK)) == PCN_CT_SYN;
	return w->opened;
}

/* An IP packet of which all headers are known. */
PCN_INLINE int lbrp_packet(struct CTXTYPE *ctx, struct pcn_md *md, struct lbrp_work *w,
			   const struct lbrp_settings *s, __u32 side)
{
	const struct pcn_flow *flow = &w->flow;
	int picked = LBRP_NOT_PICKED;

	if (lbrp_key(&w->key, flow, side))
		return lbrp_foreign(ctx, md, w, s, side);
	/* The server is chosen first, so that the processor fetches what it takes to find the session and to open it at once. */
	if (!has_choices && lbrp_expects_new(w))
		picked = lbrp_pick();
	struct pcn_session *e = pcn_session_find(&w->key);
	__u32 opens = !e || !lbrp_is_valid(e, s);

	if (side == LBRP_FRONT && w->opened != opens)
		w->opened = opens;
	if (opens) {
		int number = lbrp_open(w, picked == LBRP_NOT_PICKED ? lbrp_pick() : picked);

		if (number == LBRP_NOT_FOR_US)
			return lbrp_foreign(ctx, md, w, s, side);
		if (number == LBRP_REFUSED)
			return lbrp_refuse(ctx, md, s);
		e = (void *)pcn_conntrack_entry(number);
		if (!e)
			return pcn_pkt_drop(ctx, md, -number);
	}
	return lbrp_known(ctx, md, flow, e, s, side);
}

/* True for an ICMP error. */
PCN_INLINE int lbrp_is_error(const struct pcn_flow *flow)
{
	if (!(flow->has & PCN_FLOW_ICMP))
		return 0;
	return flow->has & PCN_FLOW_IPV6 ? pcn_icmp6_is_error(flow->icmp_type)
					 : pcn_icmp_is_error(flow->icmp_type);
}

PCN_INGRESS
{
	__u32 index = md->in_port;
	struct lbrp_port *port = bpf_map_lookup_elem(&ports, &index);
	struct lbrp_settings *s = lbrp_settings();
	struct lbrp_work *w = lbrp_work();

	if (!port || !s || !w)
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	__u32 side = port->side == LBRP_BACK + 1 ? LBRP_BACK : LBRP_FRONT;

	__builtin_memset(&w->flow, 0, sizeof(w->flow));
	if (pcn_flow_read_inline(ctx, &w->flow))
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	if (!(w->flow.has & PCN_FLOW_IP))
		return lbrp_foreign(ctx, md, w, s, side);
	if (!(w->flow.has & PCN_FLOW_L4))
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	if (w->flow.fragment == PCN_FRAGMENT_LATER)
		return lbrp_later(ctx, md, side);
	if (lbrp_is_error(&w->flow))
		return lbrp_error(ctx, md, side);
	return lbrp_packet(ctx, md, w, s, side);
}

PCN_LICENSE;
