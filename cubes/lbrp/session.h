// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sessions: finding them, following them, and ending them when their server is gone. */
#ifndef LBRP_SESSION_H
#define LBRP_SESSION_H

#include "lbrp.h"

/* The entry with a key, NULL if there is none. */
PCN_INLINE struct lbrp_session *lbrp_find(const struct lbrp_key *key)
{
	return (void *)pcn_conntrack_entry(pcn_conntrack_find((const void *)key));
}

/* The key of a packet of the flow w->flow that comes in at a side. -1 if it has none, and is of no service. */
PCN_INLINE int lbrp_key(struct lbrp_key *key, const struct pcn_flow *flow, __u32 side)
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

/* Writes the key of the other entry of a session. */
PCN_INLINE void lbrp_twin(struct lbrp_key *twin, const struct lbrp_session *e)
{
	pcn_address_copy(twin->source, e->destination);
	pcn_address_copy(twin->destination, e->source);
	twin->source_port = e->destination_port;
	twin->destination_port = e->source_port;
	twin->zone = !!(e->flags & LBRP_TWIN_BACK);
	twin->protocol = e->key.protocol;
	twin->ipv6 = e->key.ipv6;
}

/* Ends a session: both of its entries. Returns 0. */
PCN_GLOBAL int lbrp_end(struct lbrp_session *e PCN_NONNULL)
{
	struct lbrp_work *w = lbrp_work();

	if (w) {
		lbrp_twin(&w->twin, e);
		struct lbrp_session *other = lbrp_find(&w->twin);
		if (other)
			pcn_conntrack_end((void *)other);
	}
	pcn_conntrack_end((void *)e);
	return 0;
}

/* Whether a session that was opened before the servers changed may go on. If not, it has ended. */
PCN_INLINE int lbrp_is_valid(struct lbrp_session *e, const struct lbrp_settings *s)
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

/* A connection of TCP that is closing or closed is not one of the server's active ones. */
PCN_INLINE int lbrp_is_active(const struct pcn_ct_progress *p)
{
	return p->state < PCN_CT_LAST_ACK;
}

/* A packet of the client, or of the server (LBRP_REPLY), changes the state of an entry. Returns 0 if another CPU changes it
 * at the same time. In each program, the verifier processes it once. */
PCN_GLOBAL int lbrp_follow(struct lbrp_session *e PCN_NONNULL, __u32 from, __u32 tcp_flags)
{
	union {
		__u32 word;
		struct pcn_ct_progress progress;
	} is, next;

	is.word = next.word = *(volatile __u32 *)&e->progress;
	pcn_ct_follow(&next.progress, from, e->key.protocol, tcp_flags);
	return next.word == is.word ||
	       __sync_val_compare_and_swap((__u32 *)&e->progress, is.word, next.word) == is.word;
}

/* How often a packet tries to change a state. */
#define LBRP_TRIES 4

/* The connection changes its state, in both entries. Returns 0. */
PCN_GLOBAL int lbrp_advance(struct lbrp_session *e PCN_NONNULL, __u32 tcp_flags)
{
	struct lbrp_work *w = lbrp_work();
	__u32 from = e->flags & LBRP_REPLY, was = lbrp_is_active(&e->progress), number = e->server;

	if (!w)
		return 0;
	for (int i = 0; i < LBRP_TRIES && !lbrp_follow(e, from, tcp_flags); i++)
		;
	if (was && !lbrp_is_active(&e->progress)) {
		struct lbrp_server *server = bpf_map_lookup_elem(&servers, &number);

		if (server && server->active)
			__sync_fetch_and_add(&server->active, -1);
	}
	lbrp_twin(&w->twin, e);
	struct lbrp_session *other = lbrp_find(&w->twin);
	for (int i = 0; other && i < LBRP_TRIES && !lbrp_follow(other, from, tcp_flags); i++)
		;
	return 0;
}

/* Counts a packet of a session. */
PCN_INLINE void lbrp_account(const struct pcn_md *md, struct lbrp_session *e,
			     const struct pcn_flow *flow)
{
	struct pcn_ct_progress next = e->progress;
	__u32 number = e->server, bytes = md->packet_len;
	struct lbrp_counts *counts = bpf_map_lookup_elem(&server_counts, &number);
	__u64 now = pcn_time_coarse();

	if (counts) {
		struct pcn_count *n = e->flags & LBRP_REPLY ? &counts->from : &counts->to;

		n->packets++;
		n->bytes += bytes;
	}
	e->packets++;
	e->bytes += bytes;
	if (e->seen != now)
		e->seen = now;
	pcn_ct_follow(&next, e->flags & LBRP_REPLY, e->key.protocol, flow->tcp_flags);
	if (__builtin_memcmp(&next, &e->progress, sizeof(next)))
		lbrp_advance(e, flow->tcp_flags);
}

#endif
