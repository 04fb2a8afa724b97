// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* New sessions: finds the service of a packet, chooses a server, and opens the session's two entries. The entry for the
 * server's packets is opened first: the table lets only one CPU insert a key, so no two sessions of a server have the same
 * source. */
#ifndef LBRP_OPEN_H
#define LBRP_OPEN_H

#include "session.h"

/* Results of lbrp_open, apart from the number of an entry and, negative, a reason for a drop. */
#define LBRP_NOT_FOR_US 0
#define LBRP_REFUSED (-1000)
/* Of lbrp_pick: there is a server; and that it was not called. */
#define LBRP_PICKED 1
#define LBRP_NOT_PICKED 2

/* How many source ports are tried towards a server. */
#define LBRP_PORTS 32

/* The service of a packet from a client, NULL if there is none. */
PCN_INLINE struct pcn_service *lbrp_service(const struct pcn_session_key *of)
{
	struct pcn_service_key key = { .port = of->destination_port, .protocol = of->protocol };
	struct pcn_service *service;

	pcn_address_copy(key.address, of->destination);
	service = bpf_map_lookup_elem(&services, &key);
	if (service || !has_ranges || !of->destination_port)
		return service;
	struct lbrp_range_key range = { .prefixlen = LBRP_RANGE_BITS,
					.protocol = of->protocol,
					.port = of->destination_port };
	pcn_address_copy(range.address, of->destination);
	__be16 *first = bpf_map_lookup_elem(&ranges, &range);
	if (!first)
		return NULL;
	key.port = *first;
	return bpf_map_lookup_elem(&services, &key);
}

/* Of two servers by number, the one with fewer active sessions for its weight; `best` may be 0. */
PCN_GLOBAL int lbrp_lesser(__u32 best, __u32 number)
{
	struct lbrp_server *a = bpf_map_lookup_elem(&servers, &number);
	struct lbrp_server *b = bpf_map_lookup_elem(&servers, &best);

	if (!a || !a->service)
		return best;
	if (!best || !b)
		return number;
	return (__u64)a->active * b->weight < (__u64)b->active * a->weight ? number : best;
}

/* The number of the server of a service with the fewest sessions for its weight. */
PCN_GLOBAL int lbrp_least(__u64 pool)
{
	return pcn_balance_least(pool, lbrp_lesser);
}

/* The number of the server that a client of a service with affinity has; 0: none. */
PCN_GLOBAL int lbrp_remembered(__u64 hash, __u32 service, __u32 timeout)
{
	struct lbrp_settings *s = lbrp_settings();
	__u32 number = s ? pcn_pin_get(hash, service, s->now, timeout, 1) : 0;
	struct lbrp_server *server = bpf_map_lookup_elem(&servers, &number);

	return server && server->service == service ? number : 0;
}

/* The number of the server for the packet in the work area, of the service there, which has one of several ways to choose it;
 * 0: it has none. Notes in the work area for how long the client is to keep it. */
PCN_GLOBAL int lbrp_choose(void)
{
	__u32 by = PCN_BALANCE_WITH_DESTINATION | PCN_BALANCE_WITH_PORTS, number = 0;
	struct lbrp_work *w = lbrp_work();

	if (!w || !has_choices)
		return 0;
	w->keeps = 0;
	__u32 id = w->service.id;
	__u64 pool = w->service.pool;
	struct lbrp_service *how = bpf_map_lookup_elem(&service_settings, &id);
	struct lbrp_settings *s = lbrp_settings();

	if (!how || !s)
		return 0;
	if (how->affinity)
		by = PCN_BALANCE_BY_SOURCE;
	__u64 hash = pcn_balance_hash(&w->flow, by);

	if (how->affinity)
		number = lbrp_remembered(hash, id, how->affinity);
	if (number)
		return number;
	if (how->select == LBRP_ROUND_ROBIN)
		number = pcn_balance_turn(pool, __sync_fetch_and_add(&how->turn, 1));
	else if (how->select == LBRP_LEAST_CONNECTIONS)
		number = lbrp_least(pool);
	else
		number = pcn_balance_server(pool, hash);
	w->client = hash;
	w->keeps = how->affinity;
	return number;
}

/* Has the client of a new session keep its server, if its service has affinity. */
PCN_INLINE void lbrp_keep(const struct lbrp_work *w)
{
	struct lbrp_settings *s = lbrp_settings();

	if (s && w->keeps)
		pcn_pin_add(w->client, pcn_pin_word(w->service.id, w->new.server, s->now), s->now,
			    w->keeps);
}

/* Sets the ends that the packet of a new session gets, and the key of the server's packets, and has the table's memory for both
 * fetched. */
PCN_INLINE void lbrp_aim(struct lbrp_work *w, const struct lbrp_service *how,
			 const struct lbrp_settings *s, const struct lbrp_server *to)
{
	struct pcn_session *new = &w->new;
	__be16 port = w->key.destination_port;
	__u32 turns = w->key.zone == LBRP_BACK || pcn_address_same(to->address, w->key.source);

	pcn_address_copy(new->destination, to->address);
	if (to->port && port)
		port = bpf_htons(bpf_ntohs(to->port) + bpf_ntohs(port) - bpf_ntohs(how->first));
	new->destination_port = port;
	pcn_address_copy(new->source, w->key.source);
	new->source_port = w->key.source_port;
	if (turns || how->full_nat)
		pcn_address_copy(new->source, w->key.destination);
	else if (renumbers && !w->key.ipv6 && (w->key.source[3] & s->mask) == s->range)
		new->source[3] = (w->key.source[3] & ~s->mask) | s->new_range;
	new->flags = turns ? LBRP_TURN : 0;
	if ((w->key.zone == LBRP_BACK) == !!turns)
		new->flags |= PCN_SESSION_TWIN_ZONE;
	new->key.protocol = w->key.protocol;
	new->key.ipv6 = w->key.ipv6;
	pcn_session_twin(&w->reply.key, new);
	pcn_session_fetch(&w->key, &w->reply.key);
}

/* Completes both entries of a session that has its ends. */
PCN_INLINE void lbrp_fill(struct lbrp_work *w, const struct lbrp_settings *s)
{
	struct pcn_session *new = &w->new;

	new->key = w->key;
	if (pcn_address_same(new->source, w->key.source))
		new->flags |= LBRP_SAME_SOURCE;
	new->generation = s->generation;
	new->seen = pcn_time_coarse();
	new->created = new->seen / 1000000000;
	new->own[LBRP_PACKETS] = 0;
	new->own[LBRP_BYTES] = 0;
	new->address_delta =
		pcn_session_delta(w->key.source, new->source, w->key.destination, new->destination);
	pcn_session_mirror(new, &w->reply,
			   (new->flags &LBRP_TURN) |
				   (w->key.zone == LBRP_BACK ? PCN_SESSION_TWIN_ZONE : 0));
}

/* Whether an entry for the server's packets is that of the session in the work area. */
PCN_INLINE int lbrp_is_mirror(const struct lbrp_work *w, const struct pcn_session *e)
{
	return e->server == w->new.server && e->source_port == w->key.destination_port &&
	       e->destination_port ==
		       w->key.source_port &&pcn_address_same(e->source, w->key.destination) &&
	       pcn_address_same(e->destination, w->key.source);
}

/* Results of lbrp_try and lbrp_other_port. */
#define LBRP_CLAIMED 0
#define LBRP_THERE 1 /* another CPU has just done that for the same session */
#define LBRP_TAKEN 2

/* Claims the source port towards the server that the session in the work area has, by opening the entry for the server's packets.
 * Returns one of the above, or a negative reason. */
PCN_GLOBAL int lbrp_try(void)
{
	struct lbrp_work *w = lbrp_work();
	struct lbrp_settings *s = lbrp_settings();

	if (!w || !s)
		return -LBRP_TABLE_FULL;
	lbrp_fill(w, s);
	struct pcn_session *e = pcn_session_find(&w->reply.key);
	if (e)
		return lbrp_is_mirror(w, e) ? LBRP_THERE : LBRP_TAKEN;
	int number = pcn_conntrack_open((const void *)&w->reply);
	if (number > 0 && !(number & PCN_CONNTRACK_THERE))
		return LBRP_CLAIMED;
	return number > 0 || number == PCN_CONNTRACK_BUSY ? LBRP_TAKEN : -LBRP_TABLE_FULL;
}

/* Claims another source port than the client's towards the server: LBRP_CLAIMED, LBRP_THERE, or a negative reason. The
 * checksum of SCTP covers the ports, so its port stays. */
PCN_GLOBAL int lbrp_other_port(void)
{
	struct lbrp_work *w = lbrp_work();

	if (!w)
		return -LBRP_TABLE_FULL;
	__u32 random = bpf_get_prandom_u32();
	int result = LBRP_TAKEN;

	for (__u32 i = 1; i < LBRP_PORTS && result == LBRP_TAKEN; i++) {
		pcn_count(&counters, LBRP_PORTS_TAKEN);
		if (w->key.protocol == IPPROTO_SCTP)
			break;
		w->new.source_port = bpf_htons(1024 + (random >> 16) % 64512);
		result = lbrp_try();
		random = random * 1664525 + 1013904223;
	}
	return result == LBRP_TAKEN ? -LBRP_NO_SOURCE : result;
}

/* Whether two keys are equal. */
PCN_INLINE int lbrp_same(const struct pcn_session_key *a, const struct pcn_session_key *b)
{
	__u64 differs = 0;

#pragma unroll
	for (int i = 0; i < 5; i++)
		differs |= pcn_conntrack_word((const void *)a, i) ^
			   pcn_conntrack_word((const void *)b, i);
	return !differs;
}

/* Ends the entry for the server's packets that lbrp_try has opened. */
PCN_INLINE void lbrp_give_back(struct lbrp_work *w)
{
	struct pcn_session *e = pcn_session_find(&w->reply.key);

	if (e && lbrp_is_mirror(w, e))
		pcn_conntrack_end((void *)e);
}

/* Opens the entry for the client's packets, after the other one was claimed, whose result is given. Returns its number, with
 * PCN_CONNTRACK_THERE if another CPU has opened it, or a negative reason. */
PCN_GLOBAL int lbrp_complete(int there)
{
	struct lbrp_work *w = lbrp_work();
	int number;

	if (!w)
		return -LBRP_TABLE_FULL;
	number = pcn_conntrack_open((const void *)&w->new);
	if (number == PCN_CONNTRACK_BUSY) /* what was claimed may be the other CPU's session, too */
		number = pcn_session_await(&w->new.key);
	struct pcn_session *e = (void *)pcn_conntrack_entry(number);
	if (!e) {
		if (!there)
			lbrp_give_back(w);
		return -LBRP_TABLE_FULL;
	}
	if (number & PCN_CONNTRACK_THERE) { /* another CPU was faster */
		pcn_session_twin(&w->twin, e);
		if (!there && !lbrp_same(&w->twin, &w->reply.key))
			lbrp_give_back(w);
		return number;
	}
	/* The other CPU may have given back what it had claimed, as it had no room for its entry. */
	if (there && !pcn_session_find(&w->reply.key) &&
	    pcn_conntrack_open((const void *)&w->reply) <= 0) {
		pcn_conntrack_end((void *)e);
		return -LBRP_TABLE_FULL;
	}
	return number;
}

PCN_INLINE void lbrp_count_opened(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		pcn_count(&counters, LBRP_OPENED_TCP);
		break;
	case IPPROTO_UDP:
		pcn_count(&counters, LBRP_OPENED_UDP);
		break;
	case IPPROTO_SCTP:
		pcn_count(&counters, LBRP_OPENED_SCTP);
		break;
	default:
		pcn_count(&counters, LBRP_OPENED_ICMP);
	}
}

/* Finds the service of the packet in the work area, chooses a server, and aims the session at it.
 * Returns LBRP_PICKED, LBRP_NOT_FOR_US, LBRP_REFUSED, or a negative reason. */
PCN_GLOBAL int lbrp_pick(void)
{
	struct lbrp_work *w = lbrp_work();
	struct lbrp_settings *s = lbrp_settings();

	if (!w || !s)
		return LBRP_NOT_FOR_US;
	struct pcn_service *service = lbrp_service(&w->key);
	if (!service || !service->id)
		return LBRP_NOT_FOR_US;
	w->service = *service;
	__u32 id = w->service.id, number;
	struct lbrp_service *how = bpf_map_lookup_elem(&service_settings, &id);
	if (!how)
		return -LBRP_NO_SERVER;
	__builtin_memset(&w->new.progress, 0, sizeof(w->new.progress));
	if (pcn_ct_follow(&w->new.progress, 0, w->key.protocol, w->flow.tcp_flags) ==
	    PCN_CT_INVALID)
		return -LBRP_NO_SESSION;
	if (has_choices)
		number = lbrp_choose();
	else
		number = pcn_balance_server(
			w->service.pool,
			pcn_balance_hash(&w->flow,
					 PCN_BALANCE_WITH_DESTINATION | PCN_BALANCE_WITH_PORTS));
	struct lbrp_server *server = bpf_map_lookup_elem(&servers, &number);
	if (!number || !server || server->service != id)
		return how->refuse ? LBRP_REFUSED : -LBRP_NO_SERVER;
	w->new.server = number;
	lbrp_aim(w, how, s, server);
	return LBRP_PICKED;
}

/* Opens the session that lbrp_pick has prepared, for a packet whose key has no entry. `picked` is what it returned. Returns the
 * number of the entry, LBRP_NOT_FOR_US, LBRP_REFUSED, or a negative reason. Its steps are not nested, since each needs much of the
 * stack. */
PCN_INLINE int lbrp_open(struct lbrp_work *w, int picked)
{
	if (picked != LBRP_PICKED)
		return picked;
	int result = lbrp_try();

	if (result == LBRP_TAKEN)
		result = lbrp_other_port();
	if (result >= 0)
		result = lbrp_complete(result);
	if (result == -LBRP_TABLE_FULL)
		pcn_count(&counters, LBRP_FULL);
	if (result <= 0 || result & PCN_CONNTRACK_THERE)
		return result;
	__u32 number = w->new.server;
	struct lbrp_server *server = bpf_map_lookup_elem(&servers, &number);

	if (server)
		__sync_fetch_and_add(&server->active, 1);
	if (has_choices)
		lbrp_keep(w);
	lbrp_count_opened(w->key.protocol);
	return result;
}

#endif
