// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sessions: finding, following and translating them. */
#ifndef ELB_SESSION_H
#define ELB_SESSION_H

#include "elb.h"

/* Writes the key of a segment of TCP. */
PCN_INLINE void elb_key(struct pcn_session_key *key, const struct pcn_flow *flow)
{
	pcn_address_copy(key->source, flow->source);
	pcn_address_copy(key->destination, flow->destination);
	key->source_port = flow->source_port;
	key->destination_port = flow->destination_port;
	key->zone = 0;
	key->protocol = IPPROTO_TCP;
	key->ipv6 = !!(flow->has & PCN_FLOW_IPV6);
}

/* Updates both entries when the connection changes state, or its client the next hop. Returns 0. */
PCN_GLOBAL int elb_advance(struct pcn_session *e PCN_NONNULL, __u32 tcp_flags)
{
	struct elb_work *w = elb_work();
	__u32 from = e->flags & PCN_SESSION_REPLY, was = pcn_session_is_active(&e->progress),
	      number = e->server;

	if (!w)
		return 0;
	pcn_session_follow(e, from, tcp_flags);
	if (was && !pcn_session_is_active(&e->progress)) {
		struct elb_server *server = bpf_map_lookup_elem(&servers, &number);

		if (server && server->sessions)
			__sync_fetch_and_add(&server->sessions, -1);
	}
	pcn_session_twin(&w->twin, e);
	struct pcn_session *other = pcn_session_find(&w->twin);
	if (!other)
		return 0;
	pcn_session_follow(other, from, tcp_flags);
	if (!from) {
		e->own[ELB_MAC] = other->own[ELB_MAC] = w->mac;
		e->own[ELB_NETDEV] = other->own[ELB_NETDEV] = w->netdev;
	}
	return 0;
}

/* Counts a packet of a session, and tracks its connection. */
PCN_INLINE void elb_account(const struct pcn_md *md, const struct elb_work *w,
			    struct pcn_session *e)
{
	struct pcn_ct_progress next = e->progress;
	__u32 number = e->server, from = e->flags & PCN_SESSION_REPLY;
	struct elb_counts *counts = bpf_map_lookup_elem(&server_counts, &number);
	__u64 now = pcn_time_coarse();

	if (counts) {
		struct pcn_count *n = from ? &counts->from : &counts->to;

		n->packets++;
		n->bytes += md->packet_len;
	}
	if (e->seen != now)
		e->seen = now;
	pcn_ct_follow(&next, from, IPPROTO_TCP, w->flow.tcp_flags);
	if (__builtin_memcmp(&next, &e->progress, sizeof(next)) ||
	    (!from && (e->own[ELB_MAC] != w->mac || e->own[ELB_NETDEV] != w->netdev)))
		elb_advance(e, w->flow.tcp_flags);
}

/* The byte of the checksum in the header of TCP, and that behind it. */
#define ELB_CHECK 16
#define ELB_TCP 20

/* Rewrites addresses and ports of a segment for its session. -1 if its headers cannot be written. */
PCN_INLINE int elb_rewrite(struct CTXTYPE *ctx, const struct pcn_flow *flow,
			   const struct pcn_session *e, const int v6)
{
	pcn_reach(ctx, flow->l4 + ELB_TCP);
	void *l3 = pcn_header(ctx, flow->l3, v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	struct pcn_ports *ports = pcn_header(ctx, flow->l4, sizeof(*ports));
	__sum16 *check = pcn_header(ctx, flow->l4 + ELB_CHECK, sizeof(*check));

	if (!l3 || !ports || !check)
		return -1;
	pcn_session_write(l3, e->source, e->destination, e->address_delta, v6);
	ports->source = e->source_port;
	ports->destination = e->destination_port;
	pcn_csum_l4(ctx, ports, check, e->address_delta, e->port_delta, v6 ? PCN_CSUM_IPV6 : 0);
	return 0;
}

/* Whether a packet's TTL or hop limit allows forwarding it. */
PCN_INLINE int elb_has_ttl(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	const __u8 *ttl = pcn_header(ctx, flow->l3 + (flow->has & PCN_FLOW_IPV6 ? 7 : 8), 1);

	return ttl && *ttl > 1;
}

/* Sends a translated packet to the server or client of a session. */
PCN_INLINE int elb_send(struct CTXTYPE *ctx, struct pcn_md *md, struct elb_work *w,
			const struct pcn_session *e)
{
	__u32 number = e->server, reply = e->flags & PCN_SESSION_REPLY;
	struct elb_server *server = bpf_map_lookup_elem(&servers, &number);
	__u64 mac = reply ? e->own[ELB_MAC] : server ? server->mac : 0;
	__u32 to = reply ? e->own[ELB_NETDEV] : server ? server->netdev : 0;
	struct elb_netdev *out = bpf_map_lookup_elem(&netdevs, &to);

	if (!out)
		return pcn_pkt_redirect(ctx, md, ELB_NO_WAY);
	__builtin_memcpy(w->frame.dmac, &mac, ETH_ALEN);
	__builtin_memcpy(w->frame.smac, &out->mac, ETH_ALEN);
	if (pcn_hostfib_frame(ctx, &w->frame))
		return pcn_pkt_drop(ctx, md, ELB_MALFORMED);
	if (to == w->netdev)
		return pcn_pkt_reply(ctx, md);
#ifdef PCN_TC
	return pcn_pkt_redirect_netdev(ctx, md, to);
#else
	return pcn_pkt_redirect(ctx, md, out->output);
#endif
}

/* A segment of a session. */
PCN_INLINE int elb_known(struct CTXTYPE *ctx, struct pcn_md *md, struct elb_work *w,
			 struct pcn_session *e)
{
	int failed;

	if (!elb_has_ttl(ctx, &w->flow))
		return pcn_pkt_drop(ctx, md, ELB_TTL);
	elb_account(md, w, e);
	if (w->flow.has & PCN_FLOW_IPV6)
		failed = elb_rewrite(ctx, &w->flow, e, 1);
	else
		failed = elb_rewrite(ctx, &w->flow, e, 0);
	if (failed)
		return pcn_pkt_drop(ctx, md, ELB_MALFORMED);
	return elb_send(ctx, md, w, e);
}

#endif
