// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Changes the ends of packets, and sends them on. */
#ifndef LBRP_TRANSLATE_H
#define LBRP_TRANSLATE_H

#include "session.h"

/* The byte of the checksum in the header of a protocol, 0: its checksum covers neither addresses nor ports. */
PCN_INLINE __u32 lbrp_check_at(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return 16;
	case IPPROTO_UDP:
		return 6;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return 2;
	}
	return 0;
}

/* Gives a packet the ends that its session says. -1 if its headers cannot be written. */
PCN_INLINE int lbrp_rewrite(struct CTXTYPE *ctx, const struct pcn_flow *flow,
			    const struct pcn_session *e, const int v6)
{
	__u32 at = lbrp_check_at(flow->protocol), flags = v6 ? PCN_CSUM_IPV6 : 0;
	__u32 addresses = e->address_delta;

	pcn_reach(ctx, flow->l4 + 20);
	void *l3 = pcn_header(ctx, flow->l3, v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	struct pcn_ports *ports = pcn_header(ctx, flow->l4, sizeof(struct pcn_icmp));
	__sum16 *check = pcn_header(ctx, flow->l4 + at, sizeof(*check));

	if (!l3 || !ports || !check)
		return -1;
	pcn_session_write(l3, e->source, e->destination, addresses, v6);
	if (!at) { /* SCTP, whose ports stay */
		if (v6)
			pcn_csum_bytes(ctx, addresses);
		return 0;
	}
	if (flow->has & PCN_FLOW_ICMP) {
		/* The one of the two that is not 0. */
		((struct pcn_icmp *)ports)->id = e->source_port | e->destination_port;
		if (!v6)
			addresses = 0;
	} else {
		ports->source = e->source_port;
		ports->destination = e->destination_port;
	}
	if (flow->protocol == IPPROTO_UDP)
		flags |= PCN_CSUM_UDP;
	pcn_csum_l4(ctx, ports, check, addresses, e->port_delta, flags);
	return 0;
}

/* Sends a packet back out of the port where it came in. */
PCN_INLINE int lbrp_turn(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct ethhdr *eth = pcn_data(ctx);

	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	struct pcn_macs macs = pcn_macs(eth);

	pcn_set_macs(eth, macs.from, macs.to);
	return pcn_pkt_send(ctx, md, md->in_port);
}

/* Sends a packet to the other side; from the backend port, if there are several frontends, to the one with the
 * packet's destination, else to all. `to` is in the memory of a map. */
PCN_INLINE int lbrp_cross(struct CTXTYPE *ctx, struct pcn_md *md, const struct lbrp_settings *s,
			  __u32 side, const __be32 *to)
{
	if (side == LBRP_FRONT)
		return s->backend ? pcn_pkt_send(ctx, md, s->backend - 1)
				  : pcn_pkt_drop(ctx, md, LBRP_NO_BACKEND);
	if (s->frontend)
		return pcn_pkt_send(ctx, md, s->frontend - 1);
	__u32 *port = bpf_map_lookup_elem(&frontends, to);
	return port ? pcn_pkt_send(ctx, md, *port) : pcn_pkt_flood(ctx, md);
}

/* Sends a packet that has new ends. */
PCN_INLINE int lbrp_forward(struct CTXTYPE *ctx, struct pcn_md *md, const struct lbrp_settings *s,
			    __u32 side, __u32 flags, const __be32 *to)
{
	if (flags & LBRP_TURN)
		return lbrp_turn(ctx, md);
	return lbrp_cross(ctx, md, s, side, to);
}

/* Stores the translation of a first fragment for the others. */
PCN_NOINLINE void lbrp_remember(const struct pcn_session *e, __u32 id)
{
	struct lbrp_work *w = lbrp_work();

	if (!w)
		return;
	struct lbrp_fragment_key *key = &w->fragment_key;
	struct lbrp_fragment *f = &w->fragment;

	pcn_address_copy(key->source, e->key.source);
	pcn_address_copy(key->destination, e->key.destination);
	key->id = id;
	key->zone = e->key.zone;
	key->protocol = e->key.protocol;
	pcn_address_copy(f->source, e->source);
	pcn_address_copy(f->destination, e->destination);
	f->seen = pcn_time_coarse();
	f->address_delta = e->address_delta;
	f->flags = e->flags;
	bpf_map_update_elem(&fragments, key, f, BPF_ANY);
}

/* A packet of a session. */
PCN_INLINE int lbrp_known(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow,
			  struct pcn_session *e, const struct lbrp_settings *s, __u32 side)
{
	int failed;

	lbrp_account(md, e, flow);
	if (flow->fragment == PCN_FRAGMENT_FIRST)
		lbrp_remember(e, flow->id);
	if (flow->has & PCN_FLOW_IPV6)
		failed = lbrp_rewrite(ctx, flow, e, 1);
	else
		failed = lbrp_rewrite(ctx, flow, e, 0);
	if (failed)
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	return lbrp_forward(ctx, md, s, side, e->flags, e->destination);
}

#endif
