// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* New sessions: a SYN for a service opens one, unless the host has that connection. The entry for the server's packets is
 * inserted first: the table lets only one CPU insert a key, so no two sessions of a server have the same source. */
#ifndef ELB_OPEN_H
#define ELB_OPEN_H

#include "session.h"

/* Results of the steps, apart from 0. */
#define ELB_TO_STACK (-1) /* with the counter that says why */
#define ELB_THERE 1	  /* another CPU has just opened the session */

/* How many source ports are tried towards a server. */
#define ELB_PORTS 32

/* The bits of the TCP header that identify a SYN: of FIN, SYN, RST and ACK, only SYN is set. */
#define ELB_OPENING 0x17
#define ELB_SYN 0x02

/* Of two servers by number, the one with fewer sessions for its weight; `best` may be 0. */
PCN_GLOBAL int elb_lesser(__u32 best, __u32 number)
{
	struct elb_server *a = bpf_map_lookup_elem(&servers, &number);
	struct elb_server *b = bpf_map_lookup_elem(&servers, &best);

	if (!a || !a->weight)
		return best;
	if (!best || !b)
		return number;
	return (__u64)a->sessions * b->weight < (__u64)b->sessions * a->weight ? number : best;
}

/* The number of the server in a table with the fewest sessions for its weight. */
PCN_GLOBAL int elb_least(__u64 pool)
{
	return pcn_balance_least(pool, elb_lesser);
}

/* The number of the server for the packet in the work area, of the service there; 0: it has none. */
PCN_GLOBAL int elb_choose(void)
{
	struct elb_work *w = elb_work();

	if (!w)
		return 0;
	__u32 id = w->service.id;
	__u64 pool = w->service.pool;
	struct elb_service *how = bpf_map_lookup_elem(&service_settings, &id);

	if (!how)
		return 0;
	if (how->select == ELB_ROUND_ROBIN)
		return pcn_balance_turn(pool, __sync_fetch_and_add(&how->turn, 1));
	if (how->select == ELB_LEAST_CONNECTIONS)
		return elb_least(pool);
	return pcn_balance_server(pool, pcn_balance_hash(&w->flow, PCN_BALANCE_WITH_DESTINATION |
									   PCN_BALANCE_WITH_PORTS));
}

/* Whether packets can be forwarded between the ingress netdev of the packet in the work area and that of its server. If not, counts why. */
PCN_GLOBAL int elb_is_connected(void)
{
	struct elb_work *w = elb_work();

	if (!w)
		return 0;
	if (w->server.netdev == w->netdev)
		return 1;
	struct elb_netdev *in = bpf_map_lookup_elem(&netdevs, &w->netdev);
	struct elb_netdev *out = bpf_map_lookup_elem(&netdevs, &w->server.netdev);

	if (!in || !out || in->output == ELB_NO_WAY || out->output == ELB_NO_WAY) {
		pcn_count(&counters, ELB_NO_OUTPUT);
		return 0;
	}
	if (in->mtu != out->mtu) {
		pcn_count(&counters, ELB_MTU);
		return 0;
	}
	return 1;
}

/* Sets the translated addresses and ports of the client's packets, except for the source port. Returns 0, or ELB_TO_STACK. */
PCN_GLOBAL int elb_aim(__u32 number)
{
	struct elb_work *w = elb_work();

	if (!w)
		return ELB_TO_STACK;
	struct elb_server *server = bpf_map_lookup_elem(&servers, &number);
	struct pcn_session *new = &w->new;

	if (!number || !server || !server->mac) {
		pcn_count(&counters, ELB_NO_SERVER);
		return ELB_TO_STACK;
	}
	w->server = *server;
	if (!elb_is_connected())
		return ELB_TO_STACK;
	new->key = w->key;
	__builtin_memset(&new->progress, 0, sizeof(new->progress));
	pcn_ct_follow(&new->progress, 0, IPPROTO_TCP, w->flow.tcp_flags);
	pcn_address_copy(new->source, w->server.source);
	pcn_address_copy(new->destination, w->server.address);
	new->destination_port = w->server.port;
	new->server = number;
	new->seen = pcn_time_coarse();
	new->created = new->seen / 1000000000;
	new->own[ELB_MAC] = w->mac;
	new->own[ELB_NETDEV] = w->netdev;
	new->flags = 0;
	new->address_delta =
		pcn_session_delta(w->key.source, new->source, w->key.destination, new->destination);
	return 0;
}

/* Tries to claim a source port towards the server. 0 if it is claimed, 1 if it is in use, or ELB_TO_STACK. */
PCN_GLOBAL int elb_try(__u32 port)
{
	struct elb_work *w = elb_work();

	if (!w)
		return ELB_TO_STACK;
	w->new.source_port = bpf_htons(port);
	pcn_session_mirror(&w->new, &w->reply, 0);
	/* An entry that loses against another one is only freed by a sweep: a flood would fill the table with such entries. */
	if (pcn_session_find(&w->reply.key))
		return 1;
	int number = pcn_conntrack_open((const void *)&w->reply);
	if (number > 0)
		return !!(number & PCN_CONNTRACK_THERE);
	return number == PCN_CONNTRACK_BUSY ? 1 : ELB_TO_STACK;
}

/* Claims a source port towards a server: 0 or ELB_TO_STACK. The first one tried is that whose turn it is, so that a port rests as long
 * as it can: the server may still be in TIME_WAIT for its last connection. The others are random: open sessions may have all
 * that come next. */
PCN_GLOBAL int elb_claim(__u32 number)
{
	struct elb_settings *s = elb_settings();
	struct elb_server *server = bpf_map_lookup_elem(&servers, &number);
	int result = 1;

	if (!s || !s->ports || !server)
		return ELB_TO_STACK;
	__u32 at = __sync_fetch_and_add(&server->turn, 1), random = bpf_get_prandom_u32();
	for (__u32 i = 0; i < ELB_PORTS && result == 1; i++) {
		result = elb_try((__u16)(s->first + at % s->ports));
		at = random >> 16;
		random = random * 1664525 + 1013904223;
	}
	if (result)
		pcn_count(&counters, result == 1 ? ELB_NO_PORT : ELB_FULL);
	return result ? ELB_TO_STACK : 0;
}

/* Opens the entry for the client's packets, after elb_claim. Returns 0, ELB_THERE, or ELB_TO_STACK. */
PCN_GLOBAL int elb_complete(void)
{
	struct elb_work *w = elb_work();

	if (!w)
		return ELB_TO_STACK;
	int number = pcn_conntrack_open((const void *)&w->new);
	if (number == PCN_CONNTRACK_BUSY)
		number = pcn_session_await(&w->new.key);
	if (number > 0 && !(number & PCN_CONNTRACK_THERE))
		return 0;
	struct pcn_session *e = pcn_session_find(&w->reply.key);
	if (e) /* it is this CPU's: no other CPU could claim the port */
		pcn_conntrack_end((void *)e);
	if (number > 0)
		return ELB_THERE;
	pcn_count(&counters, ELB_FULL);
	return ELB_TO_STACK;
}

/* Whether the host has the connection of the packet in the work area: accepted, being opened, or just ended. Its segments
 * pass to the stack, which may also reuse it. */
PCN_INLINE int elb_host_has(struct CTXTYPE *ctx, struct elb_work *w)
{
	struct bpf_sock_tuple *t = &w->tuple;
	struct bpf_sock *sk;
	int has;

	if (w->key.ipv6) {
		pcn_address_copy(t->ipv6.saddr, w->key.source);
		pcn_address_copy(t->ipv6.daddr, w->key.destination);
		t->ipv6.sport = w->key.source_port;
		t->ipv6.dport = w->key.destination_port;
		sk = bpf_skc_lookup_tcp(ctx, t, sizeof(t->ipv6), BPF_F_CURRENT_NETNS, 0);
	} else {
		t->ipv4.saddr = w->key.source[3];
		t->ipv4.daddr = w->key.destination[3];
		t->ipv4.sport = w->key.source_port;
		t->ipv4.dport = w->key.destination_port;
		sk = bpf_skc_lookup_tcp(ctx, t, sizeof(t->ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	if (!sk)
		return 0;
	has = sk->state != BPF_TCP_LISTEN;
	bpf_sk_release(sk);
	return has;
}

/* Finds the service of the packet in the work area. 1 if there is one. */
PCN_INLINE int elb_is_for_service(struct elb_work *w)
{
	struct pcn_service_key key = { .port = w->key.destination_port, .protocol = IPPROTO_TCP };
	struct pcn_service *service;

	pcn_address_copy(key.address, w->key.destination);
	service = bpf_map_lookup_elem(&services, &key);
	if (!service || !service->id)
		return 0;
	w->service = *service;
	return 1;
}

/* A segment without a session: a SYN for a service opens one; anything else passes to the stack. The steps are not nested,
 * since each needs much of the BPF stack. */
PCN_INLINE int elb_unknown(struct CTXTYPE *ctx, struct pcn_md *md, struct elb_work *w)
{
	if ((w->flow.tcp_flags & ELB_OPENING) != ELB_SYN || !elb_is_for_service(w) ||
	    !elb_has_ttl(ctx, &w->flow))
		return pcn_pkt_pass(ctx, md);
	if (md->notes & PCN_MD_UNDECIDED) {
		pcn_count(&counters, ELB_UNDECIDED);
		return pcn_pkt_pass(ctx, md);
	}
	if (elb_host_has(ctx, w)) {
		pcn_count(&counters, ELB_CONNECTED);
		return pcn_pkt_pass(ctx, md);
	}
	int result = elb_aim(elb_choose());
	if (!result)
		result = elb_claim(w->new.server);
	if (!result)
		result = elb_complete();
	struct pcn_session *e = result < 0 ? NULL : pcn_session_find(&w->key);
	if (!e)
		return pcn_pkt_pass(ctx, md);
	if (result == ELB_THERE)
		return elb_known(ctx, md, w, e);
	__u32 number = e->server;
	struct elb_server *server = bpf_map_lookup_elem(&servers, &number);
	struct elb_counts *counts = bpf_map_lookup_elem(&server_counts, &number);

	if (server)
		__sync_fetch_and_add(&server->sessions, 1);
	if (counts)
		counts->opened++;
	pcn_count(&counters, ELB_OPENED);
	return elb_known(ctx, md, w, e);
}

#endif
