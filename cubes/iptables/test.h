// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Conditions of rules that the search does not know, and that are tested after it. */
#ifndef IPTABLES_TEST_H
#define IPTABLES_TEST_H

#include <pcn/cube.h>
#include <pcn/flow.h>

#include "rule.h"

/* The kinds of conditions: tests.go. */
enum iptables_test_kind {
	IPTABLES_IN,		 /* name of the netdev that received the packet: text, and of it `number` bytes */
	IPTABLES_OUT,		 /* of the netdev that sends it */
	IPTABLES_SOURCE,	 /* IPv4 address: bits of the mask in word[1] are word[0] */
	IPTABLES_DESTINATION,
	IPTABLES_LATER_FRAGMENT,
	IPTABLES_LENGTH,	 /* bytes of the IP packet: word[0] to word[1] */
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

/* The bytes of the packet from its IP header on. */
PCN_INLINE __u32 iptables_length(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	return pcn_frame_len(ctx) - flow->l3;
}

/* Whether one condition holds, without regard to its negation. */
PCN_INLINE int iptables_holds(struct CTXTYPE *ctx, const struct pcn_flow *flow,
			      const struct iptables_test *t, __u32 in, __u32 out)
{
	switch (t->kind) {
	case IPTABLES_IN:
		return iptables_is_netdev(in, t);
	case IPTABLES_OUT:
		return iptables_is_netdev(out, t);
	case IPTABLES_SOURCE:
		return (flow->source[3] & t->word[1]) == t->word[0];
	case IPTABLES_DESTINATION:
		return (flow->destination[3] & t->word[1]) == t->word[0];
	case IPTABLES_LATER_FRAGMENT:
		return flow->fragment == PCN_FRAGMENT_LATER;
	case IPTABLES_LENGTH: {
		__u32 length = iptables_length(ctx, flow);

		return length >= t->word[0] && length <= t->word[1];
	}
	}
	return 0;
}

/* Whether all conditions of a row hold. Those that change something when they hold, such as limits, come in the order of
 * the rule, after one that does not hold none is tested. */
PCN_GLOBAL int iptables_test(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
			     const struct iptables_row *row PCN_NONNULL, __u32 hook)
{
	__u32 in = ctx->ingress_ifindex, out = 0;
#ifdef PCN_TC
	__u32 at = ctx->ifindex;

	/* The context is read by its members: the compiler must not choose between their addresses. */
	asm volatile("" : "+r"(at), "+r"(in));
	out = hook ? at : 0;
	in = hook ? in : at;
#else
	(void)hook;
#endif
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < IPTABLES_TESTS; i++) {
		if (i >= row->tests)
			break;
		if (iptables_holds(ctx, flow, &row->test[i], in, out) == !!row->test[i].negated)
			return 0;
	}
	return 1;
}

#endif
