// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The table nat of iptables: rules in an order, which are compared with the first packet of each connection only. Its chains
 * are compiled into one list of rows, each with the row behind it for a packet that matches and for one that does not, so
 * a jump to a chain is a step forward to a copy of its rules. In Go: package policy. */
#ifndef NAT_POLICY_H
#define NAT_POLICY_H

#include <pcn/hostaddr.h>

#include "nat.h"

/* The chains. The rows of the first hook of IPv4 begin with row 0, the next with row 1, ...: NAT_HOOKS for each family. */
enum nat_hook {
	NAT_PREROUTING,
	NAT_INPUT,
	NAT_OUTPUT,
	NAT_POSTROUTING,
	NAT_HOOKS,
};

/* What a row says about a packet that matches. */
enum nat_row_does {
	NAT_ROW_NEXT, /* continue with the row `hit` */
	NAT_ROW_ACCEPT,
	NAT_ROW_SNAT,
	NAT_ROW_MASQUERADE,
	NAT_ROW_DNAT,
	NAT_ROW_REDIRECT,
};

/* The conditions of a row, and which of them are negated. */
#define NAT_ROW_SOURCE 0x1
#define NAT_ROW_DESTINATION 0x2
#define NAT_ROW_PROTOCOL 0x4
#define NAT_ROW_IN 0x8
#define NAT_ROW_OUT 0x10
#define NAT_ROW_SPORT 0x20
#define NAT_ROW_DPORT 0x40
#define NAT_ROW_EITHER_PORT 0x80
#define NAT_ROW_MARK 0x100
#define NAT_ROW_RANDOM 0x200
#define NAT_ROW_NTH 0x400
#define NAT_ROW_SOURCE_TYPE 0x800
#define NAT_ROW_DESTINATION_TYPE 0x1000
#define NAT_ROW_SOURCE_RANGE 0x2000
#define NAT_ROW_DESTINATION_RANGE 0x4000

/* As many ranges of ports as -m multiport takes, and one more. */
#define NAT_ROW_PORTS 16

/* An address and a mask, or the first and the last address of a range in host byte order. */
struct nat_span {
	pcn_address first;
	pcn_address last;
};

/* Ranges of ports in host byte order, first those of sources, then those of destinations. */
struct nat_row_port {
	__u16 first;
	__u16 last;
};

/* Part of the name of a netdev. */
struct nat_name {
	__u64 value[2];
	__u64 mask[2];
};

struct nat_row {
	__u32 hit;
	__u32 miss;
	__u16 has;     /* NAT_ROW_SOURCE, ... */
	__u16 negated; /* the same */
	__u8 does;     /* enum nat_row_does */
	__u8 protocol;
	__u8 sports;
	__u8 dports; /* or, with NAT_ROW_EITHER_PORT, of either port */
	struct nat_span source;
	struct nat_span destination;
	struct nat_span source_range;
	struct nat_span destination_range;
	struct nat_name in;
	struct nat_name out;
	struct nat_row_port port[NAT_ROW_PORTS];
	__u32 mark;
	__u32 mark_mask;
	__u32 chance; /* of 2^31 */
	__u32 every;  /* of so many packets, the one behind `behind` others */
	__u32 behind;
	__u32 seen;
	__u32 random_port;
	__u32 source_type; /* bits of enum pcn_address_type */
	__u32 destination_type;
	__u32 state; /* the row in which `seen` counts: the first copy of a rule */
	/* The translation: `count` addresses from `to` on, 0 if the address stays, and the ports, 0 if they
	 * stay. */
	pcn_address to;
	__u32 count;
	__u16 port_first;
	__u16 port_last;
	/* The packets that match. */
	__u64 packets;
	__u64 bytes;
};

/* Rows that a packet may meet. */
#define NAT_STEPS 32768

/* The rows, in one array that is replaced as a whole. */
PCN_MAP_OF_MAPS(policy, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, 1, BPF_MAP_TYPE_ARRAY, __u32,
		struct nat_row, 1, BPF_F_INNER_MAP);

/* A netdev: its name, and the addresses that MASQUERADE and REDIRECT use, which are 0 if there is none. */
struct nat_link {
	__u64 name[2];
	pcn_address address[2]; /* IPv4, IPv6 */
};
PCN_MAP_FLAGS(links, BPF_MAP_TYPE_HASH, __u32, struct nat_link, 8192, BPF_F_NO_PREALLOC);

/* A search through the rows. */
struct nat_walk {
	struct CTXTYPE *ctx;
	void *rows;
	__u32 at;
	__u32 in; /* interface index, 0 for what the host sends */
	__u32 out;
	__u32 mark;
	__u32 found; /* the row at `at` decides */
};

/* 1 if a value is 0, else 0, without a branch: the verifier follows one path. */
PCN_INLINE __u32 nat_zero(__u64 value)
{
	__u64 sign = value | -value;

	asm volatile("" : "+r"(sign));
	return (sign >> 63) ^ 1;
}

/* 1 if a number of at most 32 bits is between two others, else 0, in the same way. */
PCN_INLINE __u32 nat_between(__u64 first, __u64 is, __u64 last)
{
	__u64 sign = (is - first) | (last - is);

	asm volatile("" : "+r"(sign));
	return (sign >> 63) ^ 1;
}

/* Whether bits of an address have a value. */
PCN_INLINE __u32 nat_row_address(const pcn_address is, const struct nat_span *s)
{
	__u32 differ = 0;

#pragma unroll
	for (int i = 0; i < 4; i++)
		differ |= (is[i] ^ s->first[i]) & s->last[i];
	return nat_zero(differ);
}

/* Whether an address is in a range. */
PCN_NOINLINE int nat_row_range(const pcn_address is, const struct nat_span *s)
{
	__u64 high = (__u64)bpf_ntohl(is[0]) << 32 | bpf_ntohl(is[1]);
	__u64 low = (__u64)bpf_ntohl(is[2]) << 32 | bpf_ntohl(is[3]);
	__u64 first[2] = { (__u64)s->first[0] << 32 | s->first[1],
			   (__u64)s->first[2] << 32 | s->first[3] };
	__u64 last[2] = { (__u64)s->last[0] << 32 | s->last[1],
			  (__u64)s->last[2] << 32 | s->last[3] };

	if (high < first[0] || (high == first[0] && low < first[1]))
		return 0;
	return high < last[0] || (high == last[0] && low <= last[1]);
}

PCN_NOINLINE __u32 nat_address_type(const pcn_address address, __u32 v6)
{
	return pcn_address_type_of(address, v6);
}

/* Of the conditions about ranges and types of addresses, those that hold. */
PCN_GLOBAL int nat_row_rare(const struct pcn_flow *flow PCN_NONNULL,
			    const struct nat_row *row PCN_NONNULL)
{
	__u32 v6 = flow->has & PCN_FLOW_IPV6, has = row->has, holds = 0;

	if (has & NAT_ROW_SOURCE_RANGE && nat_row_range(flow->source, &row->source_range))
		holds |= NAT_ROW_SOURCE_RANGE;
	if (has & NAT_ROW_DESTINATION_RANGE &&
	    nat_row_range(flow->destination, &row->destination_range))
		holds |= NAT_ROW_DESTINATION_RANGE;
	if (has & NAT_ROW_SOURCE_TYPE && nat_address_type(flow->source, v6) & row->source_type)
		holds |= NAT_ROW_SOURCE_TYPE;
	if (has & NAT_ROW_DESTINATION_TYPE &&
	    nat_address_type(flow->destination, v6) & row->destination_type)
		holds |= NAT_ROW_DESTINATION_TYPE;
	return holds;
}

/* Whether the name of a netdev is as a row says: 1 or 0. */
PCN_GLOBAL int nat_row_netdev(__u32 ifindex, const struct nat_name *n PCN_NONNULL)
{
	const struct nat_link *l = bpf_map_lookup_elem(&links, &ifindex);
	__u64 low = l ? l->name[0] : 0, high = l ? l->name[1] : 0;

	return nat_zero(((low ^ n->value[0]) & n->mask[0]) | ((high ^ n->value[1]) & n->mask[1]));
}

/* Of the conditions about ports, those that hold. */
PCN_GLOBAL int nat_row_ports(const struct pcn_flow *flow PCN_NONNULL,
			     const struct nat_row *row PCN_NONNULL)
{
	__u32 source = bpf_ntohs(flow->source_port), to = bpf_ntohs(flow->destination_port);
	__u32 first = row->sports, all = first + row->dports;
	__u32 sport = 0, dport = 0, either = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < NAT_ROW_PORTS; i++) {
		if (i >= all)
			break;
		const struct nat_row_port *p = &row->port[i];
		__u32 is_source = nat_between(p->first, source, p->last);
		__u32 is_to = nat_between(p->first, to, p->last);
		__u32 of_sources = nat_between(i + 1, first, NAT_ROW_PORTS);
		__u32 of_others = of_sources ^ 1;

		sport |= is_source & of_sources;
		dport |= is_to & of_others;
		either |= (is_source | is_to) & of_others;
	}
	return sport * NAT_ROW_SPORT | dport * NAT_ROW_DPORT | either * NAT_ROW_EITHER_PORT;
}

/* Of the conditions that count packets, those that hold. */
PCN_GLOBAL int nat_row_counting(const struct nat_row *row PCN_NONNULL,
				struct nat_row *state PCN_NONNULL)
{
	if (row->has & NAT_ROW_RANDOM)
		return bpf_get_prandom_u32() >> 1 < row->chance ? NAT_ROW_RANDOM : 0;
	__u32 seen = __sync_fetch_and_add(&state->seen, 1);

	return row->every && seen % row->every == row->behind ? NAT_ROW_NTH : 0;
}

#define NAT_ROW_CHEAP (NAT_ROW_SOURCE | NAT_ROW_DESTINATION | NAT_ROW_PROTOCOL | NAT_ROW_MARK)
#define NAT_ROW_RARE                                                             \
	(NAT_ROW_SOURCE_TYPE | NAT_ROW_DESTINATION_TYPE | NAT_ROW_SOURCE_RANGE | \
	 NAT_ROW_DESTINATION_RANGE)
#define NAT_ROW_COUNTING (NAT_ROW_RANDOM | NAT_ROW_NTH)

/* Whether the packet matches a row. Conditions that count packets come last. */
PCN_INLINE int nat_row_matches(const struct nat_walk *w, const struct pcn_flow *flow,
			       struct nat_row *row)
{
	__u32 has = row->has & ~NAT_ROW_COUNTING, negated = row->negated;
	__u32 holds = nat_row_address(flow->source, &row->source) * NAT_ROW_SOURCE |
		      nat_row_address(flow->destination, &row->destination) * NAT_ROW_DESTINATION |
		      nat_zero(flow->protocol ^ row->protocol) * NAT_ROW_PROTOCOL |
		      nat_zero((w->mark & row->mark_mask) ^ row->mark) * NAT_ROW_MARK;

	if (((holds ^ negated) & has & NAT_ROW_CHEAP) != (has & NAT_ROW_CHEAP))
		return 0;
	if (has & NAT_ROW_IN)
		holds |= nat_row_netdev(w->in, &row->in) * NAT_ROW_IN;
	if (has & NAT_ROW_OUT)
		holds |= nat_row_netdev(w->out, &row->out) * NAT_ROW_OUT;
	if (has & (NAT_ROW_SPORT | NAT_ROW_DPORT | NAT_ROW_EITHER_PORT))
		holds |= nat_row_ports(flow, row);
	if (has & NAT_ROW_RARE)
		holds |= nat_row_rare(flow, row);
	if (((holds ^ negated) & has) != has)
		return 0;
	__u32 counting = row->has & NAT_ROW_COUNTING;
	if (!counting)
		return 1;
	__u32 at = row->state;
	struct nat_row *state = bpf_map_lookup_elem(w->rows, &at);
	return state && ((nat_row_counting(row, state) ^ negated) & counting) == counting;
}

/* Compares the packet in the scratch area with the next row; 1 ends the search. */
static long nat_row_step(__u32 i, struct nat_walk *w)
{
	__u32 zero = 0, at = w->at;
	struct nat_open *o = bpf_map_lookup_elem(&scratch6, &zero);
	struct nat_row *row = bpf_map_lookup_elem(w->rows, &at);

	(void)i;
	if (!o || !row)
		return 1;
	if (!nat_row_matches(w, &o->flow, row)) {
		w->at = row->miss;
		return 0;
	}
	__sync_fetch_and_add(&row->packets, 1);
	__sync_fetch_and_add(&row->bytes, (__u64)pcn_frame_len(w->ctx) - o->flow.l3);
	if (row->does == NAT_ROW_NEXT) {
		w->at = row->hit;
		return 0;
	}
	w->found = 1;
	return 1;
}

/* The addresses that a netdev lends. */
PCN_INLINE void nat_lend(struct nat_target *to, __u32 ifindex, __u32 v6)
{
	const struct nat_link *l = bpf_map_lookup_elem(&links, &ifindex);

	to->count = 0;
	if (!l)
		return;
	pcn_address_copy(to->first, v6 ? l->address[1] : l->address[0]);
	to->count = (to->first[2] | to->first[3]) != 0;
}

/* The address of the host for itself. */
PCN_INLINE void nat_loopback(struct nat_target *to, __u32 v6)
{
	to->count = 1;
	pcn_address_set4(to->first, bpf_htonl(0x7f000001));
	if (!v6)
		return;
	to->first[2] = 0;
	to->first[3] = bpf_htonl(1);
}

/* Compares the packet in the scratch area with the rules of a hook. The result is `to` there. Returns enum nat_row_does. */
PCN_GLOBAL int nat_policy_of(struct CTXTYPE *ctx, __u32 hook, __u32 mark)
{
	__u32 zero = 0;
	struct nat_open *o = bpf_map_lookup_elem(&scratch6, &zero);
	struct nat_walk w = { .ctx = ctx, .in = ctx->ingress_ifindex, .mark = mark };

	w.rows = bpf_map_lookup_elem(&policy, &zero);
	if (!o)
		return NAT_ROW_ACCEPT;
	__builtin_memset(&o->to, 0, sizeof(o->to));
	if (!w.rows)
		return NAT_ROW_ACCEPT;
	__u32 v6 = o->flow.has & PCN_FLOW_IPV6 ? 1 : 0;
#ifdef PCN_TC
	__u32 here = ctx->ifindex;

	/* The context is read by its members: the compiler must not choose between their addresses. */
	asm volatile("" : "+r"(here));
	if (hook >= NAT_OUTPUT)
		w.out = here;
	else
		w.in = here;
#endif
	w.at = hook + v6 * NAT_HOOKS;
	bpf_loop(NAT_STEPS, nat_row_step, &w, 0);
	__u32 at = w.at;
	struct nat_row *row = w.found ? bpf_map_lookup_elem(w.rows, &at) : NULL;
	if (!row)
		return NAT_ROW_ACCEPT;
	o->to.count = row->count;
	o->to.random = row->random_port;
	o->to.port_first = row->port_first;
	o->to.port_last = row->port_last;
	pcn_address_copy(o->to.first, row->to);
	if (row->does == NAT_ROW_MASQUERADE)
		nat_lend(&o->to, w.out, v6);
	if (row->does == NAT_ROW_REDIRECT && hook != NAT_OUTPUT)
		nat_lend(&o->to, w.in, v6);
	if (row->does == NAT_ROW_REDIRECT && hook == NAT_OUTPUT)
		nat_loopback(&o->to, v6);
	return row->does;
}

#endif
