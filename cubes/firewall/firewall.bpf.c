// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A stateful firewall for a port or a netdev: a chain of rules for packets on their way in, and one for those on
 * their way out. The first rule that matches a packet decides, or else the chain's default. */
#include <pcn/cube.h>
#include <pcn/classify.h>
#include <pcn/conntrack_account.h>
#include <pcn/conntrack_event.h>
#include <pcn/conntrack_share.h>
#include <pcn/report.h>
#include <pcn/rule_counters.h>

#include "limit.h"

enum firewall_reason {
	FIREWALL_TRUNCATED = PCN_REASON_FIRST, /* shorter than its Ethernet header and VLAN tags */
	FIREWALL_RULE,			       /* as a rule says */
	FIREWALL_DEFAULT,	    /* no rule matches, and the chain's default is DROP */
	FIREWALL_REJECTED_AND_TOLD, /* as a rule says, and the sender is told */
	FIREWALL_REJECTED_SILENTLY, /* the same, above reject-limit */
	FIREWALL_OVER_LIMIT,	    /* above the limit of its rule */
	FIREWALL_NO_ENTRY,	    /* no memory for another connection */
};
PCN_REASONS(firewall_reason);

PCN_CONFIG(bool, conntrack) = true;
PCN_CONFIG(bool, accounting) = false;
PCN_CONFIG(bool, session_events) = false;
PCN_CONFIG(bool, session_zone_shared) = false;
PCN_CONFIG(bool, accept_established) = true;
PCN_CONFIG(bool, ipv4) = true;
PCN_CONFIG(bool, ipv6) = false;
/* Options of pcn_ct_tcp. */
PCN_CONFIG(__u32, tcp_options) = 0;

/* The sets of rules that packets are compared with. Each is there twice, for packets on their way in and out. */
enum {
	RULES,	   /* for IP packets of the families in the configuration */
	LOG,	   /* LOG rules, for the same packets */
	NAMED,	   /* for all other packets: the rules that name such */
	NAMED_LOG, /* LOG rules, for the same packets */
};
#define DIRECTIONS 2
/* How many LOG rules a packet may match. */
#define LOGS_MAX 16

/* The result of a rule: its action, whether it has a limit, its chain, and the index of its counter. The actions have
 * the order of the model's. */
enum { DROP, ACCEPT, REJECT };
#define ACTION 3
#define LIMITED 4
#define EGRESS 8
#define COUNTER_SHIFT 4

/* The kind of messages about sessions. */
#define FIREWALL_SESSION PCN_REPORT_KINDS

/* What the rules know of a connection: a bit for the class of the packet. Neighbour discovery has a bit, too. */
#define CLASS(class) (1 << (class))
#define NEIGHBOUR_DISCOVERY 0x80

/* What the control plane says of a chain, by cube and direction. */
struct firewall_chain {
	__u32 result;	  /* of the default, like that of a rule */
	__u32 logs;	  /* whether there are LOG rules */
	__u32 interfaces; /* whether a rule names an interface */
};
PCN_MAP_PUBLIC(chains, BPF_MAP_TYPE_ARRAY, __u32, struct firewall_chain, PCN_MAX_CUBES *DIRECTIONS);

/* The numbers of netdevs that the rules of a cube name. */
struct firewall_netdev {
	__u32 cube;
	__u32 ifindex;
};
struct firewall_interface {
	__u32 number;
	char name[16];
};
PCN_MAP_PUBLIC_FLAGS(interfaces, BPF_MAP_TYPE_HASH, struct firewall_netdev,
		     struct firewall_interface, 65536, BPF_F_NO_PREALLOC);

/* The number of a netdev, 0 if no rule names it. */
PCN_INLINE __u32 number_of(const struct pcn_md *md, __u32 ifindex)
{
	struct firewall_netdev netdev = { pcn_instance(md), ifindex };
	const struct firewall_interface *i = bpf_map_lookup_elem(&interfaces, &netdev);

	return i ? i->number & 0xff : 0;
}

/* The netdevs of a packet as rules compare them: where it was received, and where it is sent. */
PCN_INLINE __u32 netdevs_of(struct CTXTYPE *ctx, const struct pcn_md *md, __u32 out)
{
#ifdef PCN_TC
	if (out)
		return number_of(md, ctx->ingress_ifindex) << 8 | number_of(md, ctx->ifindex);
	return number_of(md, ctx->ifindex) << 8;
#else
	return out ? 0 : number_of(md, ctx->ingress_ifindex) << 8;
#endif
}

PCN_INLINE const struct firewall_chain *chain_of(const struct pcn_md *md, __u32 out)
{
	__u32 at = pcn_instance(md) * DIRECTIONS + out;

	return bpf_map_lookup_elem(&chains, &at);
}

/* The number of a set, of packets on their way in (0) or out (1). The lowest bit is the direction. */
PCN_INLINE __u32 set_of(const struct pcn_md *md, __u32 which, __u32 out)
{
	return pcn_classify_set(md, which * DIRECTIONS + out);
}

/* The set of rules for a packet. */
PCN_INLINE __u32 rules_for(struct CTXTYPE *ctx, const struct pcn_md *md,
			   const struct pcn_flow *flow, __u32 out)
{
	if (((ipv4 && flow->ethertype == bpf_htons(ETH_P_IP)) ||
	     (ipv6 && flow->ethertype == bpf_htons(ETH_P_IPV6))) &&
	    !pcn_is_neighbour_discovery(ctx, flow))
		return set_of(md, RULES, out);
	return set_of(md, NAMED, out);
}

/* With the number of a set: the packet is compared with its LOG rules, too. */
#define LOGS 0x10000

/* Begins the key of a packet. */
PCN_INLINE const struct firewall_chain *begin_key(struct CTXTYPE *ctx, const struct pcn_md *md,
						  struct pcn_classify_key *key, __u32 out)
{
	const struct firewall_chain *chain = chain_of(md, out);

	pcn_classify_key_begin(key, chain && chain->interfaces ? netdevs_of(ctx, md, out) : 0,
			       md->traffic_class);
	return chain;
}

/* Ends the key of a packet, which is compared with the rules of a set. Returns the set and LOGS; -1 if there is no packet. */
PCN_INLINE int end_key(struct CTXTYPE *ctx, struct pcn_classify_key *key,
		       const struct firewall_chain *chain, __u32 set, __u32 state)
{
	__u32 fields = pcn_classify_fields(set), logs = 0;

	if (chain && chain->logs) {
		fields |= pcn_classify_fields(set + LOG * DIRECTIONS);
		logs = LOGS;
	}
	pcn_classify_state(key, state);
	return pcn_classify_key_end(ctx, key, fields) ? -1 : (int)(set | logs);
}

/* The bits for the state of a packet that is not tracked. */
PCN_INLINE __u32 untracked(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	return CLASS(PCN_CT_UNTRACKED) |
	       (pcn_is_neighbour_discovery(ctx, flow) ? NEIGHBOUR_DISCOVERY : 0);
}

/* Writes the key of a packet from its flow: what end_key returns. */
PCN_GLOBAL int firewall_key(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			    const struct pcn_flow *flow PCN_NONNULL, __u32 set, __u32 state)
{
	struct pcn_classify_key *key = pcn_classify_key();

	if (!key)
		return -1;
	const struct firewall_chain *chain = begin_key(ctx, md, key, set & 1);
	pcn_classify_flow(key, flow);
	return end_key(ctx, key, chain, set, state);
}

/* The same for a packet that is not tracked, which it reads. */
PCN_GLOBAL int firewall_read(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			     struct pcn_flow *flow PCN_NONNULL, __u32 out)
{
	__u32 set = set_of(md, ipv4 ? RULES : NAMED, out), state = CLASS(PCN_CT_UNTRACKED);
	struct pcn_classify_key *key = pcn_classify_key();

	if (!key)
		return -1;
	const struct firewall_chain *chain = begin_key(ctx, md, key, out);
	if (!pcn_classify_quick(ctx, key)) {
		if (pcn_flow_read_inline(ctx, flow))
			return -1;
		pcn_classify_flow(key, flow);
		set = rules_for(ctx, md, flow, out);
		state = untracked(ctx, flow);
	}
	return end_key(ctx, key, chain, set, state);
}

/* Counts the packet for a rule. */
PCN_INLINE void count(const struct pcn_md *md, __u32 result)
{
	__u32 counter = result >> COUNTER_SHIFT;

	pcn_count_rule(&counter, md->packet_len);
}

/* Counts the packet for a LOG rule that matches it, and reports it to the log. */
PCN_GLOBAL int firewall_log(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 result)
{
	count(md, result);
	return pcn_report(ctx, md, PCN_REPORT_LOGGED, result >> COUNTER_SHIFT, !!(result & EGRESS));
}

/* Does what takes more than a verdict: limits and rejects. Returns 0, or the reason to drop the packet. */
PCN_GLOBAL int firewall_apply(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			      const struct pcn_classify_key *key PCN_NONNULL, __u32 result)
{
	__u32 counter = result >> COUNTER_SHIFT;

	if ((result & ACTION) == ACCEPT)
		return firewall_within(key, counter) ? 0 : FIREWALL_OVER_LIMIT;
	return pcn_report(ctx, md, PCN_REPORT_REJECTED, counter, !!(result & EGRESS))
		       ? FIREWALL_REJECTED_AND_TOLD
		       : FIREWALL_REJECTED_SILENTLY;
}

/* Does what the rule says that matches a packet, or its chain's default. Returns 0, or the reason to drop it. */
PCN_INLINE int apply(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_classify_key *key,
		     __u32 set, const struct pcn_classify_match *match)
{
	__u32 result = match->result;
	int reason = FIREWALL_RULE;

	if (match->order == (__u32)-1) {
		const struct firewall_chain *chain = chain_of(md, set & 1);

		if (set & NAMED * DIRECTIONS || !chain)
			return 0;
		result = chain->result;
		reason = FIREWALL_DEFAULT;
	}
	count(md, result);
	switch (result & (ACTION | LIMITED)) {
	case ACCEPT:
		return 0;
	case DROP:
	case DROP | LIMITED:
		return reason;
	}
	return firewall_apply(ctx, md, key, result);
}

/* Compares a packet with the rules of a set, both of firewall_key: 0, or the reason to drop it. This is no function of
 * its own, since a search needs nearly all calls that may be nested. */
PCN_INLINE int judge(struct CTXTYPE *ctx, struct pcn_md *md, int which)
{
	struct pcn_classify_key *key = pcn_classify_key();
	struct pcn_classify_match match, logged;
	__u32 set = which & (LOGS - 1);

	if (which < 0 || !key)
		return FIREWALL_TRUNCATED;
	pcn_classify(key, &match, set);
#pragma clang loop unroll(disable)
	for (int i = 0; which & LOGS && i < LOGS_MAX; i++) {
		if (!pcn_classify(key, &logged, set + LOG * DIRECTIONS) ||
		    logged.order > match.order)
			break;
		firewall_log(ctx, md, logged.result);
		pcn_classify_after(key, &logged);
	}
	return apply(ctx, md, key, set, &match);
}

/* Tracks the connection of a packet, in the zone of the cube or one that it shares. Returns 1 if that decides: then w->refusal
 * is the reason to drop the packet, or else it passes. */
PCN_INLINE int track(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_conntrack_work *w)
{
	pcn_conntrack_track(ctx, w, pcn_conntrack_zone_of(md, session_zone_shared), tcp_options);
	if (w->refusal)
		return 1;
	if (accounting && w->class == PCN_CT_ESTABLISHED)
		pcn_conntrack_account(ctx, w);
	if (session_events && w->class == PCN_CT_ESTABLISHED)
		pcn_conntrack_event(ctx, md, w, FIREWALL_SESSION);
	/* Rules cannot see the ports of later fragments. */
	return pcn_conntrack_known(w) &&
	       (accept_established || w->flow.fragment == PCN_FRAGMENT_LATER);
}

/* Opens the connection of a packet that the rules accept. Returns 0, or the reason to drop it. */
PCN_INLINE int open(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_conntrack_work *w)
{
	if (pcn_conntrack_accept(w) < 0)
		return FIREWALL_NO_ENTRY;
	if (accounting && w->class == PCN_CT_NEW)
		pcn_conntrack_account(ctx, w);
	if (session_events && w->class == PCN_CT_NEW)
		pcn_conntrack_event(ctx, md, w, FIREWALL_SESSION);
	return 0;
}

/* Judges a packet on its way in (0) or out (1): 0, or the reason to drop it. */
PCN_INLINE int filter(struct CTXTYPE *ctx, struct pcn_md *md, const __u32 out)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();
	__u32 set, tracked = 0;
	int which, reason;

	if (!w)
		return FIREWALL_TRUNCATED;
	if (conntrack) {
		if (pcn_flow_read(ctx, &w->flow))
			return FIREWALL_TRUNCATED;
		set = rules_for(ctx, md, &w->flow, out);
		tracked = !(set & NAMED * DIRECTIONS);
		if (tracked && track(ctx, md, w))
			return w->refusal ? FIREWALL_NO_ENTRY : 0;
		which = firewall_key(ctx, md, &w->flow, set,
				     tracked ? CLASS(w->class & 7) : untracked(ctx, &w->flow));
	} else {
		which = firewall_read(ctx, md, &w->flow, out);
	}
	reason = judge(ctx, md, which);
	return reason || !tracked ? reason : open(ctx, md, w);
}

PCN_INLINE int verdict(struct CTXTYPE *ctx, struct pcn_md *md, int reason)
{
	return reason ? pcn_pkt_drop(ctx, md, reason) : pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return verdict(ctx, md, filter(ctx, md, 0));
}

PCN_EGRESS
{
	return verdict(ctx, md, filter(ctx, md, 1));
}

PCN_LICENSE;
