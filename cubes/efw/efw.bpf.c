// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A fast path in front of the host's firewall: the matchers that the user has configured, then the host's rules that
 * the control plane has found safe to offload. Packets that it does not decide pass to the stack, untouched and uncounted. */
#include <pcn/bypass.h>
#include <pcn/classify.h>
#include <pcn/rule_counters.h>

#include "connection.h"

enum efw_reason {
	EFW_BLOCKED = PCN_REASON_FIRST, /* blocked by a matcher */
	EFW_RULE,			/* dropped by a rule of the host */
	EFW_POLICY, /* no rule decides, and the policy of the host's chain is DROP */
};
PCN_REASONS(efw_reason);

/* There are matchers, and rules of the host may be offloaded. */
PCN_CONFIG(bool, has_matchers) = false;
PCN_CONFIG(bool, offload) = true;

/* What happens to a packet; the same as the verbs of Go package offload. */
enum efw_verb {
	EFW_MISS,
	EFW_DROP,
	EFW_ACCEPT,
	EFW_RETURN,
	EFW_COUNT, /* the next rule */
	EFW_JUMP,
	EFW_GOTO,
	EFW_STACK, /* accept it and pass it to the stack */
};

/* The result of a rule: its verb, its counter, and the chain of a jump. */
#define EFW_VERB(result) ((result)&7)
#define EFW_COUNTER(result) ((result) >> 3 & 0xfffff)
#define EFW_CHAIN(result) ((result) >> 23)

/* The rule sets: one for each way and family, and the matchers. */
#define EFW_SET(way, v6) (((way)-EFW_INPUT) * 2 + !!(v6))
#define EFW_MATCHERS 4

PCN_MAP(gate, BPF_MAP_TYPE_ARRAY, __u32, struct efw_gate, 1);

/* By the set: the first chain, and the result of the policy. */
struct efw_hook {
	__u32 chain;
	__u32 result;
};
PCN_MAP(hooks, BPF_MAP_TYPE_ARRAY, __u32, struct efw_hook, 4);

/* The order of a rule: its chain, and its position there. */
#define CHAIN_SHIFT 20
/* How many jumps may be nested, how many rules and ends of chains a packet may traverse, and how many of them may count it. A packet
 * that needs more passes to the stack. */
#define DEPTH 16
#define STEPS 64
#define COUNTED 16

/* A packet among the rules; in a map, as a search leaves little stack. */
struct efw_work {
	struct efw_packet packet;
	struct pcn_classify_match match;
	__u32 set;
	__u32 chain;
	__u32 policy;
	__u32 depth;
	__u32 back[DEPTH]; /* orders behind which chains continue */
	__u32 refused;	   /* never accept it: a new connection gets its entry from the stack */
	__u32 counted;
	__u32 counters[COUNTED]; /* of rules that count it, if it is decided here */
};
PCN_MAP(work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct efw_work, 1);

/* What a step decides: continue, leave the packet to the stack's rules, accept it, accept it and pass it to the stack, or the reason
 * to drop it. */
#define GO_ON (-1)
#define LEFT 0
#define ACCEPTED (-2)
#define FOR_STACK (-3)

/* Masks an index to below a power of two, which the compiler knows it is, and the verifier of Linux 6.1 does not. */
PCN_INLINE __u64 within(__u64 index, const __u64 size)
{
	asm volatile("" : "+r"(index));
	return index & (size - 1);
}

/* Notes that a rule has matched. 0: there are too many. */
PCN_INLINE int note(struct efw_work *w, __u32 result)
{
	__u64 n = w->counted;

	if (n >= COUNTED)
		return 0;
	w->counted = n + 1;
	w->counters[within(n, COUNTED)] = EFW_COUNTER(result);
	return 1;
}

/* A rule or policy accepts a packet. */
PCN_INLINE int accept(const struct efw_work *w)
{
	return w->refused ? LEFT : ACCEPTED;
}

/* The chain has ended: the calling chain continues, or the policy decides. */
PCN_INLINE int leave(struct pcn_classify_key *key, struct efw_work *w)
{
	__u32 top = w->depth - 1, result = w->policy;

	if (top < DEPTH) {
		__u32 order = w->back[within(top, DEPTH)];

		w->depth = top;
		w->chain = order >> CHAIN_SHIFT;
		key->from = (__u64)order + 1;
		return GO_ON;
	}
	if (EFW_VERB(result) == EFW_STACK)
		return FOR_STACK;
	if (EFW_VERB(result) == EFW_MISS || !note(w, result))
		return LEFT;
	return EFW_VERB(result) == EFW_DROP ? EFW_POLICY : accept(w);
}

/* Takes the result of a search: GO_ON, LEFT, ACCEPTED, FOR_STACK, or the reason to drop the packet. */
PCN_GLOBAL int efw_step(struct efw_work *w PCN_NONNULL, struct pcn_classify_key *key PCN_NONNULL)
{
	__u32 result = w->match.result, order = w->match.order, verb = EFW_VERB(result);
	__u32 top = w->depth;

	if (order == (__u32)-1 || order >> CHAIN_SHIFT != w->chain)
		return leave(key, w);
	if (verb == EFW_STACK)
		return FOR_STACK;
	if (verb == EFW_MISS || !note(w, result))
		return LEFT;
	key->from = (__u64)order + 1;
	switch (verb) {
	case EFW_DROP:
		return EFW_RULE;
	case EFW_ACCEPT:
		return accept(w);
	case EFW_RETURN:
		return leave(key, w);
	case EFW_JUMP:
		if (top >= DEPTH)
			return LEFT;
		w->back[within(top, DEPTH)] = order;
		w->depth = top + 1;
		/* fallthrough */
	case EFW_GOTO:
		w->chain = EFW_CHAIN(result);
		key->from = (__u64)w->chain << CHAIN_SHIFT;
	}
	return GO_ON;
}

/* Starts with the rules of a hook: GO_ON, LEFT, or FOR_STACK if there are none. */
PCN_INLINE int begin(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_classify_key *key,
		     struct efw_work *w, const struct efw_gate *g)
{
	__u32 at = EFW_SET(w->packet.way, w->packet.flow.has & PCN_FLOW_IPV6);
	const struct efw_hook *h = bpf_map_lookup_elem(&hooks, &at);
	__u32 out = w->packet.way == EFW_FORWARD ? w->packet.route.ifindex : 0;

	w->set = pcn_classify_set(md, at);
	if (!h || out > 0xffff)
		return LEFT;
	if (!h->chain)
		return EFW_VERB(h->result) == EFW_STACK ? FOR_STACK : LEFT;
	if (pcn_classify_key_of(ctx, key, &w->packet.flow, pcn_classify_fields(w->set), out, 0))
		return LEFT;
	w->refused = 0;
	if (g->flags & EFW_TRACKED) {
		__u32 by = EFW_TRACKED_BY(w->packet.flow.has & PCN_FLOW_IPV6);

		w->refused = g->flags & by;
		switch (efw_connection(ctx, &w->packet, g->udp_timeout)) {
		case EFW_NONE:
			if (efw_is_new(ctx, &w->packet))
				pcn_classify_state(key, EFW_STATE_NEW);
			break;
		case EFW_ESTABLISHED:
			w->refused = 0;
			pcn_classify_state(key, EFW_STATE_ESTABLISHED);
			break;
		default:
			return LEFT;
		}
	}
	w->chain = h->chain;
	w->policy = h->result;
	w->depth = 0;
	w->counted = 0;
	key->from = (__u64)h->chain << CHAIN_SHIFT;
	return GO_ON;
}

/* Applies the host's rules to a packet: LEFT, ACCEPTED, FOR_STACK, or the reason to drop it. It is inlined because a search
 * needs nearly all of the nested calls that are allowed. */
PCN_INLINE int judge(struct CTXTYPE *ctx, struct pcn_md *md, struct efw_work *w,
		     const struct efw_gate *g)
{
	struct pcn_classify_key *key = pcn_classify_key();

	if (!key)
		return LEFT;
	int verdict = begin(ctx, md, key, w, g);
	if (verdict != GO_ON)
		return verdict;
#pragma clang loop unroll(disable)
	for (int i = 0; i < STEPS; i++) {
		pcn_classify(key, &w->match, w->set);
		verdict = efw_step(w, key);
		if (verdict != GO_ON)
			return verdict;
	}
	return LEFT;
}

/* Counts a packet for all rules that it has matched. */
PCN_INLINE void count(struct efw_work *w)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < COUNTED; i++) {
		if (i >= w->counted)
			break;
		__u32 counter = w->counters[i];
		pcn_count_rule(&counter, w->packet.length);
	}
}

/* Forwards a packet past the stack and returns the verdict, -1 if only the stack can forward it. At XDP, only outputs are sure to
 * accept redirected packets, and none of them is a VLAN netdev, whose tag is added here. */
PCN_INLINE int forward(struct CTXTYPE *ctx, struct pcn_md *md, struct efw_packet *p)
{
	struct pcn_bypass_exit out = {};

	if (p->way != EFW_FORWARD)
		return -1;
#ifdef PCN_XDP
	const struct pcn_bypass_exit *known = pcn_bypass_exit(p->route.ifindex);
	if (!known) {
		pcn_count(&bypass_to_stack, PCN_BYPASS_NO_OUTPUT);
		return -1;
	}
	out = *known;
#endif
	if (!p->resolved) {
		pcn_count(&bypass_to_stack, PCN_BYPASS_NO_WAY);
		return -1;
	}
	if (pcn_bypass_retag(ctx, md, 0, out.tag))
		return -1;
	if (pcn_hostfib_write(ctx, &p->route, out.tag))
		return out.tag ? pcn_pkt_drop(ctx, md, PCN_REASON_MALFORMED) : -1;
#ifdef PCN_XDP
	return pcn_pkt_redirect(ctx, md, out.output);
#else
	return pcn_pkt_redirect_netdev(ctx, md, p->route.ifindex);
#endif
}

/* Applies the matchers: EFW_MISS, EFW_ACCEPT, EFW_RETURN for the host's rules, or EFW_DROP. */
PCN_INLINE int matchers(struct CTXTYPE *ctx, struct pcn_md *md, struct efw_work *w)
{
	struct pcn_classify_key *key = pcn_classify_key();

	w->set = pcn_classify_set(md, EFW_MATCHERS);
	if (!key ||
	    pcn_classify_key_of(ctx, key, &w->packet.flow, pcn_classify_fields(w->set), 0, 0))
		return EFW_MISS;
	if (!pcn_classify(key, &w->match, w->set))
		return EFW_MISS;
	__u32 result = w->match.result, counter = EFW_COUNTER(result);
	pcn_count_rule(&counter, md->packet_len);
	return EFW_VERB(result);
}

/* Leaves a packet to the stack's rules: a cube behind this one must not take it past them. */
PCN_INLINE int to_rules(struct CTXTYPE *ctx, struct pcn_md *md)
{
	md->notes |= PCN_MD_UNDECIDED;
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	__u32 zero = 0;
	int manual = EFW_MISS;

	if (!has_matchers && !offload)
		return pcn_pkt_pass(ctx, md);
	const struct efw_gate *g = bpf_map_lookup_elem(&gate, &zero);
	if (!g)
		return to_rules(ctx, md);
	int open = offload && g->until && g->until > pcn_time_coarse();
	if (!has_matchers && !open)
		return to_rules(ctx, md);
	struct efw_work *w = bpf_map_lookup_elem(&work, &zero);
	if (!w)
		return to_rules(ctx, md);
	if (pcn_flow_read_common(ctx, &w->packet.flow) || !(w->packet.flow.has & PCN_FLOW_IP))
		return to_rules(ctx, md);
	if (has_matchers)
		manual = matchers(ctx, md, w);
	if (manual == EFW_DROP)
		return pcn_pkt_drop(ctx, md, EFW_BLOCKED);
	if (manual == EFW_RETURN || (manual != EFW_ACCEPT && !open))
		return to_rules(ctx, md);
	efw_read(ctx, md, &w->packet, g);
	if (w->packet.way == EFW_UNKNOWN)
		return to_rules(ctx, md);
	int sent, verdict = manual == EFW_ACCEPT ? ACCEPTED : judge(ctx, md, w, g);
	if (verdict == LEFT)
		return to_rules(ctx, md);
	if (verdict == FOR_STACK)
		return pcn_pkt_pass(ctx, md);
	sent = verdict == ACCEPTED ? forward(ctx, md, &w->packet) : 0;
	if (sent < 0)
		return pcn_pkt_pass(ctx, md);
	if (manual != EFW_ACCEPT)
		count(w);
	return verdict == ACCEPTED ? sent : pcn_pkt_drop(ctx, md, verdict);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
