// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* ICMP errors for packets of sessions, such as packet too big: they go to the server or client that sent the packet, quoting
 * that packet as it was sent. */
#ifndef ELB_ERROR_H
#define ELB_ERROR_H

#include "session.h"

/* True for an ICMP error. */
PCN_INLINE int elb_is_error(const struct pcn_flow *flow)
{
	if (!(flow->has & PCN_FLOW_ICMP))
		return 0;
	return flow->has & PCN_FLOW_IPV6 ? pcn_icmp6_is_error(flow->icmp_type)
					 : pcn_icmp_is_error(flow->icmp_type);
}

/* Finds the session of the packet quoted in an ICMP error: the entry for packets in the direction of the error. */
PCN_INLINE struct pcn_session *elb_of_error(struct CTXTYPE *ctx, struct elb_work *w)
{
	struct pcn_session_key *key = &w->key;

	__builtin_memset(&w->inner, 0, sizeof(w->inner));
	pcn_flow_read_inner(ctx, &w->inner, w->flow.l4 + sizeof(struct pcn_icmp),
			    w->flow.ethertype);
	if (!(w->inner.has & PCN_FLOW_PORTS) || w->inner.protocol != IPPROTO_TCP ||
	    w->inner.fragment == PCN_FRAGMENT_LATER)
		return NULL;
	elb_key(key, &w->inner);
	pcn_address_copy(key->source, w->inner.destination);
	pcn_address_copy(key->destination, w->inner.source);
	key->source_port = w->inner.destination_port;
	key->destination_port = w->inner.source_port;
	return pcn_session_find(key);
}

/* Translates the header of TCP in an ICMP error back; returns the difference for the checksum of the error. */
PCN_INLINE __u32 elb_rewrite_inner(struct CTXTYPE *ctx, const struct pcn_flow *inner,
				   const struct pcn_session *e)
{
	struct pcn_ports *ports = pcn_header(ctx, inner->l4, sizeof(*ports));
	__sum16 *check = pcn_header(ctx, inner->l4 + ELB_CHECK, sizeof(*check));

	if (!ports)
		return 0;
	ports->source = e->destination_port;
	ports->destination = e->source_port;
	if (!check) /* RFC 792 only requires 8 bytes */
		return e->port_delta;
	return e->port_delta + pcn_csum_inner(check, (__u32)e->address_delta + e->port_delta, 0);
}

/* Translates an ICMP error for its session. Its source, the router that sent it, is replaced by the end that the receiver
 * knows. -1 if its headers cannot be written. */
PCN_INLINE int elb_rewrite_error(struct CTXTYPE *ctx, struct elb_work *w,
				 const struct pcn_session *e, const int v6)
{
	const __u32 size = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);

	pcn_reach(ctx, w->inner.l4 + ELB_TCP);
	void *l3 = pcn_header(ctx, w->flow.l3, size), *inner = pcn_header(ctx, w->inner.l3, size);
	struct pcn_icmp *icmp = pcn_header(ctx, w->flow.l4, sizeof(*icmp));

	if (!l3 || !inner || !icmp)
		return -1;
	pcn_session_write(inner, e->destination, e->source, e->address_delta, v6);
	__u32 covered = elb_rewrite_inner(ctx, &w->inner, e);
	__u16 delta =
		pcn_session_delta(w->flow.source, e->source, w->flow.destination, e->destination);

	pcn_session_write(l3, e->source, e->destination, delta, v6);
	if (v6) /* IPv4's own checksum inside makes up for the addresses */
		pcn_csum_l4(ctx, icmp, &icmp->check, delta, covered + e->address_delta,
			    PCN_CSUM_IPV6);
	else
		icmp->check = pcn_csum_add(icmp->check, covered);
	return 0;
}

/* The same for either IP version. A separate function, since its caller needs the BPF stack to read the quoted packet. */
PCN_GLOBAL int elb_translate_error(struct CTXTYPE *ctx, const struct pcn_session *e PCN_NONNULL)
{
	struct elb_work *w = elb_work();

	if (!w)
		return -1;
	if (w->flow.has & PCN_FLOW_IPV6)
		return elb_rewrite_error(ctx, w, e, 1);
	return elb_rewrite_error(ctx, w, e, 0);
}

/* Handles an ICMP error. One for a packet of no session passes to the stack. */
PCN_GLOBAL int elb_error(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	struct elb_work *w = elb_work();

	if (!w)
		return pcn_pkt_pass(ctx, md);
	struct pcn_session *e = elb_of_error(ctx, w);
	if (!e)
		return pcn_pkt_pass(ctx, md);
	if (!elb_has_ttl(ctx, &w->flow))
		return pcn_pkt_drop(ctx, md, ELB_TTL);
	if (elb_translate_error(ctx, e))
		return pcn_pkt_drop(ctx, md, ELB_MALFORMED);
	pcn_count(&counters, ELB_ERRORS);
	return elb_send(ctx, md, w, e);
}

#endif
