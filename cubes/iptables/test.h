// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Conditions of rules that the search does not compare, and that are tested after it. */
#ifndef IPTABLES_TEST_H
#define IPTABLES_TEST_H

#include <linux/tcp.h>
#include <pcn/cube.h>
#include <pcn/elements.h>
#include <pcn/flow.h>
#include <pcn/hostaddr.h>

#include "connections.h"
#include "local.h"
#include "owner.h"
#include "rate.h"
#include "rule.h"
#include "string.h"
#include "translation.h"

/* The kinds of conditions: tests.go. In parentheses: what of struct iptables_test they have. */
enum iptables_test_kind {
	IPTABLES_IN, /* the netdev that received the packet: (text) a name, and (number) its length */
	IPTABLES_OUT,	 /* the netdev that sends it */
	IPTABLES_SOURCE, /* bits of the address: (word[0..3]) the value, (word[4..7]) the mask */
	IPTABLES_DESTINATION,
	IPTABLES_SOURCE_RANGE, /* the address: (word) from four words to four others, in host byte order */
	IPTABLES_DESTINATION_RANGE,
	IPTABLES_LATER_FRAGMENT,
	IPTABLES_LENGTH, /* bytes of the IP packet: (word) from, to */
	IPTABLES_TTL,	 /* TTL or hop limit: (word) from, to */
	IPTABLES_TOS,	 /* traffic class: (word) value, mask */
	IPTABLES_EITHER_PORT, /* source or destination port: (half) pairs of first and last, (number) of them */
	IPTABLES_LIMIT, /* a rate: (limit) */
	IPTABLES_HASH_LIMIT, /* a rate for each group: (limit), (number) enum iptables_by, (value) bits of
			       * the source and of the destination that count */
	IPTABLES_RANDOM, /* (value) of 2^31 packets */
	IPTABLES_NTH,	 /* (word) of so many packets, the one behind so many others */
	IPTABLES_USER,	 /* user of the socket: (word) from, to */
	IPTABLES_GROUP, /* its group: (word) from, to, and where struct sock has its struct socket, that its struct file,
			 * that its struct cred, and that the group */
	IPTABLES_SOCKET,      /* there is a socket */
	IPTABLES_PACKET_TYPE, /* (value) PACKET_HOST, ... */
	IPTABLES_SOURCE_TYPE, /* (value) bits of enum pcn_address_type */
	IPTABLES_DESTINATION_TYPE,
	IPTABLES_STRING, /* (pattern), (number) its length, (span) offsets from, to; (value) the case of letters
			  * does not count */
	IPTABLES_REPLY,		/* the direction of the connection: (number) as below */
	IPTABLES_ROUTING,	/* a routing header of IPv6 with this type: (value) of it plus 1 */
	IPTABLES_ROUTING_OTHER, /* one with another type */
	IPTABLES_SET, /* (value) the number of a set, (word) how it is searched: pcn/elements.h */
	IPTABLES_SET_ADD, /* always holds, and adds the packet to a set: the same, and for how many seconds */
	IPTABLES_SET_END,    /* always holds, and removes it */
	IPTABLES_TCP_OPTION, /* (value) the kind of an option of TCP */
	/* The connection, as its first packet was. Of a packet without one: the condition holds if (number) is 1,
	 * and if it is 0 it does not, both whether it is negated or not. */
	IPTABLES_CT_SOURCE, /* as IPTABLES_SOURCE */
	IPTABLES_CT_DESTINATION,
	IPTABLES_CT_SOURCE_PORT, /* (half) first and last */
	IPTABLES_CT_DESTINATION_PORT,
	IPTABLES_CT_PROTOCOL, /* (value) */
	IPTABLES_CONNECTIONS, /* more connections than (value): (number) bits of the source that count, or, with 256, of the
			       * destination, (serial) */
	IPTABLES_STATE, /* (value) bits of classes, and of translations */
};

/* The names of netdevs. */
struct iptables_netdev {
	__u64 name[2];
};
PCN_MAP(netdevs, BPF_MAP_TYPE_HASH, __u32, struct iptables_netdev, 8192);

PCN_INLINE int iptables_is_netdev(__u32 ifindex, const struct iptables_test *t)
{
	const struct iptables_netdev *d = bpf_map_lookup_elem(&netdevs, &ifindex);
	__u64 name[2] = {};

	if (d) {
		name[0] = d->name[0];
		name[1] = d->name[1];
	}
	/* Little-endian: the first characters are the lowest bytes. */
	__u32 n = t->number;
	__u64 low = n >= 8 ? ~0ULL : (1ULL << (n * 8 & 63)) - 1;
	__u64 high = n <= 8 ? 0 : n >= 16 ? ~0ULL : (1ULL << ((n - 8) * 8 & 63)) - 1;
	return !(((name[0] ^ t->wide[0]) & low) | ((name[1] ^ t->wide[1]) & high));
}

/* Whether bits of an address have a value. */
PCN_INLINE int iptables_is_masked(const __be32 *address, const struct iptables_test *t)
{
	__u32 differ = 0;

#pragma unroll
	for (int i = 0; i < 4; i++)
		differ |= (address[i] ^ t->word[i]) & t->word[4 + i];
	return !differ;
}

/* Whether an address is in a range. */
PCN_INLINE int iptables_is_between(const __be32 *address, const struct iptables_test *t)
{
	__u64 high = (__u64)bpf_ntohl(address[0]) << 32 | bpf_ntohl(address[1]);
	__u64 low = (__u64)bpf_ntohl(address[2]) << 32 | bpf_ntohl(address[3]);

	if (high < t->wide[0] || (high == t->wide[0] && low < t->wide[1]))
		return 0;
	return high < t->wide[2] || (high == t->wide[2] && low <= t->wide[3]);
}

/* The byte of the header at `six` for IPv6, else at `four`; -1 if it is not there. */
PCN_INLINE int iptables_header_byte(struct CTXTYPE *ctx, const struct pcn_flow *flow, __u32 four,
				    __u32 six)
{
	__u8 byte = 0;

	if (pcn_load_bytes(ctx, flow->l3 + (flow->has & PCN_FLOW_IPV6 ? six : four), &byte, 1))
		return -1;
	return byte;
}

/* The traffic class, or type of service. */
PCN_INLINE int iptables_is_tos(struct CTXTYPE *ctx, const struct pcn_flow *flow,
			       const struct iptables_test *t)
{
	int second = iptables_header_byte(ctx, flow, 1, 1);

	if (second < 0)
		return 0;
	if (flow->has & PCN_FLOW_IPV6)
		second = (second >> 4 & 3) | flow->dscp << 2;
	return ((__u32)second & t->word[1]) == t->word[0];
}

/* As many ranges of ports as iptables takes. */
#define IPTABLES_PORTS 15

PCN_INLINE int iptables_is_either_port(const struct pcn_flow *flow, const struct iptables_test *t)
{
	__u16 source = bpf_ntohs(flow->source_port), to = bpf_ntohs(flow->destination_port);

	if (!(flow->has & PCN_FLOW_PORTS))
		return 0;
#pragma unroll
	for (__u32 i = 0; i < IPTABLES_PORTS; i++) {
		__u16 first = t->half[2 * i], last = t->half[2 * i + 1];

		if (i < t->number &&
		    ((source >= first && source <= last) || (to >= first && to <= last)))
			return 1;
	}
	return 0;
}

/* The type of the routing header of an IPv6 packet plus 1, 0 if there is none. */
PCN_INLINE __u32 iptables_routing(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	struct pcn_ipv6_payload found = {};
	int next;

	if (!(flow->has & PCN_FLOW_IPV6))
		return 0;
	next = iptables_header_byte(ctx, flow, 6, 6);
	if (next < 0)
		return 0;
	found.protocol = next;
	pcn_ipv6_walk(ctx, flow->l3 + sizeof(struct ipv6hdr), &found);
	return found.routing;
}

/* The longest options of TCP. */
#define IPTABLES_OPTIONS 40

/* A search for an option. */
struct iptables_options {
	struct CTXTYPE *ctx;
	__u32 at; /* the next option */
	__u32 end;
	__u32 kind;
	__u32 found;
};

/* Internal: looks at one option; 1 ends the search. */
static long iptables_option(__u32 i, struct iptables_options *s)
{
	__u8 byte;

	(void)i;
	if (s->at >= s->end || pcn_load_bytes(s->ctx, s->at, &byte, 1))
		return 1;
	s->found = byte == s->kind;
	if (s->found)
		return 1;
	s->at++;
	if (byte < 2) /* the end of the options, or no operation */
		return 0;
	if (s->at >= s->end || pcn_load_bytes(s->ctx, s->at, &byte, 1))
		return 1;
	s->at += byte ? byte - 1 : 0;
	return 0;
}

/* Whether the TCP header at `l4` has an option, as iptables looks for it: behind the end of the options, too. */
PCN_GLOBAL int iptables_has_option(struct CTXTYPE *ctx, __u32 l4, __u32 kind)
{
	struct iptables_options s = { .ctx = ctx, .at = l4 + sizeof(struct tcphdr), .kind = kind };
	__u8 byte;

	if (pcn_load_bytes(ctx, l4 + 12, &byte, 1))
		return 0;
	s.end = l4 + (byte >> 4) * 4;
	bpf_loop(IPTABLES_OPTIONS, iptables_option, &s, 0);
	return s.found;
}

/* Where a packet is: what conditions need that is not in it. */
struct iptables_place {
	__u32 in;
	__u32 out;
	__u32 type;
};

/* Whether one condition about headers holds, without regard to its negation; the others are below. */
PCN_INLINE int iptables_is_header(struct CTXTYPE *ctx, const struct pcn_flow *flow,
				  const struct iptables_test *t)
{
	switch (t->kind) {
	case IPTABLES_SOURCE:
		return iptables_is_masked(flow->source, t);
	case IPTABLES_DESTINATION:
		return iptables_is_masked(flow->destination, t);
	case IPTABLES_SOURCE_RANGE:
		return iptables_is_between(flow->source, t);
	case IPTABLES_DESTINATION_RANGE:
		return iptables_is_between(flow->destination, t);
	case IPTABLES_LATER_FRAGMENT:
		return flow->fragment == PCN_FRAGMENT_LATER;
	case IPTABLES_LENGTH:
		return iptables_is_in(pcn_frame_len(ctx) - flow->l3, t);
	case IPTABLES_TTL:
		return iptables_is_in(iptables_header_byte(ctx, flow, 8, 7), t);
	case IPTABLES_TOS:
		return iptables_is_tos(ctx, flow, t);
	case IPTABLES_EITHER_PORT:
		return iptables_is_either_port(flow, t);
	case IPTABLES_ROUTING:
		return iptables_routing(ctx, flow) == t->value;
	case IPTABLES_ROUTING_OTHER: {
		__u32 routing = iptables_routing(ctx, flow);

		return routing && routing != t->value;
	}
	case IPTABLES_SOURCE_TYPE:
		return !!(pcn_address_type_of(flow->source, flow->has & PCN_FLOW_IPV6) & t->value);
	case IPTABLES_DESTINATION_TYPE:
		return !!(pcn_address_type_of(flow->destination, flow->has & PCN_FLOW_IPV6) &
			  t->value);
	}
	return 0;
}

PCN_GLOBAL int iptables_header_test(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
				    const struct iptables_test *t PCN_NONNULL)
{
	return iptables_is_header(ctx, flow, t);
}

/* Whether a set has the packet; changes of sets always hold. */
PCN_GLOBAL int iptables_set_test(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
				 const struct iptables_test *t PCN_NONNULL)
{
	if (t->kind == IPTABLES_SET_ADD)
		return pcn_elements_add(ctx, flow, t->value, t->word[0], t->word[1]) | 1;
	if (t->kind == IPTABLES_SET_END)
		return pcn_elements_end(ctx, flow, t->value, t->word[0]) | 1;
	return pcn_elements_test(ctx, flow, t->value, t->word[0]);
}

/* Whether the connection of a packet is as a condition says. */
PCN_GLOBAL int iptables_is_of(const struct iptables_test *t PCN_NONNULL)
{
	__u32 zero = 0;
	struct pcn_conntrack_work *w = bpf_map_lookup_elem(&ct_work, &zero);

	if (!w || w->class == PCN_CT_INVALID || w->class == PCN_CT_UNTRACKED)
		return t->number ? !t->negated : !!t->negated;
	const struct pcn_conntrack_key *key = &w->fresh.key;
	__u32 side = (w->side ^ w->reply) & 1; /* the opener, or the other */
	__u32 first = t->half[0], last = t->half[1];

	if (t->kind == IPTABLES_CT_DESTINATION || t->kind == IPTABLES_CT_DESTINATION_PORT)
		side ^= 1;
	__u32 port = bpf_ntohs(key->port[side]);

	switch (t->kind) {
	case IPTABLES_REPLY:
		return !!w->reply;
	case IPTABLES_CT_SOURCE:
	case IPTABLES_CT_DESTINATION:
		return iptables_is_masked(key->address[side], t);
	case IPTABLES_CT_SOURCE_PORT:
	case IPTABLES_CT_DESTINATION_PORT:
		return port >= first && port <= last;
	}
	return key->protocol == t->value;
}

/* Whether one condition holds. */
PCN_INLINE int iptables_holds(struct CTXTYPE *ctx, const struct pcn_flow *flow,
			      const struct iptables_row *row, __u32 i,
			      const struct iptables_place *at, __u32 counter)
{
	const struct iptables_test *t = &row->test[i];

	switch (t->kind) {
	case IPTABLES_IN:
		return iptables_is_netdev(at->in, t);
	case IPTABLES_OUT:
		return iptables_is_netdev(at->out, t);
	case IPTABLES_LIMIT:
		return iptables_within(t, counter, i);
	case IPTABLES_HASH_LIMIT:
		return iptables_group_within(flow, t, counter, i, pcn_frame_len(ctx) - flow->l3);
	case IPTABLES_RANDOM:
		return bpf_get_prandom_u32() >> 1 < t->value;
	case IPTABLES_NTH:
		return iptables_is_nth(t, counter, i);
	case IPTABLES_USER:
		return iptables_is_of_user(ctx, t);
	case IPTABLES_GROUP:
		return iptables_is_of_group(ctx, t);
	case IPTABLES_SOCKET:
		return iptables_has_socket(ctx);
	case IPTABLES_PACKET_TYPE:
		return at->type == t->value;
	case IPTABLES_STRING:
		return iptables_has_string(ctx, t, flow->l3);
	case IPTABLES_REPLY:
	case IPTABLES_CT_SOURCE:
	case IPTABLES_CT_DESTINATION:
	case IPTABLES_CT_SOURCE_PORT:
	case IPTABLES_CT_DESTINATION_PORT:
	case IPTABLES_CT_PROTOCOL:
		return iptables_is_of(t);
	case IPTABLES_SET:
	case IPTABLES_SET_ADD:
	case IPTABLES_SET_END:
		return iptables_set_test(ctx, flow, t);
	case IPTABLES_CONNECTIONS:
		return iptables_is_crowded(flow, t, counter, i);
	case IPTABLES_STATE:
		return iptables_is_in_state(t);
	case IPTABLES_TCP_OPTION:
		return iptables_has_option(ctx, flow->l4, t->value);
	}
	return iptables_header_test(ctx, flow, t);
}

/* The type of a received packet, as its address says: at XDP there is none of the kernel. */
PCN_INLINE __u32 iptables_type_of(struct CTXTYPE *ctx)
{
	__u8 to[ETH_ALEN];

	if (pcn_load_bytes(ctx, 0, to, sizeof(to)) || !(to[0] & 1))
		return IPTABLES_HOST;
	return (to[0] & to[1] & to[2] & to[3] & to[4] & to[5]) == 0xff ? IPTABLES_BROADCAST
								       : IPTABLES_MULTICAST;
}

/* Whether all conditions of a row hold. They are tested in the order of the rule, up to the first that does not hold:
 * those behind it, such as limits, do not count the packet. `leaves`: it is on its way out. */
PCN_GLOBAL int iptables_test(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
			     const struct iptables_row *row PCN_NONNULL, __u32 leaves,
			     __u32 counter)
{
	struct iptables_place at = { .in = ctx->ingress_ifindex };
#ifdef PCN_TC
	__u32 here = ctx->ifindex, from = at.in;

	/* The context is read by its members: the compiler must not choose between their addresses. */
	asm volatile("" : "+r"(here), "+r"(from));
	at.out = leaves ? here : 0;
	at.in = leaves ? from : here;
	at.type = ctx->pkt_type;
#else
	(void)leaves;
	at.type = iptables_type_of(ctx);
#endif
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < IPTABLES_TESTS; i++) {
		if (i >= row->tests)
			break;
		if (iptables_holds(ctx, flow, row, i, &at, counter) == !!row->test[i].negated)
			return 0;
	}
	return 1;
}

#endif
