// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The chains of iptables at the host's stack: INPUT for packets to the host, on their way in; FORWARD for those that it
 * forwards, and OUTPUT for those that it sends, on their way out. In front of them are those of the table raw, which say
 * what is not tracked. */
#include <pcn/cube.h>
#include <pcn/classify.h>
#include <pcn/conntrack_account.h>
#include <pcn/conntrack_event.h>
#include <pcn/report.h>
#include <pcn/rule_counters.h>

#include "forward.h"
#include "local.h"
#include "rule.h"
#include "test.h"
#include "translation.h"

enum iptables_reason {
	IPTABLES_TRUNCATED = PCN_REASON_FIRST, /* shorter than its Ethernet header and VLAN tags */
	IPTABLES_RULE,			       /* as a rule says */
	IPTABLES_POLICY,		       /* no rule has decided, and the policy is DROP */
	IPTABLES_REJECTED_AND_TOLD,	       /* as a rule says, and the sender is told */
	IPTABLES_REJECTED_SILENTLY,	       /* the same, above reject-limit */
	IPTABLES_NO_ENTRY,		       /* no memory for another connection */
	IPTABLES_TOO_MANY_RULES, /* it matches more rules without a verdict than are searched */
};
PCN_REASONS(iptables_reason);

/* Options of pcn_ct_tcp. */
PCN_CONFIG(__u32, tcp_options) = 0;
/* The mark of packets by which the host answers rejected ones; nobody else knows it. */
PCN_CONFIG(__u32, answer_mark) = 0;
PCN_CONFIG(bool, accounting) = false;
PCN_CONFIG(bool, session_events) = false;
/* There are, or were, rules about what the cube nat does. */
PCN_CONFIG(bool, asks_for_nat) = false;
/* There are rules in the table raw. */
PCN_CONFIG(bool, has_raw) = false;

/* The kind of messages about sessions. */
#define IPTABLES_SESSION PCN_REPORT_KINDS

/* The chains that are built in: of the table filter, and of raw. */
enum { INPUT, FORWARD, OUTPUT, RAW_PREROUTING, RAW_OUTPUT };
#define HOOKS 5

struct iptables_hook {
	__u32 chain;
	__u32 result; /* of the policy, like that of a rule */
};
/* By the chain, and HOOKS more for IPv6. */
PCN_MAP(hooks, BPF_MAP_TYPE_ARRAY, __u32, struct iptables_hook, 2 * HOOKS);

/* The names of chains by number, for the next daemon. Programs do not read it. */
struct iptables_chain {
	__u16 set;
	__u16 raw;
	char name[28];
};
PCN_MAP(names, BPF_MAP_TYPE_HASH, __u32, struct iptables_chain, 4096);

/* The order of a rule: its chain, and its place there. */
#define CHAIN_SHIFT 20

/* The chains that may wait for others to return. */
#define DEPTH 16
/* The rules without a verdict, and the ends of chains, that a packet may pass. */
#define STEPS 512

/* The table that a packet meets. */
enum iptables_meets { MEETS_NONE, MEETS_RAW, MEETS_FILTER };

/* Where a packet is; in a map, as a search leaves little stack. */
struct iptables_work {
	struct pcn_classify_match match;
	__u32 set;
	__u32 chain;
	__u32 hook;   /* of the table filter */
	__u32 meets;  /* enum iptables_meets */
	__u32 policy; /* result */
	__u32 untracked;
	__u32 leaves; /* it is on its way out */
	__u32 depth;
	__u32 back[DEPTH]; /* orders behind which chains continue */
};
PCN_MAP(work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct iptables_work, 1);

/* What a step decides: to go on, to accept, or the reason to drop the packet. */
#define GO_ON (-1)
#define PASS 0

/* What the rules know of a connection: a bit for the class of the packet. */
#define CLASS(class) (1 << (class))

PCN_INLINE void count(const struct pcn_md *md, __u32 result)
{
	__u32 counter = result >> IPTABLES_COUNTER_SHIFT;

	pcn_count_rule(&counter, md->packet_len);
}

/* The chain has ended: that which called it continues, or the policy decides. */
PCN_INLINE int leave(struct pcn_md *md, struct pcn_classify_key *key, struct iptables_work *is)
{
	__u32 top = is->depth - 1;

	if (top < DEPTH) {
		is->depth = top;
		is->chain = is->back[top] >> CHAIN_SHIFT;
		key->from = (__u64)is->back[top] + 1;
		return GO_ON;
	}
	count(md, is->policy);
	return (is->policy & IPTABLES_VERB) == IPTABLES_ACCEPT ? PASS : IPTABLES_POLICY;
}

/* Continues in another chain. */
PCN_INLINE int enter(struct pcn_classify_key *key, struct iptables_work *is,
		     const struct iptables_row *row, __u32 verb)
{
	__u32 top = is->depth;

	if (verb == IPTABLES_JUMP) {
		if (top >= DEPTH)
			return IPTABLES_TOO_MANY_RULES;
		is->back[top] = is->match.order;
		is->depth = top + 1;
	}
	is->chain = row->chain;
	key->from = (__u64)row->chain << CHAIN_SHIFT;
	return GO_ON;
}

/* Changes the mark of the packet, for later rules and the host. */
PCN_INLINE void mark(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_classify_key *key,
		     const struct iptables_row *row)
{
	__u32 is = (md->traffic_class & ~row->mask) ^ row->value;

	md->traffic_class = is;
	key->word[PCN_CLASSIFY_MARK] = key->word[PCN_CLASSIFY_MARK] >> 32 << 32 | is;
#ifdef PCN_TC
	ctx->mark = is;
#else
	(void)ctx;
#endif
}

/* Rules do not match the packet by its connection any more. */
PCN_INLINE void untrack(struct pcn_classify_key *key, struct iptables_work *is)
{
	is->untracked = 1;
	key->word[PCN_CLASSIFY_PORTS] &= ~0xff00ULL;
	pcn_classify_state(key, CLASS(PCN_CT_UNTRACKED));
}

/* Does what a rule with a row says, whose conditions the packet fulfils. */
PCN_GLOBAL int iptables_target(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			       struct iptables_work *is PCN_NONNULL,
			       const struct iptables_row *row PCN_NONNULL)
{
	__u32 result = is->match.result, counter = result >> IPTABLES_COUNTER_SHIFT;
	struct pcn_classify_key *key = pcn_classify_key();

	if (!key)
		return IPTABLES_TRUNCATED;
	switch (result & IPTABLES_VERB) {
	case IPTABLES_DROP:
		return IPTABLES_RULE;
	case IPTABLES_ACCEPT:
		return PASS;
	case IPTABLES_RETURN:
		return leave(md, key, is);
	case IPTABLES_JUMP:
	case IPTABLES_GOTO:
		return enter(key, is, row, result & IPTABLES_VERB);
	case IPTABLES_REJECT:
		return pcn_report(ctx, md, PCN_REPORT_REJECTED, counter, is->leaves)
			       ? IPTABLES_REJECTED_AND_TOLD
			       : IPTABLES_REJECTED_SILENTLY;
	case IPTABLES_LOG:
		pcn_report(ctx, md, PCN_REPORT_LOGGED, counter, is->leaves);
		break;
	case IPTABLES_MARK:
		mark(ctx, md, key, row);
		break;
	case IPTABLES_NOTRACK:
		untrack(key, is);
		break;
	}
	return GO_ON;
}

/* Whether a packet meets the table raw. */
PCN_INLINE int meets_raw(const struct iptables_work *is)
{
	return has_raw && is->meets == MEETS_RAW;
}

/* The chain in front of that of a packet, in the table raw. What is forwarded is on its way out, too. */
PCN_INLINE __u32 in_front(__u32 hook)
{
	return hook == OUTPUT ? RAW_OUTPUT : RAW_PREROUTING;
}

/* Whether the packet answers a rejected one, and so is related to the connection of that, which the table does not have. */
PCN_INLINE int is_answer(const struct pcn_md *md)
{
	return answer_mark && md->traffic_class == answer_mark;
}

/* Counts a packet for its session, and tells of that. */
PCN_INLINE void record(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_conntrack_work *w)
{
	if (accounting)
		pcn_conntrack_account(ctx, w);
	if (session_events)
		pcn_conntrack_event(ctx, md, w, IPTABLES_SESSION);
}

/* Does what a verdict, 0 or a reason to drop the packet, means for its connection. Returns 0, or the reason to drop the
 * packet. As in Linux, packets of a session count whatever the rules say; one that they accept opens it. */
PCN_INLINE int conclude(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_conntrack_work *w,
			int reason)
{
	if (w->class == PCN_CT_ESTABLISHED)
		record(ctx, md, w);
	if (!reason && pcn_conntrack_accept(w) < 0)
		return IPTABLES_NO_ENTRY;
	/* What is refused before it is a connection does not count. */
	if (reason && w->class != PCN_CT_ESTABLISHED)
		return reason;
	if (iptables_link_all(ctx) && w->class == PCN_CT_NEW)
		return IPTABLES_NO_ENTRY;
	if (w->class == PCN_CT_NEW)
		record(ctx, md, w);
	return reason;
}

/* Whether the host sends an ICMP error of its own. That is related, as in Linux, also if it is about a packet that has met no
 * rule yet: FORWARD is on the way out, and one without TTL, or too long, does not get there. */
PCN_GLOBAL int iptables_is_told(const struct pcn_flow *flow PCN_NONNULL)
{
	return pcn_ct_is_error(flow) &&
	       pcn_address_type_of(flow->source, flow->has & PCN_FLOW_IPV6) == PCN_ADDRESS_LOCAL;
}

/* Finds the connection of a packet. Returns 0, or the reason to drop the packet. Each cube has its own zone in the table
 * of connections. */
PCN_INLINE int track(struct CTXTYPE *ctx, const struct pcn_md *md, struct pcn_conntrack_work *w,
		     struct iptables_work *is)
{
	if (is_answer(md)) {
		w->class = PCN_CT_RELATED;
		__builtin_memset(&w->fresh.key, 0, sizeof(w->fresh.key));
		is->untracked = 1;
	} else if (is->untracked) {
		w->class = PCN_CT_UNTRACKED;
	} else {
		pcn_conntrack_track(ctx, w, pcn_instance(md), tcp_options);
		if (w->refusal)
			return IPTABLES_NO_ENTRY;
		if (w->class == PCN_CT_INVALID && is->hook == OUTPUT &&
		    iptables_is_told(&w->flow)) {
			w->class = PCN_CT_RELATED;
			is->untracked = 1;
		}
	}
	return 0;
}

/* Prepares the comparison with the rules of a hook, for those of the table filter with the packet's connection. Returns 0,
 * or the reason to drop the packet. */
PCN_INLINE int begin(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_conntrack_work *w,
		     struct iptables_work *is)
{
	__u32 v6 = w->flow.has & PCN_FLOW_IPV6 ? 1 : 0;
	__u32 at = (meets_raw(is) ? in_front(is->hook) : is->hook) + v6 * HOOKS;
	const struct iptables_hook *h = bpf_map_lookup_elem(&hooks, &at);
	struct pcn_classify_key *key = pcn_classify_key();
	int reason = meets_raw(is) ? 0 : track(ctx, md, w, is);

	if (reason)
		return reason;
	is->set = pcn_classify_set(md, v6);
	if (!h || !key ||
	    pcn_classify_key_of(ctx, key, &w->flow, pcn_classify_fields(is->set), 0,
				md->traffic_class))
		return IPTABLES_TRUNCATED;
	pcn_classify_state(key, CLASS(w->class & 7));
	is->chain = h->chain;
	is->policy = h->result;
	is->depth = 0;
	key->from = (__u64)h->chain << CHAIN_SHIFT;
	return 0;
}

/* Takes the result of a search: PASS, GO_ON with another search, or the reason to drop the packet. */
PCN_INLINE int step(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow,
		    struct iptables_work *is)
{
	__u32 result = is->match.result, order = is->match.order;
	struct pcn_classify_key *key = pcn_classify_key();

	if (!key)
		return IPTABLES_TRUNCATED;
	if (order == (__u32)-1 || order >> CHAIN_SHIFT != is->chain)
		return leave(md, key, is);
	key->from = (__u64)order + 1;
	if (result & IPTABLES_HAS_ROW) {
		__u32 counter = result >> IPTABLES_COUNTER_SHIFT;
		const struct iptables_row *row = bpf_map_lookup_elem(&rows, &counter);

		if (!row || !iptables_test(ctx, flow, row, is->leaves, counter))
			return GO_ON;
		count(md, result);
		return iptables_target(ctx, md, is, row);
	}
	count(md, result);
	switch (result & IPTABLES_VERB) {
	case IPTABLES_DROP:
		return IPTABLES_RULE;
	case IPTABLES_ACCEPT:
		return PASS;
	case IPTABLES_RETURN:
		return leave(md, key, is);
	}
	return GO_ON;
}

/* Takes the result of a search, if there was one. A packet that the table raw accepts continues with the rules of filter. */
PCN_GLOBAL int iptables_step(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			     struct pcn_conntrack_work *w PCN_NONNULL,
			     struct iptables_work *is PCN_NONNULL)
{
	__u32 meets = is->meets;
	int verdict = meets == MEETS_NONE ? PASS : step(ctx, md, &w->flow, is);

	if (verdict != PASS || meets == MEETS_FILTER)
		return verdict;
	is->meets = has_raw && meets == MEETS_NONE ? MEETS_RAW : MEETS_FILTER;
	verdict = begin(ctx, md, w, is);
	return verdict ? verdict : GO_ON;
}

/* Compares a packet with the rules: PASS, or the reason to drop it. This is no function of its own, since a search needs
 * nearly all calls that may be nested. */
PCN_INLINE int judge(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_conntrack_work *w,
		     struct iptables_work *is)
{
	struct pcn_classify_key *key = pcn_classify_key();

	if (!key)
		return IPTABLES_TRUNCATED;
#pragma clang loop unroll(disable)
	for (int i = 0; i <= STEPS; i++) {
		int verdict = iptables_step(ctx, md, w, is);
		if (verdict != GO_ON)
			return verdict;
		pcn_classify(key, &is->match, is->set);
	}
	return IPTABLES_TOO_MANY_RULES;
}

/* The verdict on a packet that came in and is not for the host: it meets FORWARD on its way out. -1: it is for the host. */
PCN_INLINE int pass_by(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_conntrack_work *w)
{
#ifdef PCN_TC
	__u32 netdev = forward_fib ? iptables_forward(ctx, w, pcn_instance(md)) : 0;

	if (netdev)
		return pcn_pkt_redirect_netdev(ctx, md, netdev);
#endif
	return iptables_is_local(ctx, &w->flow) ? -1 : pcn_pkt_pass(ctx, md);
}

PCN_INLINE int filter(struct CTXTYPE *ctx, struct pcn_md *md, const __u32 out)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();
	__u32 zero = 0;
	struct iptables_work *is = bpf_map_lookup_elem(&work, &zero);
	struct iptables_links *links = iptables_links();

	if (!w || !is || !links || pcn_flow_read(ctx, &w->flow))
		return pcn_pkt_drop(ctx, md, IPTABLES_TRUNCATED);
	if (!(w->flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	is->leaves = out;
	is->hook = INPUT;
	if (out)
		is->hook = iptables_is_forwarded(ctx) ? FORWARD : OUTPUT;
	if (asks_for_nat && !out)
		iptables_note(md);
	int verdict = out ? -1 : pass_by(ctx, md, w);
	if (verdict >= 0)
		return verdict;
	links->count = 0;
	is->meets = MEETS_NONE;
	is->untracked = 0;
	w->class = PCN_CT_INVALID; /* for the table raw, as in Linux */
	w->reply = 0;
	int reason = judge(ctx, md, w, is);
	if (!is->untracked)
		reason = conclude(ctx, md, w, reason);
	return reason ? pcn_pkt_drop(ctx, md, reason) : pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return filter(ctx, md, 0);
}

PCN_EGRESS
{
	return filter(ctx, md, 1);
}

PCN_LICENSE;
