// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A stateful firewall for a port or a netdev: a chain of rules for packets on their way in, and one for those on
 * their way out. The first rule that matches a packet decides, or else the chain's default. */
#include <pcn/cube.h>
#include <pcn/classify.h>
#include <pcn/conntrack_account.h>
#include <pcn/conntrack_event.h>
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

struct firewall_chain {
	__u32 result;	  /* of the default, like that of a rule */
	__u32 logs;	  /* whether there are LOG rules */
	__u32 interfaces; /* whether a rule names an interface */
};
PCN_MAP(chains, BPF_MAP_TYPE_ARRAY, __u32, struct firewall_chain, DIRECTIONS);

/* The numbers of netdevs that rules name, by interface index. */
struct firewall_interface {
	__u32 number;
	char name[16];
};
PCN_MAP(interfaces, BPF_MAP_TYPE_HASH, __u32, struct firewall_interface, 4096);

/* The number of a netdev, 0 if no rule names it. */
PCN_INLINE __u32 number_of(__u32 ifindex)
{
	const struct firewall_interface *i = bpf_map_lookup_elem(&interfaces, &ifindex);

	return i ? i->number & 0xff : 0;
}

/* The netdevs of a packet as rules compare them: where it was received, and where it is sent. */
PCN_INLINE __u32 netdevs_of(struct CTXTYPE *ctx, __u32 out)
{
#ifdef PCN_TC
	if (out)
		return number_of(ctx->ingress_ifindex) << 8 | number_of(ctx->ifindex);
	return number_of(ctx->ifindex) << 8;
#else
	return out ? 0 : number_of(ctx->ingress_ifindex) << 8;
#endif
}

/* What the rules say about a packet; in a map, as a search leaves little stack. */
struct firewall_work {
	struct pcn_classify_match match;
	struct pcn_classify_match logged;
};
PCN_MAP(work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct firewall_work, 1);

/* The number of a set, of packets on their way in (0) or out (1). The lowest bit is the direction. */
PCN_INLINE __u32 set_of(const struct pcn_md *md, __u32 which, __u32 out)
{
	return pcn_classify_set(md, which * DIRECTIONS + out);
}

/* Writes the key of a packet that is compared with the rules of a set, and those of its LOG rules, if there are any:
 * then 1, else 0; -1 if there is no packet. */
PCN_GLOBAL int firewall_key(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			    const struct pcn_flow *flow PCN_NONNULL, __u32 set, __u32 state)
{
	__u32 out = set & 1, fields = pcn_classify_fields(set), logs = 0, netdevs = 0;
	const struct firewall_chain *chain = bpf_map_lookup_elem(&chains, &out);
	struct pcn_classify_key *key = pcn_classify_key();

	if (chain && chain->logs) {
		fields |= pcn_classify_fields(set + LOG * DIRECTIONS);
		logs = 1;
	}
	if (chain && chain->interfaces)
		netdevs = netdevs_of(ctx, out);
	if (!key || pcn_classify_key_of(ctx, key, flow, fields, netdevs, md->traffic_class))
		return -1;
	pcn_classify_state(key, state);
	return logs;
}

/* Counts the packet for a rule. */
PCN_INLINE void count(const struct pcn_md *md, __u32 result)
{
	__u32 counter = result >> COUNTER_SHIFT;

	pcn_count_rule(&counter, md->packet_len);
}

/* Counts the packet for a LOG rule that matches it, and reports it to the log. */
PCN_GLOBAL int firewall_log(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			    const struct firewall_work *is PCN_NONNULL)
{
	__u32 result = is->logged.result;

	count(md, result);
	return pcn_report(ctx, md, PCN_REPORT_LOGGED, result >> COUNTER_SHIFT, !!(result & EGRESS));
}

/* Does what the rule of a set says that matches the packet, or the chain's default. Returns 0, or the reason to drop
 * it. */
PCN_GLOBAL int firewall_apply(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			      const struct pcn_flow *flow PCN_NONNULL,
			      const struct firewall_work *is PCN_NONNULL, __u32 set)
{
	__u32 result = is->match.result, out = set & 1, counter;
	int reason = FIREWALL_RULE;

	if (is->match.order == (__u32)-1) {
		const struct firewall_chain *chain = bpf_map_lookup_elem(&chains, &out);

		if (set & NAMED * DIRECTIONS || !chain)
			return 0;
		result = chain->result;
		reason = FIREWALL_DEFAULT;
	}
	count(md, result);
	counter = result >> COUNTER_SHIFT;
	if ((result & ACTION) == ACCEPT)
		return result & LIMITED && !firewall_within(flow, counter) ? FIREWALL_OVER_LIMIT
									   : 0;
	if ((result & ACTION) == DROP)
		return reason;
	return pcn_report(ctx, md, PCN_REPORT_REJECTED, counter, out) ? FIREWALL_REJECTED_AND_TOLD
								      : FIREWALL_REJECTED_SILENTLY;
}

/* Compares a packet with the rules of a set: 0, or the reason to drop it. This is no function of its own, since a search
 * needs nearly all calls that may be nested. */
PCN_INLINE int judge(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow, __u32 set,
		     __u32 state)
{
	__u32 zero = 0;
	struct firewall_work *is = bpf_map_lookup_elem(&work, &zero);
	struct pcn_classify_key *key = pcn_classify_key();
	int logs = firewall_key(ctx, md, flow, set, state);

	if (!is || !key || logs < 0)
		return FIREWALL_TRUNCATED;
	pcn_classify(key, &is->match, set);
#pragma clang loop unroll(disable)
	for (int i = 0; logs && i < LOGS_MAX; i++) {
		if (!pcn_classify(key, &is->logged, set + LOG * DIRECTIONS) ||
		    is->logged.order > is->match.order)
			break;
		firewall_log(ctx, md, is);
		pcn_classify_after(key, &is->logged);
	}
	return firewall_apply(ctx, md, flow, is, set);
}

/* Judges a packet on its way in (0) or out (1). Each cube has its own zone in the table of connections. */
PCN_INLINE int filter(struct CTXTYPE *ctx, struct pcn_md *md, const __u32 out)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();
	__u32 set = set_of(md, NAMED, out), state = CLASS(PCN_CT_UNTRACKED);

	if (!w || pcn_flow_read(ctx, &w->flow))
		return pcn_pkt_drop(ctx, md, FIREWALL_TRUNCATED);
	if (pcn_is_neighbour_discovery(ctx, &w->flow))
		state |= NEIGHBOUR_DISCOVERY;
	else if ((ipv4 && w->flow.ethertype == bpf_htons(ETH_P_IP)) ||
		 (ipv6 && w->flow.ethertype == bpf_htons(ETH_P_IPV6)))
		set = set_of(md, RULES, out);
	if (conntrack && !(set & NAMED * DIRECTIONS)) {
		state = CLASS(pcn_conntrack_track(ctx, w, pcn_instance(md), tcp_options) & 7);
		if (w->refusal)
			return pcn_pkt_drop(ctx, md, FIREWALL_NO_ENTRY);
		if (accounting && w->class == PCN_CT_ESTABLISHED)
			pcn_conntrack_account(ctx, w);
		if (session_events && w->class == PCN_CT_ESTABLISHED)
			pcn_conntrack_event(ctx, w, FIREWALL_SESSION);
		/* Rules cannot see the ports of later fragments. */
		if (pcn_conntrack_known(w) &&
		    (accept_established || w->flow.fragment == PCN_FRAGMENT_LATER))
			return pcn_pkt_pass(ctx, md);
	}
	int reason = judge(ctx, md, &w->flow, set, state);
	if (!reason && conntrack && !(set & NAMED * DIRECTIONS)) {
		if (pcn_conntrack_accept(w) < 0)
			reason = FIREWALL_NO_ENTRY;
		else if (accounting && w->class == PCN_CT_NEW)
			pcn_conntrack_account(ctx, w);
		if (session_events && !reason && w->class == PCN_CT_NEW)
			pcn_conntrack_event(ctx, w, FIREWALL_SESSION);
	}
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
