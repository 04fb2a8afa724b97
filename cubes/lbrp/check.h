// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Health checks. The load balancer has no addresses but the source of checks, which exists at the backend port alone: ARP and
 * neighbour discovery for it are answered there, and answers to checks go to the control plane. Packets of sessions do not
 * come here. */
#ifndef LBRP_CHECK_H
#define LBRP_CHECK_H

#include "lbrp.h"
#include <pcn/answer.h>
#include <pcn/balance_checks.h>

/* Checks have a source: otherwise their code is not there. */
PCN_CONFIG(bool, checks) = false;

/* The source of checks. */
struct lbrp_source {
	pcn_address address;  /* IPv4; zeros: none */
	pcn_address address6; /* IPv6 */
	__u64 mac;
	struct pcn_bucket_limit control; /* ARP and neighbour discovery for the control plane */
	struct pcn_bucket_limit answers; /* to checks */
};
PCN_MAP_FLAGS(check_source, BPF_MAP_TYPE_ARRAY, __u32, struct lbrp_source, 1, BPF_F_MMAPABLE);

/* What the limits apply to: a bucket each. */
enum lbrp_checks_limited { LBRP_LIMIT_CONTROL, LBRP_LIMIT_ANSWERS, LBRP_CHECKS_LIMITS };
PCN_MAP(checks_limited, BPF_MAP_TYPE_ARRAY, __u32, __u64, LBRP_CHECKS_LIMITS);

/* The packet is not for the source of checks. */
#define LBRP_NOT_FOR_CHECKS (-1)

PCN_INLINE struct lbrp_source *lbrp_source(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&check_source, &only);
}

/* Gives a packet to the control plane, within a limit: the answer to a check, or else of ARP or neighbour discovery. */
PCN_GLOBAL int lbrp_to_checks(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 which)
{
	__u64 *bucket = bpf_map_lookup_elem(&checks_limited, &which);
	struct lbrp_source *s = lbrp_source();

	if (!s || !bucket)
		return pcn_pkt_drop(ctx, md, LBRP_CHECK_LIMIT);
	const struct pcn_bucket_limit *limit = &s->control;
	__u32 reason = LBRP_NEIGHBOUR;

	if (which == LBRP_LIMIT_ANSWERS) {
		limit = &s->answers;
		reason = LBRP_CHECK_ANSWER;
	}
	if (!pcn_bucket_take(bucket, limit, 1, pcn_time_coarse()))
		return pcn_pkt_drop(ctx, md, LBRP_CHECK_LIMIT);
	return pcn_pkt_controller(ctx, md, reason);
}

/* An ARP packet without tags: a request for the source is answered, and a reply to it is for the control plane. */
PCN_INLINE int lbrp_check_arp(struct CTXTYPE *ctx, struct pcn_md *md, const struct lbrp_source *s)
{
	pcn_address target;
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct pcn_arp));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct pcn_arp *a = eth ? pcn_parse_arp(&c) : NULL;
	if (!a)
		return LBRP_NOT_FOR_CHECKS;
	pcn_address_set4(target, a->target);
	if (!pcn_address_same(target, s->address))
		return LBRP_NOT_FOR_CHECKS;
	if (!pcn_mac(a->sender_mac) || pcn_mac(a->sender_mac) & 1)
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	if (a->operation != bpf_htons(PCN_ARP_REQUEST))
		return lbrp_to_checks(ctx, md, LBRP_LIMIT_CONTROL);
	pcn_arp_reply(eth, a, s->mac);
	return pcn_pkt_send(ctx, md, md->in_port);
}

/* Neighbour discovery without tags: the same. */
PCN_INLINE int lbrp_check_nd(struct CTXTYPE *ctx, struct pcn_md *md, const struct lbrp_source *s)
{
	pcn_address target, to;
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, 14 + sizeof(struct ipv6hdr) + sizeof(struct pcn_nd));
	struct ethhdr *eth = pcn_parse_eth(&c);
	struct ipv6hdr *ip = eth ? pcn_parse_ipv6(&c) : NULL;
	struct pcn_nd *nd = ip ? pcn_cursor_take(&c, sizeof(*nd)) : NULL;
	if (!nd)
		return LBRP_NOT_FOR_CHECKS;
	pcn_address_set6(target, &nd->target);
	pcn_address_set6(to, &ip->daddr);
	if (nd->type == PCN_ND_ADVERTISEMENT && pcn_address_same(to, s->address6))
		return lbrp_to_checks(ctx, md, LBRP_LIMIT_CONTROL);
	if (nd->type != PCN_ND_SOLICITATION || !pcn_address_same(target, s->address6))
		return LBRP_NOT_FOR_CHECKS;
	if (nd->option != 1 || nd->option_len != 1 || nd->code || ip->hop_limit != 255 ||
	    ip->payload_len != bpf_htons(sizeof(*nd)) || pcn_ipv6_is_multicast(&ip->saddr) ||
	    pcn_nd_sum(ip, nd) != 0xffff || pcn_mac(nd->mac) & 1)
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	if (pcn_nd_advertise(ctx, s->mac, 0))
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	return pcn_pkt_send(ctx, md, md->in_port);
}

/* A packet of no service from the backend port, which is in the work area: LBRP_NOT_FOR_CHECKS, or its verdict if it is for
 * the source of checks. */
PCN_GLOBAL int lbrp_check(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	struct lbrp_source *s = lbrp_source();
	struct lbrp_work *w = lbrp_work();

	if (!s || !w || w->flow.vlan != PCN_FLOW_UNTAGGED)
		return LBRP_NOT_FOR_CHECKS;
	const struct pcn_flow *flow = &w->flow;

	if (flow->ethertype == bpf_htons(ETH_P_ARP))
		return lbrp_check_arp(ctx, md, s);
	if (flow->has & PCN_FLOW_IPV6 && pcn_is_neighbour_discovery(ctx, flow))
		return lbrp_check_nd(ctx, md, s);
	if (!(flow->has & PCN_FLOW_IP) || (!pcn_address_same(flow->destination, s->address) &&
					   !pcn_address_same(flow->destination, s->address6)))
		return LBRP_NOT_FOR_CHECKS;
	if (!pcn_check_is_answer(flow))
		return pcn_pkt_drop(ctx, md, LBRP_NOT_A_CHECK);
	return lbrp_to_checks(ctx, md, LBRP_LIMIT_ANSWERS);
}

#endif
