// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What a packet is to the connections in the table of <pcn/conntrack.h>, and what the answer of the rules
 * means for them: a stateful cube in three calls. They read the packet for <pcn/conntrack_state.h>, and write
 * states so that packets on other CPUs are not lost (docs/adr/0048-connection-table.md).
 *
 *	struct pcn_conntrack_work *w = pcn_conntrack_begin();
 *
 *	if (!w || pcn_flow_read(ctx, &w->flow))
 *		return pcn_pkt_drop(ctx, md, X_TRUNCATED);
 *	int class = pcn_conntrack_track(ctx, w, zone, 0);
 *	if (class == PCN_CT_INVALID)
 *		return pcn_pkt_drop(ctx, md, w->refusal ? X_NO_ENTRY : X_INVALID);
 *	if (pcn_conntrack_known(w) && w->accepted)
 *		return pcn_pkt_pass(ctx, md);
 *	if (... the rules refuse the packet ...) {
 *		pcn_conntrack_refuse(w);
 *		return pcn_pkt_drop(ctx, md, X_NO_RULE);
 *	}
 *	if (pcn_conntrack_accept(w) < 0)
 *		return pcn_pkt_drop(ctx, md, X_NO_ENTRY);
 *	return pcn_pkt_pass(ctx, md); */
#ifndef PCN_CONNTRACK_PACKET_H
#define PCN_CONNTRACK_PACKET_H

#include <linux/tcp.h>
#include <linux/udp.h>
#include <pcn/conntrack_fragment.h>

/* Internal: TCP options; kinds of RFC 9293 and RFC 7323. */
#define PCN_CT_OPTIONS 40
#define PCN_CT_OPTION_END 0
#define PCN_CT_OPTION_NOP 1
#define PCN_CT_OPTION_SCALE 3

PCN_MAP_SHARED(conntrack, ct_work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_conntrack_work, 1);

/* Returns the memory for this packet; its flow is zeros. It is valid until the packet leaves the cube. NULL only as far
 * as the verifier knows. */
PCN_INLINE struct pcn_conntrack_work *pcn_conntrack_begin(void)
{
	__u32 only = 0;
	struct pcn_conntrack_work *w = bpf_map_lookup_elem(&ct_work, &only);

	if (w)
		__builtin_memset(&w->flow, 0, sizeof(w->flow));
	return w;
}

/* Internal: the window scale option of a SYN, whose options begin at byte `at` and take `length` bytes. */
PCN_INLINE __u8 pcn_ct_scale(struct CTXTYPE *ctx, __u32 at, __u32 length)
{
	__u32 end = at + length;
	__u8 option[3];

	/* All options take two bytes or more, but for the NOPs that align them. */
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_CT_OPTIONS / 2 && at + sizeof(option) <= end; i++) {
		if (pcn_load_bytes(ctx, at, option, sizeof(option)) ||
		    option[0] == PCN_CT_OPTION_END)
			break;
		if (option[0] == PCN_CT_OPTION_SCALE && option[1] == sizeof(option))
			return option[2];
		if (option[0] != PCN_CT_OPTION_NOP && option[1] < 2)
			break;
		at += option[0] == PCN_CT_OPTION_NOP ? 1 : option[1];
	}
	return PCN_CT_NO_SCALE;
}

/* Internal: reads the segment of a packet; -1 if its TCP header is incomplete. */
PCN_GLOBAL int pcn_ct_read_segment(struct CTXTYPE *ctx, struct pcn_conntrack_work *w PCN_NONNULL)
{
	__u32 at = w->flow.l4, ipv6 = w->flow.has & PCN_FLOW_IPV6, ip = w->flow.l3;
	__u32 begin = ipv6 ? ip + sizeof(struct ipv6hdr) : ip, field = ip + (ipv6 ? 4 : 2);
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__be16 length, *there_length = data + (field & 0x3ff);
	struct tcphdr tcp, *there_tcp = data + (at & 0x3ff);

	if ((void *)(there_tcp + 1) <= end && (void *)(there_length + 1) <= end) {
		tcp = *there_tcp;
		length = *there_length;
	} else if (pcn_load_bytes(ctx, at, &tcp, sizeof(tcp)) ||
		   pcn_load_bytes(ctx, field, &length, sizeof(length))) {
		return -1;
	}
	__u32 header = tcp.doff * 4, there = begin + bpf_ntohs(length) - at;
	if (header < sizeof(tcp) || header > there)
		return -1;
	w->segment.seq = bpf_ntohl(tcp.seq);
	w->segment.ack = bpf_ntohl(tcp.ack_seq);
	w->segment.length = there - header;
	w->header = header;
	w->segment.window = bpf_ntohs(tcp.window);
	w->segment.flags = w->flow.tcp_flags;
	w->segment.scale = PCN_CT_NO_SCALE;
	if (w->flow.tcp_flags & PCN_CT_SYN)
		w->segment.scale = pcn_ct_scale(ctx, at + sizeof(tcp), header - sizeof(tcp));
	return 0;
}

/* Internal: applies the packet to w->next, and returns its class. */
PCN_GLOBAL int pcn_ct_step(struct pcn_conntrack_work *w PCN_NONNULL, __u32 side, __u32 options)
{
	__u8 protocol = w->flow.protocol, ipv6 = !!(w->flow.has & PCN_FLOW_IPV6);
	__u8 type = w->flow.icmp_type;

	if (protocol == IPPROTO_TCP)
		return pcn_ct_tcp(&w->next, side, &w->segment, options);
	if (protocol == (ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
		return pcn_ct_icmp(&w->next, side, ipv6 ? !(type & 1) : type == 8 || (type & 1));
	if (protocol == IPPROTO_UDP)
		return pcn_ct_udp(&w->next, side);
	return pcn_ct_other(&w->next, side);
}

/* Internal: the eight bytes of a state that packets of both directions change, and the words before. */
#define PCN_CT_SHARED 5
#define PCN_CT_SYN_WORD 4

_Static_assert(__builtin_offsetof(struct pcn_ct_state, state) == PCN_CT_SHARED * 8 &&
		       __builtin_offsetof(struct pcn_ct_state, syn) == PCN_CT_SYN_WORD * 8 &&
		       sizeof(struct pcn_ct_state) == 48,
	       "a side is two words, and the shared members are the last one");

/* Internal: stores w->next. 0 if a packet on another CPU has changed the state since it was read. */
PCN_INLINE int pcn_ct_store(struct pcn_conntrack_work *w, struct pcn_conntrack_entry *e)
{
	__u64 *state = (void *)&e->state, *next = (void *)&w->next, now = pcn_time_coarse();
	__u32 mine = (w->side & 1) * 2, other = 2 - mine;

	if (next[PCN_CT_SHARED] != w->was &&
	    __sync_val_compare_and_swap(&state[PCN_CT_SHARED], w->was, next[PCN_CT_SHARED]) !=
		    w->was)
		return 0;
	if (e->seen != now)
		e->seen = now;
	if (w->flow.protocol != IPPROTO_TCP)
		return 1;
	state[mine] = next[mine];
	state[mine + 1] = next[mine + 1];
	if (w->segment.flags & PCN_CT_SYN || w->class == PCN_CT_NEW) {
		/* A handshake sets the other side, too. */
		state[other] = next[other];
		state[other + 1] = next[other + 1];
		state[PCN_CT_SYN_WORD] = next[PCN_CT_SYN_WORD];
	}
	return 1;
}

/* Internal: the connection is half open: of TCP, its handshake is incomplete, or refused. */
PCN_INLINE int pcn_ct_is_half_open(const struct pcn_ct_state *s)
{
	return s->state == PCN_CT_UNREPLIED || s->state == PCN_CT_CLOSE ||
	       (s->state >= PCN_CT_SYN_SENT && s->state < PCN_CT_OPEN);
}

/* Internal: moves the half-open connection to the large table. Returns 0 if that refuses it. */
PCN_INLINE int pcn_ct_move(struct pcn_conntrack_work *w)
{
	int number = pcn_conntrack_open(&w->fresh);

	if (number > 0)
		pcn_embryo_leave(w, PCN_EMBRYO_MOVED);
	else if (number != PCN_CONNTRACK_BUSY)
		w->refusal = number;
	return !w->refusal;
}

/* Internal: takes the packet into account in its connection, which has an entry in the large table or is the half-open
 * one that w->fresh is a copy of. 0 if a packet on another CPU has changed it meanwhile, and it is to be done
 * again; also when the connection has moved to the large table. */
PCN_INLINE int pcn_ct_take(struct pcn_conntrack_work *w, struct pcn_conntrack_entry *e,
			   __u32 options)
{
	w->next = e ? e->state : w->fresh.state;
	w->was = ((__u64 *)&w->next)[PCN_CT_SHARED];
	w->class = pcn_ct_step(w, w->side, options);
	if (w->class != PCN_CT_ESTABLISHED)
		return 1;
	if (e)
		return pcn_ct_store(w, e);
	if (pcn_ct_is_half_open(&w->next)) {
		w->fresh.state = w->next;
		return pcn_embryo_update(w);
	}
	if (pcn_ct_move(w))
		return 0;
	w->class = PCN_CT_INVALID;
	return 1;
}

/* Internal: finds the connection of a key, in either table, and classifies the packet. While a connection moves, it
 * may be in neither for those who look into the large table too early: so they look again. Returns the
 * connection's entry in the large table, if there is one. */
PCN_INLINE struct pcn_conntrack_entry *pcn_ct_apply(struct pcn_conntrack_work *w, __u32 error,
						    __u32 options)
{
	struct pcn_conntrack_entry *e = NULL;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++) {
		w->change = w->embryo;
		w->embryo = 0;
		w->number = pcn_conntrack_find(&w->fresh.key);
		e = pcn_conntrack_entry(w->number);
		if (!e) {
			int embryo = pcn_embryo_find(w);

			if (embryo == PCN_EMBRYO_BUSY || (embryo == PCN_EMBRYO_MOVED && !i))
				continue;
		}
		if (error) {
			w->class = e || w->embryo ? PCN_CT_RELATED : PCN_CT_INVALID;
			break;
		}
		if (pcn_ct_take(w, e, options))
			break;
	}
	return e;
}

/* Internal: true for an ICMP error, which contains the beginning of another packet. */
PCN_INLINE int pcn_ct_is_error(const struct pcn_flow *f)
{
	if (!(f->has & PCN_FLOW_ICMP))
		return 0;
	return f->has & PCN_FLOW_IPV6 ? pcn_icmp6_is_error(f->icmp_type)
				      : pcn_icmp_is_error(f->icmp_type);
}

/* Internal: the class of a packet without a key: what cannot have one is UNTRACKED, but a packet that lacks what
 * it should have is INVALID. */
PCN_INLINE int pcn_ct_keyless(const struct pcn_flow *f)
{
	if (f->ethertype != bpf_htons(ETH_P_IP) && f->ethertype != bpf_htons(ETH_P_IPV6))
		return PCN_CT_UNTRACKED;
	if (!(f->has & PCN_FLOW_L4))
		return PCN_CT_INVALID;
	return f->fragment == PCN_FRAGMENT_LATER || f->has & PCN_FLOW_ICMP ? PCN_CT_UNTRACKED
									   : PCN_CT_INVALID;
}

/* Internal: reads the packet in an ICMP error. -1 if the error is not for the sender of that. */
PCN_INLINE int pcn_ct_read_inner(struct CTXTYPE *ctx, struct pcn_conntrack_work *w)
{
	__u64 *to = (void *)w->flow.destination, *sender = (void *)w->inner.source;

	__builtin_memset(&w->inner, 0, sizeof(w->inner));
	pcn_flow_read_inner(ctx, &w->inner, w->flow.l4 + sizeof(struct pcn_icmp),
			    w->flow.ethertype);
	return to[0] == sender[0] && to[1] == sender[1] ? 0 : -1;
}

/* Returns the class of the packet that w->flow was read from, an enum pcn_ct_class, and sets the members of w up
 * to `accepted`. An ICMP error is RELATED to the connection of the packet that caused it. A later fragment is
 * ESTABLISHED if its first one came before it and belongs to a connection. UNTRACKED are other later fragments, other
 * ICMP, and what is not IP. If the packet is ESTABLISHED, the state of its connection has
 * changed; if it is NEW, pcn_conntrack_accept changes or opens it. options are those of pcn_ct_tcp. With
 * all that it calls and pcn_conntrack_accept, verified once: 28,000 instructions on Linux 6.18. */
PCN_GLOBAL int pcn_conntrack_track(struct CTXTYPE *ctx, struct pcn_conntrack_work *w PCN_NONNULL,
				   __u32 zone, __u32 options)
{
	int later = w->flow.fragment == PCN_FRAGMENT_LATER;
	int error = !later && pcn_ct_is_error(&w->flow), side = -1;
	struct pcn_conntrack_entry *e;

	w->number = 0;
	w->refusal = 0;
	w->embryo = 0;
	w->reply = 0;
	w->accepted = 0;
	w->class = PCN_CT_INVALID;
	w->segment.seq = 0;
	w->header = 0;
	w->segment.flags = 0;
	if (later)
		side = w->flow.has & PCN_FLOW_L4 ? pcn_ct_recall_fragment(ctx, w, zone) : -1;
	else if (!error || !pcn_ct_read_inner(ctx, w))
		side = pcn_conntrack_key(&w->fresh.key, error ? &w->inner : &w->flow, zone);
	if (side < 0) {
		w->class = error ? PCN_CT_INVALID : pcn_ct_keyless(&w->flow);
		return w->class;
	}
	w->side = (side ^ error) & 1; /* an error goes the other way */
	w->generation = pcn_conntrack_generation(zone);
	if (!error && !later && w->flow.protocol == IPPROTO_TCP &&
	    (!(w->flow.has & PCN_FLOW_TCP) || pcn_ct_read_segment(ctx, w)))
		return PCN_CT_INVALID;
	if (!error && !later && w->flow.protocol == IPPROTO_UDP &&
	    w->flow.l4 + sizeof(struct udphdr) > pcn_frame_len(ctx))
		return PCN_CT_INVALID;
	e = pcn_ct_apply(w, error | later, options);
	if (e || w->embryo) {
		w->reply = w->side != ((e ? e->state.flags : w->fresh.state.flags) & PCN_CT_OPENER);
		w->accepted = (e ? e->generation : w->fresh.generation) == w->generation;
	}
	if (later) {
		w->class = w->class == PCN_CT_RELATED ? PCN_CT_ESTABLISHED : PCN_CT_UNTRACKED;
		if (e)
			pcn_ct_extend(w, e);
	} else if (w->flow.fragment && w->class == PCN_CT_ESTABLISHED) {
		pcn_ct_note_fragment(w);
	}
	return w->class;
}

/* True if the packet is ESTABLISHED or RELATED. */
PCN_INLINE int pcn_conntrack_known(const struct pcn_conntrack_work *w)
{
	return w->class == PCN_CT_ESTABLISHED || w->class == PCN_CT_RELATED;
}

/* The rules accept the packet: opens the connection of one that is NEW, half open until there is a reply, or of TCP
 * until the handshake is complete; and records that the rules of this generation accept the connection of one
 * that is ESTABLISHED. Returns 0, or a negative enum pcn_conntrack_refusal if there is no entry for it. */
PCN_GLOBAL int pcn_conntrack_accept(struct pcn_conntrack_work *w PCN_NONNULL)
{
	struct pcn_conntrack_entry *e = pcn_conntrack_entry(w->number);

	if ((w->class != PCN_CT_NEW && w->class != PCN_CT_ESTABLISHED) ||
	    w->flow.fragment == PCN_FRAGMENT_LATER)
		return 0;
	if (w->flow.fragment)
		pcn_ct_note_fragment(w);
	if (e) {
		if (w->class == PCN_CT_NEW)
			pcn_ct_store(w, e); /* else its retransmission will */
		e->generation = w->generation;
		return 0;
	}
	w->fresh.state = w->next;
	w->fresh.generation = w->generation;
	if (w->embryo) {
		__u32 ticket = w->embryo >> 8;

		e = pcn_embryo_of(w);
		/* If a packet on another CPU changes it now, it stays as that leaves it. */
		if (pcn_embryo_update(w) || (e && pcn_embryo_status(e) >> 8 == ticket))
			return 0;
	}
	w->fresh.seen = pcn_time_coarse();
	return pcn_embryo_open(w);
}

/* The rules refuse the packet: ends the connection of one that is ESTABLISHED, since they accept it no longer. One
 * that is NEW has changed nothing: whoever forges a SYN ends no connection. Nor does a later fragment, which has no
 * ports that rules could match. */
PCN_INLINE void pcn_conntrack_refuse(struct pcn_conntrack_work *w)
{
	struct pcn_conntrack_entry *e = pcn_conntrack_entry(w->number);

	if (w->class != PCN_CT_ESTABLISHED || w->flow.fragment == PCN_FRAGMENT_LATER)
		return;
	if (e)
		pcn_conntrack_end(e);
	else
		pcn_embryo_leave(w, PCN_EMBRYO_DEAD);
}

#endif
