// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Packets that are no ordinary packets of a session: ICMP errors, later fragments, and those of no service. */
#ifndef LBRP_OTHER_H
#define LBRP_OTHER_H

#include "check.h"
#include "translate.h"

/* Where an untagged ARP packet begins. */
#define LBRP_ARP sizeof(struct ethhdr)

/* Renumbers an IPv4 address at byte `at` of the frame, if it has the bits `from` under the mask. Returns the difference
 * for checksums. */
PCN_INLINE __u32 lbrp_renumber_at(struct CTXTYPE *ctx, __u32 at, __be32 from, __be32 to,
				  __be32 mask)
{
	__be32 *address = pcn_header(ctx, at, sizeof(*address)), was;

	if (!address || (*address & mask) != from)
		return 0;
	was = *address;
	*address = (was & ~mask) | to;
	return pcn_csum_diff4(was, *address);
}

/* Updates the checksums of TCP or UDP in an ICMP error, which w->inner was read from, and of the error. */
PCN_INLINE void lbrp_renumber_inner(struct CTXTYPE *ctx, const struct lbrp_work *w, __u32 delta)
{
	__u8 protocol = w->inner.protocol;

	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return;
	__sum16 *check = pcn_header(ctx, w->inner.l4 + lbrp_check_at(protocol), sizeof(*check));
	struct pcn_icmp *icmp = pcn_header(ctx, w->flow.l4, sizeof(*icmp));

	if (check && icmp)
		icmp->check = pcn_csum_add(icmp->check,
					   pcn_csum_inner(check, delta, protocol == IPPROTO_UDP));
}

/* Renumbers a client in a packet of no service: its source to the backend, its destination from there, also in ARP and in
 * the packet of an ICMP error. Returns 0. */
PCN_GLOBAL int lbrp_renumber(struct CTXTYPE *ctx, __u32 side)
{
	struct lbrp_settings *s = lbrp_settings();
	struct lbrp_work *w = lbrp_work();

	if (!s || !w)
		return 0;
	const struct pcn_flow *flow = &w->flow;
	__be32 from = side == LBRP_FRONT ? s->range : s->new_range;
	__be32 to = side == LBRP_FRONT ? s->new_range : s->range;
	__u32 at = flow->l4 + lbrp_check_at(flow->protocol);

	if (flow->ethertype == bpf_htons(ETH_P_ARP)) {
		/* The sender's address, or the target's. */
		if (flow->vlan == PCN_FLOW_UNTAGGED)
			lbrp_renumber_at(ctx, LBRP_ARP + (side == LBRP_FRONT ? 14 : 24), from, to,
					 s->mask);
		return 0;
	}
	if (flow->ethertype != bpf_htons(ETH_P_IP) || !(flow->has & PCN_FLOW_L4))
		return 0;
	pcn_reach(ctx, flow->l4 + sizeof(struct pcn_icmp) + sizeof(struct iphdr));
	__u32 delta =
		lbrp_renumber_at(ctx, flow->l3 + (side == LBRP_FRONT ? 12 : 16), from, to, s->mask);
	struct iphdr *ip = pcn_header(ctx, flow->l3, sizeof(*ip));
	if (!ip)
		return 0;
	pcn_csum_ipv4(ip, delta);
	if (flow->fragment == PCN_FRAGMENT_LATER)
		return 0;
	if (flow->has & PCN_FLOW_ICMP) {
		__u32 inner = flow->l4 + sizeof(struct pcn_icmp);

		if (!pcn_icmp_is_error(flow->icmp_type))
			return 0;
		delta = lbrp_renumber_at(ctx, inner + (side == LBRP_FRONT ? 16 : 12), from, to,
					 s->mask);
		ip = pcn_header(ctx, inner, sizeof(*ip));
		if (ip) /* its own checksum makes up for the address, so that of the error stays */
			pcn_csum_ipv4(ip, delta);
		lbrp_renumber_inner(ctx, w, delta);
		return 0;
	}
	__sum16 *check = pcn_header(ctx, at, sizeof(*check));
	void *l4 = pcn_header(ctx, flow->l4, 0);
	if (!delta || !check || !l4)
		return 0;
	if (flow->protocol == IPPROTO_UDP)
		pcn_csum_l4(ctx, l4, check, delta, 0, PCN_CSUM_UDP);
	else if (flow->protocol == IPPROTO_TCP)
		pcn_csum_l4(ctx, l4, check, delta, 0, 0);
	return 0;
}

/* Sets the destination of an ARP packet from the backend port, so that it leaves by the frontend port of its target. */
PCN_INLINE void lbrp_aim_arp(struct CTXTYPE *ctx, struct lbrp_work *w)
{
	__be32 target;

	if (w->flow.ethertype != bpf_htons(ETH_P_ARP) || w->flow.vlan != PCN_FLOW_UNTAGGED ||
	    pcn_load_bytes(ctx, LBRP_ARP + 24, &target, sizeof(target)))
		return;
	pcn_address_set4(w->flow.destination, target);
}

/* A packet of no service: it crosses to the other side as it is, but for clients that are renumbered. */
PCN_INLINE int lbrp_foreign(struct CTXTYPE *ctx, struct pcn_md *md, struct lbrp_work *w,
			    const struct lbrp_settings *s, __u32 side)
{
	if (checks && side == LBRP_BACK) {
		int verdict = lbrp_check(ctx, md);

		if (verdict != LBRP_NOT_FOR_CHECKS)
			return verdict;
	}
	if (side == LBRP_BACK && !s->frontend)
		lbrp_aim_arp(ctx, w);
	if (renumbers) {
		lbrp_renumber(ctx, side);
		if (side == LBRP_BACK && (w->flow.destination[3] & s->mask) == s->new_range)
			w->flow.destination[3] = (w->flow.destination[3] & ~s->mask) | s->range;
	}
	return lbrp_cross(ctx, md, s, side, w->flow.destination);
}

/* Translates the L4 header of a packet in an ICMP error back; returns the difference for the checksum of the error. */
PCN_INLINE __u32 lbrp_rewrite_inner(struct CTXTYPE *ctx, const struct pcn_flow *inner,
				    const struct pcn_session *e, const int v6)
{
	struct pcn_ports *ports = pcn_header(ctx, inner->l4, sizeof(struct pcn_icmp));
	__u32 at = lbrp_check_at(inner->protocol), is_icmp = inner->has & PCN_FLOW_ICMP;
	__u32 diff = e->port_delta + (is_icmp && !v6 ? 0 : (__u32)e->address_delta);

	if (!ports || !at)
		return 0;
	if (is_icmp) {
		((struct pcn_icmp *)ports)->id = e->source_port | e->destination_port;
	} else {
		ports->source = e->destination_port;
		ports->destination = e->source_port;
	}
	__sum16 *check = pcn_header(ctx, inner->l4 + at, sizeof(*check));
	if (!check) /* RFC 792 only requires 8 bytes */
		return e->port_delta;
	return e->port_delta + pcn_csum_inner(check, diff, inner->protocol == IPPROTO_UDP);
}

/* Translates an ICMP error for its session. -1 if its headers cannot be written. */
PCN_INLINE int lbrp_rewrite_error(struct CTXTYPE *ctx, struct lbrp_work *w,
				  const struct pcn_session *e, const int v6)
{
	const __u32 size = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);

	pcn_reach(ctx, w->inner.l4 + 20);
	void *l3 = pcn_header(ctx, w->flow.l3, size), *inner = pcn_header(ctx, w->inner.l3, size);
	struct pcn_icmp *icmp = pcn_header(ctx, w->flow.l4, sizeof(*icmp));

	if (!l3 || !inner || !icmp)
		return -1;
	pcn_session_write(inner, e->destination, e->source, e->address_delta, v6);
	__u32 covered = lbrp_rewrite_inner(ctx, &w->inner, e, v6);
	const __be32 *source = e->flags & LBRP_SAME_SOURCE ? w->flow.source : e->source;
	__u16 delta =
		pcn_session_delta(w->flow.source, source, w->flow.destination, e->destination);

	pcn_session_write(l3, source, e->destination, delta, v6);
	if (v6) /* IPv4's own checksum inside makes up for the addresses */
		pcn_csum_l4(ctx, icmp, &icmp->check, delta, covered + e->address_delta,
			    PCN_CSUM_IPV6);
	else
		icmp->check = pcn_csum_add(icmp->check, covered);
	return 0;
}

/* The session of the packet in an ICMP error, as the entry for packets in the direction of the error. */
PCN_INLINE struct pcn_session *lbrp_of_error(struct CTXTYPE *ctx, struct lbrp_work *w, __u32 side)
{
	struct pcn_session_key *key = &w->key;

	__builtin_memset(&w->inner, 0, sizeof(w->inner));
	pcn_flow_read_inner(ctx, &w->inner, w->flow.l4 + sizeof(struct pcn_icmp),
			    w->flow.ethertype);
	if (!(w->inner.has & PCN_FLOW_L4) || w->inner.fragment == PCN_FRAGMENT_LATER ||
	    lbrp_key(key, &w->inner, side))
		return NULL;
	__be16 port = key->source_port;

	pcn_address_copy(key->source, w->inner.destination);
	pcn_address_copy(key->destination, w->inner.source);
	key->source_port = key->destination_port;
	key->destination_port = port;
	return pcn_session_find(key);
}

/* The same for either family. A function of its own, since lbrp_error needs the stack for reading the packet inside. */
PCN_GLOBAL int lbrp_translate_error(struct CTXTYPE *ctx, const struct pcn_session *e PCN_NONNULL)
{
	struct lbrp_work *w = lbrp_work();

	if (!w)
		return -1;
	if (w->flow.has & PCN_FLOW_IPV6)
		return lbrp_rewrite_error(ctx, w, e, 1);
	return lbrp_rewrite_error(ctx, w, e, 0);
}

/* An ICMP error: goes to the server or client that it is for, with the packet inside as that has sent it. */
PCN_GLOBAL int lbrp_error(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 side)
{
	struct lbrp_work *w = lbrp_work();
	struct lbrp_settings *s = lbrp_settings();

	if (!w || !s)
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	struct pcn_session *e = lbrp_of_error(ctx, w, side);
	if (!e || !lbrp_is_valid(e, s))
		return lbrp_foreign(ctx, md, w, s, side);
	if (lbrp_translate_error(ctx, e))
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	pcn_count(&counters, LBRP_ICMP_ERRORS);
	return lbrp_forward(ctx, md, s, side, e->flags, e->destination);
}

/* How long a stored translation is valid: as long as a host waits for the rest of a datagram (RFC 1122: 60 to 120 s). */
#define LBRP_FRAGMENT_NS 60000000000ULL

/* A later fragment: gets the addresses that the first one of its datagram got. */
PCN_GLOBAL int lbrp_later(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 side)
{
	struct lbrp_work *w = lbrp_work();
	struct lbrp_settings *s = lbrp_settings();

	if (!w || !s)
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	struct lbrp_fragment_key *key = &w->fragment_key;
	int v6 = w->flow.has & PCN_FLOW_IPV6;

	pcn_address_copy(key->source, w->flow.source);
	pcn_address_copy(key->destination, w->flow.destination);
	key->id = w->flow.id;
	key->zone = side;
	key->protocol = w->flow.protocol;
	struct lbrp_fragment *f = bpf_map_lookup_elem(&fragments, key);
	if (!f || pcn_aged(pcn_time_coarse(), f->seen, LBRP_FRAGMENT_NS)) {
		struct pcn_service_key vip = { .protocol = v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP };

		pcn_address_copy(vip.address, w->flow.destination);
		if (bpf_map_lookup_elem(&services, &vip))
			return pcn_pkt_drop(ctx, md, LBRP_FIRST_UNKNOWN);
		return lbrp_foreign(ctx, md, w, s, side);
	}
	pcn_reach(ctx, w->flow.l4);
	void *l3 = pcn_header(ctx, w->flow.l3, sizeof(struct iphdr));
	void *l3v6 = pcn_header(ctx, w->flow.l3, sizeof(struct ipv6hdr));
	if (!l3 || (v6 && !l3v6))
		return pcn_pkt_drop(ctx, md, LBRP_MALFORMED);
	if (v6) {
		pcn_session_write(l3v6, f->source, f->destination, f->address_delta, 1);
		pcn_csum_bytes(ctx, f->address_delta);
	} else {
		pcn_session_write(l3, f->source, f->destination, f->address_delta, 0);
	}
	pcn_count(&counters, LBRP_FRAGMENTS);
	return lbrp_forward(ctx, md, s, side, f->flags, f->destination);
}

#endif
