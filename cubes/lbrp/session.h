// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sessions: finding them, following them, and ending them when their server is gone. */
#ifndef LBRP_SESSION_H
#define LBRP_SESSION_H

#include "lbrp.h"

/* The key of a packet of the flow w->flow that comes in at a side. -1 if it has none, and is of no service. */
PCN_INLINE int lbrp_key(struct pcn_session_key *key, const struct pcn_flow *flow, __u32 side)
{
	__u8 ipv6 = !!(flow->has & PCN_FLOW_IPV6), protocol = flow->protocol;
	__be16 from = flow->source_port, to = flow->destination_port;

	if (protocol == (ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
		__u8 request = ipv6 ? 128 : 8, reply = ipv6 ? 129 : 0;

		if (!(flow->has & PCN_FLOW_ICMP) ||
		    (flow->icmp_type != request && flow->icmp_type != reply))
			return -1;
		if (flow->icmp_type == request)
			to = 0;
		else
			from = 0;
	} else if (!(flow->has & PCN_FLOW_PORTS)) {
		return -1;
	}
	pcn_address_copy(key->source, flow->source);
	pcn_address_copy(key->destination, flow->destination);
	key->source_port = from;
	key->destination_port = to;
	key->zone = side;
	key->protocol = protocol;
	key->ipv6 = ipv6;
	return 0;
}

/* Ends a session: both of its entries. Returns 0. */
PCN_GLOBAL int lbrp_end(struct pcn_session *e PCN_NONNULL)
{
	struct lbrp_work *w = lbrp_work();

	if (w) {
		pcn_session_twin(&w->twin, e);
		struct pcn_session *other = pcn_session_find(&w->twin);
		if (other)
			pcn_conntrack_end((void *)other);
	}
	pcn_conntrack_end((void *)e);
	return 0;
}

/* Whether a session that was opened before the servers changed may go on. If not, it has ended. */
PCN_INLINE int lbrp_is_valid(struct pcn_session *e, const struct lbrp_settings *s)
{
	__u32 number = e->server, generation = s->generation;

	if (e->generation == generation)
		return 1;
	struct lbrp_server *server = bpf_map_lookup_elem(&servers, &number);
	if (!server || !server->service) {
		lbrp_end(e);
		return 0;
	}
	e->generation = generation;
	return 1;
}

/* The connection changes its state, in both entries. Returns 0. */
PCN_GLOBAL int lbrp_advance(struct pcn_session *e PCN_NONNULL, __u32 tcp_flags)
{
	struct lbrp_work *w = lbrp_work();
	__u32 from = e->flags & PCN_SESSION_REPLY, was = pcn_session_is_active(&e->progress),
	      number = e->server;

	if (!w)
		return 0;
	pcn_session_follow(e, from, tcp_flags);
	if (was && !pcn_session_is_active(&e->progress)) {
		struct lbrp_server *server = bpf_map_lookup_elem(&servers, &number);

		if (server && server->active)
			__sync_fetch_and_add(&server->active, -1);
	}
	pcn_session_twin(&w->twin, e);
	struct pcn_session *other = pcn_session_find(&w->twin);
	if (other)
		pcn_session_follow(other, from, tcp_flags);
	return 0;
}

/* Counts a packet of a session. */
PCN_INLINE void lbrp_account(const struct pcn_md *md, struct pcn_session *e,
			     const struct pcn_flow *flow)
{
	struct pcn_ct_progress next = e->progress;
	__u32 number = e->server, bytes = md->packet_len;
	struct lbrp_counts *counts = bpf_map_lookup_elem(&server_counts, &number);
	__u64 now = pcn_time_coarse();

	if (counts) {
		struct pcn_count *n = e->flags & PCN_SESSION_REPLY ? &counts->from : &counts->to;

		n->packets++;
		n->bytes += bytes;
	}
	e->own[LBRP_PACKETS]++;
	e->own[LBRP_BYTES] += bytes;
	if (e->seen != now)
		e->seen = now;
	pcn_ct_follow(&next, e->flags & PCN_SESSION_REPLY, e->key.protocol, flow->tcp_flags);
	if (__builtin_memcmp(&next, &e->progress, sizeof(next)))
		lbrp_advance(e, flow->tcp_flags);
}

#endif
