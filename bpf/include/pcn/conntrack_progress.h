// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Connection tracking: how far a connection has got, in four bytes: which sides have sent a SYN, FIN or RST, and
 * whether it was acknowledged. <pcn/conntrack_state.h> decides by sequence numbers and windows which of these
 * a segment does. A table without room for windows, such as the nat's, calls pcn_ct_follow, which goes by the flags
 * alone. The same functions in Go are in package conntrack.
 *
 * The sides of a connection are 0 and 1, in any order that is the same for all of its packets: with
 * the ends of the key sorted, one entry serves both directions. The state says which side opened. A state of
 * zeros is no connection. */
#ifndef PCN_CONNTRACK_PROGRESS_H
#define PCN_CONNTRACK_PROGRESS_H

#include <linux/in.h>
#include <linux/in6.h>
#include <pcn/ctx.h>

/* What a packet is to its connection. The caller decides on the last two. */
enum pcn_ct_class {
	PCN_CT_INVALID,	    /* belongs to no connection, and opens none */
	PCN_CT_NEW,	    /* opens a connection, or repeats that before a reply */
	PCN_CT_ESTABLISHED, /* a reply, or after a reply */
	PCN_CT_RELATED,	    /* an ICMP error about a packet of a connection */
	PCN_CT_UNTRACKED,   /* has no connection: ARP, neighbour discovery, later fragments */
};

/* The states of a connection. */
enum pcn_ct_state_name {
	PCN_CT_NONE,
	PCN_CT_UNREPLIED, /* not TCP: packets of one side only */
	PCN_CT_REPLIED,	  /* not TCP: packets of both sides */
	PCN_CT_SYN_SENT,
	PCN_CT_SYN_SENT2,  /* simultaneous open: both sides sent a SYN */
	PCN_CT_SYN_RECV,   /* one of two SYNs is acknowledged */
	PCN_CT_OPEN,	   /* both SYNs are acknowledged, or the connection was picked up */
	PCN_CT_FIN_WAIT,   /* one side sent a FIN */
	PCN_CT_CLOSE_WAIT, /* it is acknowledged */
	PCN_CT_LAST_ACK,   /* both sides sent a FIN */
	PCN_CT_TIME_WAIT,  /* both are acknowledged */
	PCN_CT_CLOSE,	   /* reset */
	PCN_CT_STATES,
};

/* How long a connection without packets is kept. Those of TCP states have the order of the states. */
enum pcn_ct_timeout_name {
	PCN_CT_TIMEOUT_NONE, /* no limit */
	PCN_CT_TIMEOUT_UDP,
	PCN_CT_TIMEOUT_UDP_STREAM, /* after a reply */
	PCN_CT_TIMEOUT_ICMP,
	PCN_CT_TIMEOUT_OTHER,
	PCN_CT_TIMEOUT_SYN_SENT, /* of SYN_SENT2, too */
	PCN_CT_TIMEOUT_SYN_RECV,
	PCN_CT_TIMEOUT_ESTABLISHED,
	PCN_CT_TIMEOUT_FIN_WAIT,
	PCN_CT_TIMEOUT_CLOSE_WAIT,
	PCN_CT_TIMEOUT_LAST_ACK,
	PCN_CT_TIMEOUT_TIME_WAIT,
	PCN_CT_TIMEOUT_CLOSE,
	PCN_CT_TIMEOUT_UNACKNOWLEDGED, /* at most, while data is not acknowledged */
	PCN_CT_TIMEOUT_MAX_RETRANS,    /* at most, after as many retransmissions as are set */
	PCN_CT_TIMEOUTS,
};

/* TCP flags, as in the header. */
#define PCN_CT_FIN 0x01
#define PCN_CT_SYN 0x02
#define PCN_CT_RST 0x04
#define PCN_CT_ACK 0x10

/* How far a connection has got. */
struct pcn_ct_progress {
	__u8 state;   /* enum pcn_ct_state_name */
	__u8 steps;   /* PCN_CT_SENT_SYN ... */
	__u8 timeout; /* enum pcn_ct_timeout_name */
	__u8 flags;   /* PCN_CT_OPENER ... */
};

/* Internal: members of flags. Those of a SYN are for <pcn/conntrack_state.h>. */
#define PCN_CT_OPENER 0x01     /* the side that opened the connection */
#define PCN_CT_SEEN_REPLY 0x02 /* the other side has sent a packet */
#define PCN_CT_PENDING 0x04  /* syn is a SYN within a connection: the next one, if it is answered */
#define PCN_CT_SYN_SIDE 0x08 /* the side that sent syn */
#define PCN_CT_RESET 0x10    /* side 0 has sent an RST; shifted by one: side 1 */

/* Internal: members of steps, of side 0; shifted by one for side 1. */
#define PCN_CT_SENT_SYN 0x01
#define PCN_CT_SYN_ACKED 0x04
#define PCN_CT_SENT_FIN 0x10
#define PCN_CT_FIN_ACKED 0x40

/* Internal: what a segment does: its side sends a SYN or FIN, acknowledges that of the other side (PCN_CT_SENT_SYN
 * and the other members of steps), or one of these. */
#define PCN_CT_RESUMES 0x100 /* sends data after its FIN */
#define PCN_CT_RESETS 0x200

/* Internal: the class of a valid packet. */
PCN_INLINE __u32 pcn_ct_valid(struct pcn_ct_progress *c, __u32 from)
{
	if ((c->flags & PCN_CT_OPENER) != from)
		c->flags |= PCN_CT_SEEN_REPLY;
	return c->flags & PCN_CT_SEEN_REPLY ? PCN_CT_ESTABLISHED : PCN_CT_NEW;
}

/* Internal: the state of a TCP connection that the steps lead to. */
PCN_INLINE __u32 pcn_ct_tcp_state(__u32 steps, __u32 flags)
{
	const __u32 fins = PCN_CT_SENT_FIN * 3, syns = PCN_CT_SENT_SYN * 3;
	const __u32 fins_acked = PCN_CT_FIN_ACKED * 3, syns_acked = PCN_CT_SYN_ACKED * 3;

	if (flags & (PCN_CT_RESET * 3))
		return PCN_CT_CLOSE;
	if ((steps & fins) == fins)
		return (steps & fins_acked) == fins_acked ? PCN_CT_TIME_WAIT : PCN_CT_LAST_ACK;
	if (steps & fins)
		return steps & fins_acked ? PCN_CT_CLOSE_WAIT : PCN_CT_FIN_WAIT;
	if ((steps & syns) != syns)
		return PCN_CT_SYN_SENT;
	if ((steps & syns_acked) == syns_acked)
		return PCN_CT_OPEN;
	return steps & syns_acked ? PCN_CT_SYN_RECV : PCN_CT_SYN_SENT2;
}

/* Internal: a TCP segment of a side does what `does` says. Returns its class. A side that acknowledges a SYN has sent
 * its own. */
PCN_INLINE __u32 pcn_ct_proceed(struct pcn_ct_progress *c, __u32 from, __u32 does)
{
	const __u32 own = PCN_CT_SENT_SYN | PCN_CT_SENT_FIN;
	const __u32 others = PCN_CT_SYN_ACKED | PCN_CT_FIN_ACKED;
	__u32 steps = c->steps;

	if (c->state == PCN_CT_NONE)
		c->flags |= from * PCN_CT_OPENER;
	if (does & PCN_CT_RESUMES)
		steps &= ~((PCN_CT_SENT_FIN | PCN_CT_FIN_ACKED) << from);
	if (does & PCN_CT_SYN_ACKED)
		steps |= PCN_CT_SENT_SYN * 3;
	if (does & PCN_CT_RESETS)
		c->flags |= PCN_CT_RESET << from;
	c->steps = steps | (does & own) << from | (does & others) << !from;
	c->state = pcn_ct_tcp_state(c->steps, c->flags);
	c->timeout = c->state <= PCN_CT_SYN_SENT2
			     ? PCN_CT_TIMEOUT_SYN_SENT
			     : c->state - PCN_CT_SYN_RECV + PCN_CT_TIMEOUT_SYN_RECV;
	return pcn_ct_valid(c, from);
}

/* Internal: a packet of a protocol without states. */
PCN_INLINE __u32 pcn_ct_packet(struct pcn_ct_progress *c, __u32 from, __u32 timeout, __u32 replied)
{
	__u32 class;

	if (c->state == PCN_CT_NONE)
		c->flags = from * PCN_CT_OPENER;
	class = pcn_ct_valid(c, from);
	c->state = class == PCN_CT_NEW ? PCN_CT_UNREPLIED : PCN_CT_REPLIED;
	c->timeout = class == PCN_CT_NEW ? timeout : replied;
	return class;
}

/* Internal: a TCP segment by its flags alone. An RST closes until its side sends something else (RFC 7857, 2.2). */
PCN_INLINE __u32 pcn_ct_follow_tcp(struct pcn_ct_progress *c, __u32 from, __u32 flags)
{
	const __u32 begins_or_ends = PCN_CT_SYN | PCN_CT_FIN | PCN_CT_RST;
	__u32 does = 0;

	if (c->state == PCN_CT_OPEN && !(flags & begins_or_ends))
		return PCN_CT_ESTABLISHED; /* and nothing changes */
	if (flags & PCN_CT_RST)
		return c->state == PCN_CT_NONE ? PCN_CT_INVALID
					       : pcn_ct_proceed(c, from, PCN_CT_RESETS);
	if ((flags & (PCN_CT_SYN | PCN_CT_ACK)) == PCN_CT_SYN && c->state >= PCN_CT_LAST_ACK)
		__builtin_memset(c, 0, sizeof(*c)); /* the next connection of the same ends */
	c->flags &= ~(PCN_CT_RESET << from);
	if (flags & PCN_CT_SYN)
		does |= PCN_CT_SENT_SYN;
	if (flags & PCN_CT_FIN)
		does |= PCN_CT_SENT_FIN;
	if (flags & PCN_CT_ACK)
		does |= PCN_CT_SYN_ACKED |
			(c->steps & PCN_CT_SENT_FIN << !from ? PCN_CT_FIN_ACKED : 0);
	return pcn_ct_proceed(c, from, does);
}

/* Follows a connection by the flags of its segments, for tables without room for windows: changes its progress
 * by a packet of the side `from`, 0 or 1, of a protocol, and returns the class. tcp_flags are 0 for all
 * protocols but TCP. Only an RST that belongs to no connection is INVALID. Every acknowledgement counts for
 * the SYN and FIN that the other side has sent before; a connection that was open before is so again when both
 * sides have sent an ACK. ICMP replies open sessions as requests do. */
PCN_INLINE __u32 pcn_ct_follow(struct pcn_ct_progress *c, __u32 from, __u8 protocol,
			       __u32 tcp_flags)
{
	from &= 1;
	if (protocol == IPPROTO_TCP)
		return pcn_ct_follow_tcp(c, from, tcp_flags);
	if (protocol == IPPROTO_UDP)
		return pcn_ct_packet(c, from, PCN_CT_TIMEOUT_UDP, PCN_CT_TIMEOUT_UDP_STREAM);
	if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6)
		return pcn_ct_packet(c, from, PCN_CT_TIMEOUT_ICMP, PCN_CT_TIMEOUT_ICMP);
	return pcn_ct_packet(c, from, PCN_CT_TIMEOUT_OTHER, PCN_CT_TIMEOUT_OTHER);
}

/* The same for a progress in an entry of a table, aligned to four bytes, which packets on other CPUs change, too. */
PCN_INLINE void pcn_ct_follow_shared(struct pcn_ct_progress *c, __u32 from, __u8 protocol,
				     __u32 tcp_flags)
{
	union {
		__u32 word;
		struct pcn_ct_progress progress;
	} is, next;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++) {
		is.word = next.word = *(volatile __u32 *)c;
		pcn_ct_follow(&next.progress, from, protocol, tcp_flags);
		if (next.word == is.word ||
		    __sync_val_compare_and_swap((__u32 *)c, is.word, next.word) == is.word)
			break;
	}
}

#endif
