// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Connection tracking: the state of a connection after a packet, from the state before it. These
 * functions read nothing but their arguments, so they work with any table of connections. The same
 * functions in Go are in package conntrack.
 *
 * TCP follows RFC 9293. A connection is two half connections; a SYN and its acknowledgement open
 * each, a FIN and its acknowledgement close it. Segments are checked against the windows that both
 * sides advertised, as in "Real Stateful TCP Packet Filtering in IP Filter" (van Rooij, 2000), with
 * window scaling (RFC 7323). Selective acknowledgements are not looked at: they allow nothing that
 * the others do not.
 *
 * The windows decide what a segment does; <pcn/conntrack_progress.h>, which says what the sides of a
 * connection are, goes from there to the state.
 *
 * A state of zeros is no connection. To track a packet, copy the entry's state, or zeros if there is
 * none, and call the function of the protocol. If the packet is INVALID, nothing has changed and
 * there is nothing to insert. If it is NEW, ask the rules, and write the state back only if they
 * accept it.
 *
 * Except for a SYN and for a picked up connection, a packet changes only the side that sent it and
 * the eight bytes from `state` on, which seldom change: two directions on two CPUs do not overwrite
 * each other's windows if the caller writes back no more than that, and the eight bytes by compare
 * and swap. A lost update of a side is repaired by its next packet, since its members only grow. */
#ifndef PCN_CONNTRACK_STATE_H
#define PCN_CONNTRACK_STATE_H

#include <pcn/conntrack_progress.h>

/* Options of pcn_ct_tcp. */
#define PCN_CT_LIBERAL 0x100 /* segments outside of the windows are valid, except RST */
#define PCN_CT_PICK_UP 0x200 /* connections that were open before are tracked from any ACK on */
#define PCN_CT_RETRANS 0xff  /* the number of retransmissions; 0: they are not counted */

/* A TCP segment, in host byte order. */
struct pcn_ct_segment {
	__u32 seq;
	__u32 ack;
	__u32 length; /* of the payload */
	__u16 window; /* as in the header */
	__u8 flags;
	__u8 scale; /* the window scale option; PCN_CT_NO_SCALE: none */
};

/* The scale of a segment without a window scale option. */
#define PCN_CT_NO_SCALE 0xff

/* What one side of a connection has sent. */
struct pcn_ct_side {
	__u32 end;    /* sequence number after its data */
	__u32 ack;    /* its highest acknowledgement */
	__u32 limit;  /* highest sequence number that it accepts: acknowledgement + window */
	__u32 window; /* its largest window, in bytes, at least 1 */
};

/* The state of a connection. */
struct pcn_ct_state {
	struct pcn_ct_side side[2];
	__u32 syn;	  /* sequence number of the SYN that opened, or is pending */
	__u16 syn_window; /* its window */
	__u8 syn_scale;	  /* its option */
	__u8 pad;
	__u8 state; /* these, and flags: of struct pcn_ct_progress */
	__u8 steps;
	__u8 timeout;
	__u8 cap;      /* another timeout that limits it, or 0 */
	__u8 scale[2]; /* of the sides' windows */
	__u8 retrans;  /* retransmissions since the last new acknowledgement */
	__u8 flags;
};

/* Internal: a is after b. */
PCN_INLINE int pcn_ct_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/* Internal: *highest is at least value. */
PCN_INLINE void pcn_ct_raise(__u32 *highest, __u32 value)
{
	if (pcn_ct_after(value, *highest))
		*highest = value;
}

/* Internal: how far the connection has got. */
PCN_INLINE struct pcn_ct_progress pcn_ct_progress_of(const struct pcn_ct_state *s)
{
	return (struct pcn_ct_progress){ s->state, s->steps, s->timeout, s->flags };
}

/* Internal: stores it. */
PCN_INLINE void pcn_ct_store_progress(struct pcn_ct_state *s, struct pcn_ct_progress c)
{
	s->state = c.state;
	s->steps = c.steps;
	s->timeout = c.timeout;
	s->flags = c.flags;
}

/* Internal: results of the functions below for a segment that does nothing but what they have done: its class. Others
 * are what pcn_ct_proceed takes. */
#define PCN_CT_ONLY(class) (0x1000 | (class))

/* Internal: the timeout that limits the one of the state. */
PCN_INLINE __u32 pcn_ct_cap(const struct pcn_ct_state *s, __u32 options)
{
	__u32 most = options & PCN_CT_RETRANS;

	if (most && s->retrans >= most)
		return PCN_CT_TIMEOUT_MAX_RETRANS;
	if (s->state > PCN_CT_SYN_RECV && (pcn_ct_after(s->side[0].end, s->side[1].ack) ||
					   pcn_ct_after(s->side[1].end, s->side[0].ack)))
		return PCN_CT_TIMEOUT_UNACKNOWLEDGED;
	return PCN_CT_TIMEOUT_NONE;
}

/* Internal: a retransmission was sent. */
PCN_INLINE void pcn_ct_retransmitted(struct pcn_ct_state *s)
{
	if (s->retrans < 0xff)
		s->retrans++;
}

/* Internal: a connection begins with a SYN. */
PCN_INLINE void pcn_ct_begin(struct pcn_ct_state *s, __u32 from, __u32 seq, __u32 end, __u16 window,
			     __u8 scale)
{
	struct pcn_ct_side *me;

	__builtin_memset(s, 0, sizeof(*s));
	me = &s->side[from];
	me->end = end;
	me->window = window ?: 1;
	s->syn = seq;
	s->syn_window = window;
	s->syn_scale = scale;
	s->flags = from ? PCN_CT_OPENER | PCN_CT_SYN_SIDE : 0;
	s->steps = PCN_CT_SENT_SYN << from;
	s->state = PCN_CT_SYN_SENT;
}

/* Internal: the other side's first SYN, which may acknowledge the opener's. */
PCN_INLINE __u32 pcn_ct_join(struct pcn_ct_state *s, __u32 from, const struct pcn_ct_segment *p)
{
	struct pcn_ct_side *me = &s->side[from], *peer = &s->side[!from];
	__u32 acked = p->flags & PCN_CT_ACK;

	me->end = p->seq + 1 + p->length;
	me->window = p->window ?: 1;
	me->ack = acked ? p->ack : s->syn;
	me->limit = (acked ? p->ack : peer->end) + me->window;
	peer->ack = p->seq;
	peer->limit = p->seq + 1 + peer->window;
	if (p->scale != PCN_CT_NO_SCALE && s->syn_scale != PCN_CT_NO_SCALE) {
		s->scale[from] = p->scale < 14 ? p->scale : 14;
		s->scale[!from] = s->syn_scale < 14 ? s->syn_scale : 14;
	}
	s->retrans = 0;
	return PCN_CT_SENT_SYN | (acked ? PCN_CT_SYN_ACKED : 0);
}

/* Internal: a SYN without ACK. One that belongs to no handshake is the next connection of the same
 * ends: at once if this one is over, otherwise if the other side acknowledges it. Meanwhile this one
 * continues: the sender may have forged it, or the other side may refuse it (RFC 9293, 3.5.1). */
PCN_INLINE __u32 pcn_ct_syn(struct pcn_ct_state *s, __u32 from, const struct pcn_ct_segment *p)
{
	struct pcn_ct_side *me = &s->side[from];
	__u32 end = p->seq + 1 + p->length, opener = s->flags & PCN_CT_OPENER;
	__u32 same = p->seq == s->syn && from == !!(s->flags & PCN_CT_SYN_SIDE) &&
		     !(s->flags & PCN_CT_PENDING);
	__u32 known = s->state != PCN_CT_NONE && s->state < PCN_CT_TIME_WAIT;

	if (s->state == PCN_CT_SYN_SENT && from != opener)
		return pcn_ct_join(s, from, p);
	if (known && (same || (s->state < PCN_CT_OPEN && from != opener && end == me->end))) {
		pcn_ct_retransmitted(s); /* by either side */
	} else if (s->state == PCN_CT_NONE || s->state == PCN_CT_SYN_SENT ||
		   s->state == PCN_CT_CLOSE ||
		   (s->state == PCN_CT_TIME_WAIT && !pcn_ct_after(me->end, p->seq))) {
		pcn_ct_begin(s, from, p->seq, end, p->window, p->scale);
	} else {
		s->syn = p->seq;
		s->syn_window = p->window;
		s->syn_scale = p->scale;
		s->flags &= ~PCN_CT_SYN_SIDE;
		s->flags |= PCN_CT_PENDING | (from ? PCN_CT_SYN_SIDE : 0);
		return PCN_CT_ONLY(PCN_CT_NEW);
	}
	return 0;
}

/* Internal: the first segment seen of a connection that was open before. Nothing is known about the
 * other side's window and about the scales, so the windows are the largest possible. */
PCN_INLINE __u32 pcn_ct_pick_up(struct pcn_ct_state *s, __u32 from, const struct pcn_ct_segment *p,
				__u32 options)
{
	struct pcn_ct_side *me = &s->side[from], *peer = &s->side[!from];

	if (!(options & PCN_CT_PICK_UP) || (p->flags & (PCN_CT_SYN | PCN_CT_RST | PCN_CT_FIN)))
		return PCN_CT_ONLY(PCN_CT_INVALID);
	me->end = p->seq + p->length;
	me->ack = p->ack;
	me->window = (__u32)p->window << 14 ?: 1;
	me->limit = p->ack + me->window;
	peer->end = p->ack;
	peer->ack = p->seq;
	peer->window = 1 << 30;
	peer->limit = p->seq + peer->window;
	s->scale[0] = 14;
	s->scale[1] = 14;
	s->steps = PCN_CT_SYN_ACKED << from;
	return PCN_CT_SYN_ACKED;
}

/* Internal: the peer of a SYN_SENT connection, or the opener, sends something that is not a SYN. */
PCN_INLINE __u32 pcn_ct_before_reply(struct pcn_ct_state *s, __u32 from,
				     const struct pcn_ct_segment *p)
{
	__u32 opener = s->flags & PCN_CT_OPENER, syn_ack = PCN_CT_SYN | PCN_CT_ACK;
	__u32 answers = (p->flags & PCN_CT_ACK) && p->ack != s->syn &&
			p->ack - s->syn <= s->side[opener].end - s->syn;

	/* The opener refuses an answer from an earlier connection, or gives up. */
	if (from == opener && p->flags & PCN_CT_RST)
		return p->seq == s->side[from].end ? PCN_CT_RESETS : 0;
	if (from != opener && answers && p->flags & PCN_CT_RST)
		return PCN_CT_RESETS;
	if (from != opener && answers && (p->flags & syn_ack) == syn_ack)
		return pcn_ct_join(s, from, p);
	if (from == opener || p->flags & (PCN_CT_SYN | PCN_CT_FIN | PCN_CT_RST))
		return PCN_CT_ONLY(PCN_CT_INVALID);
	/* An answer from an earlier connection: the opener refuses it with an RST. */
	return PCN_CT_ONLY(PCN_CT_ESTABLISHED);
}

/* Internal: the segment fits the windows: it begins where the other side allows, which cuts the rest
 * off (RFC 9293, 3.10.7.4), and acknowledges nothing that the other side has not sent. */
PCN_INLINE int pcn_ct_fits(const struct pcn_ct_side *peer, __u32 seq, __u32 ack)
{
	return !pcn_ct_after(seq, peer->limit) && !pcn_ct_after(ack, peer->end);
}

/* Internal: the segment is older than the windows, or its acknowledgement by more than the window:
 * a duplicate that was long on its way. */
PCN_INLINE int pcn_ct_late(const struct pcn_ct_side *me, const struct pcn_ct_side *peer, __u32 seq,
			   __u32 ack)
{
	__u32 most = me->window > 66000 ? me->window : 66000; /* van Rooij */

	return pcn_ct_after(me->end - peer->window, seq) || pcn_ct_after(peer->end - most, ack);
}

/* Internal: an RST. It closes the connection if the receiver expects exactly this sequence number,
 * or if it follows what was sent. Others within the window make the receiver ask (RFC 9293, 3.10.7.4;
 * RFC 5961). What it acknowledges, if it does, must have been sent. */
PCN_INLINE __u32 pcn_ct_rst(const struct pcn_ct_state *s, __u32 from,
			    const struct pcn_ct_segment *p)
{
	__u32 seq = p->seq;
	const struct pcn_ct_side *me = &s->side[from], *peer = &s->side[!from];

	if ((p->flags & PCN_CT_ACK) && pcn_ct_after(p->ack, peer->end))
		return PCN_CT_ONLY(PCN_CT_INVALID);
	if (seq == peer->ack || seq == me->end)
		return PCN_CT_RESETS;
	if (pcn_ct_after(peer->ack, seq) || pcn_ct_after(seq, peer->limit))
		return PCN_CT_ONLY(PCN_CT_INVALID);
	return 0;
}

/* Internal: what a valid segment opens, acknowledges and closes. A FIN is the end of the data: it is
 * forgotten if data follows, since somebody else may have sent it. If segments outside of the windows
 * are valid, it is not known where the data ends. */
PCN_INLINE __u32 pcn_ct_advance(struct pcn_ct_state *s, __u32 from, const struct pcn_ct_segment *p,
				__u32 end, __u32 liberal)
{
	struct pcn_ct_side *me = &s->side[from], *peer = &s->side[!from];
	__u32 window = p->flags & PCN_CT_SYN ? p->window : (__u32)p->window << s->scale[from];
	__u32 does = 0;

	if (pcn_ct_after(p->ack, me->ack)) {
		does |= PCN_CT_SYN_ACKED;
		s->retrans = 0;
		me->ack = p->ack;
	}
	if (pcn_ct_after(end, me->end)) {
		if (!liberal)
			does |= PCN_CT_RESUMES;
		me->end = end;
	} else if (end != p->seq && pcn_ct_after(me->end, peer->ack)) {
		pcn_ct_retransmitted(s);
	}
	window = window ?: 1; /* a probe of a closed window */
	pcn_ct_raise(&me->limit, p->ack + window);
	if (window > me->window)
		me->window = window;
	if ((p->flags & PCN_CT_FIN) && (end == me->end || liberal))
		does |= PCN_CT_SENT_FIN;
	if ((s->steps & (PCN_CT_SENT_FIN << !from)) && !pcn_ct_after(peer->end, me->ack))
		does |= PCN_CT_FIN_ACKED;
	return does;
}

/* Internal: RFC 9293 knows these combinations of SYN, FIN, RST and ACK only. */
PCN_INLINE int pcn_ct_flags_valid(__u32 flags)
{
	flags &= PCN_CT_SYN | PCN_CT_FIN | PCN_CT_RST | PCN_CT_ACK;
	return flags == PCN_CT_SYN || flags == PCN_CT_RST || flags == PCN_CT_ACK ||
	       flags == (PCN_CT_SYN | PCN_CT_ACK) || flags == (PCN_CT_RST | PCN_CT_ACK) ||
	       flags == (PCN_CT_FIN | PCN_CT_ACK);
}

/* Internal: applies a segment to the windows, and returns what it does, or PCN_CT_ONLY its class. */
PCN_INLINE __u32 pcn_ct_judge(struct pcn_ct_state *s, __u32 from, const struct pcn_ct_segment *p,
			      __u32 options)
{
	const __u32 syn_ack = PCN_CT_SYN | PCN_CT_ACK;
	__u32 end = p->seq + p->length + !!(p->flags & PCN_CT_SYN) + !!(p->flags & PCN_CT_FIN);
	__u32 liberal = options & PCN_CT_LIBERAL;

	if (!pcn_ct_flags_valid(p->flags))
		return PCN_CT_ONLY(PCN_CT_INVALID);
	if ((p->flags & syn_ack) == PCN_CT_SYN)
		return pcn_ct_syn(s, from, p);
	if (s->state == PCN_CT_NONE)
		return pcn_ct_pick_up(s, from, p, options);
	if ((p->flags & syn_ack) == syn_ack && (s->flags & PCN_CT_PENDING) &&
	    from != !!(s->flags & PCN_CT_SYN_SIDE) && p->ack == s->syn + 1)
		pcn_ct_begin(s, !from, s->syn, s->syn + 1, s->syn_window, s->syn_scale);
	if (!(s->steps & (PCN_CT_SENT_SYN << !(s->flags & PCN_CT_OPENER))))
		return pcn_ct_before_reply(s, from, p);
	if (p->flags & PCN_CT_RST)
		return pcn_ct_rst(s, from, p);
	if (!liberal && !pcn_ct_fits(&s->side[!from], p->seq, p->ack))
		return PCN_CT_ONLY(PCN_CT_INVALID);
	if (!liberal && pcn_ct_late(&s->side[from], &s->side[!from], p->seq, p->ack))
		return 0;
	return pcn_ct_advance(s, from, p, end, liberal);
}

/* Changes the state of a TCP connection by a segment of the side `from`, 0 or 1, and returns its
 * class. options: PCN_CT_LIBERAL, PCN_CT_PICK_UP, and the number of retransmissions after which
 * PCN_CT_TIMEOUT_MAX_RETRANS limits the timeout. */
PCN_INLINE __u32 pcn_ct_tcp(struct pcn_ct_state *s, __u32 from, const struct pcn_ct_segment *p,
			    __u32 options)
{
	__u32 does = pcn_ct_judge(s, from & 1, p, options), class;
	struct pcn_ct_progress c = pcn_ct_progress_of(s);

	if (does & PCN_CT_ONLY(0))
		return does & ~PCN_CT_ONLY(0);
	class = pcn_ct_proceed(&c, from & 1, does);
	pcn_ct_store_progress(s, c);
	s->cap = pcn_ct_cap(s, options);
	return class;
}

/* Internal: a packet of another protocol. */
PCN_INLINE __u32 pcn_ct_datagram(struct pcn_ct_state *s, __u32 from, __u32 timeout, __u32 replied)
{
	struct pcn_ct_progress c = pcn_ct_progress_of(s);
	__u32 class = pcn_ct_packet(&c, from & 1, timeout, replied);

	pcn_ct_store_progress(s, c);
	return class;
}

/* Changes the state of a UDP session by a packet of the side `from`, and returns its class. */
PCN_INLINE __u32 pcn_ct_udp(struct pcn_ct_state *s, __u32 from)
{
	return pcn_ct_datagram(s, from, PCN_CT_TIMEOUT_UDP, PCN_CT_TIMEOUT_UDP_STREAM);
}

/* The same for an ICMP query: a request or the reply to one. Requests open sessions, so the key must
 * separate requests from replies: with the id as the port of the side that asks, and the type of the
 * request as that of the other. */
PCN_INLINE __u32 pcn_ct_icmp(struct pcn_ct_state *s, __u32 from, __u32 request)
{
	from &= 1;
	if (s->state == PCN_CT_NONE ? !request : !request == (from == (s->flags & PCN_CT_OPENER)))
		return PCN_CT_INVALID;
	return pcn_ct_datagram(s, from, PCN_CT_TIMEOUT_ICMP, PCN_CT_TIMEOUT_ICMP);
}

/* The same for all other protocols. */
PCN_INLINE __u32 pcn_ct_other(struct pcn_ct_state *s, __u32 from)
{
	return pcn_ct_datagram(s, from, PCN_CT_TIMEOUT_OTHER, PCN_CT_TIMEOUT_OTHER);
}

/* The time after which a connection without packets has ended, from the timeouts by name, in their
 * unit; 0: never. */
PCN_INLINE __u32 pcn_ct_timeout(const struct pcn_ct_state *s, const __u32 timeouts[PCN_CT_TIMEOUTS])
{
	__u32 timeout, cap;

	if (s->timeout >= PCN_CT_TIMEOUTS || s->cap >= PCN_CT_TIMEOUTS)
		return 0;
	timeout = timeouts[s->timeout];
	cap = s->cap ? timeouts[s->cap] : 0;
	return cap && (!timeout || cap < timeout) ? cap : timeout;
}

#endif
