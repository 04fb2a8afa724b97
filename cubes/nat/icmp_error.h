// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* ICMP errors (RFC 5508, 4): the packet inside travelled in the other direction, so its addresses
 * and ports are those of a session. They are translated back inside the error, with all checksums.
 * Errors neither create sessions nor keep them alive. */
#ifndef NAT_ICMP_ERROR_H
#define NAT_ICMP_ERROR_H

#include "rewrite.h"

/* Where the headers of the packet inside are. */
struct nat_inner {
	void *l3;
	void *l4;
	void *end;
	__u32 proto;
};

/* Finds the headers of the packet inside. -1 if they are incomplete. */
PCN_INLINE int nat_inner_headers(struct CTXTYPE *ctx, const struct pcn_flow *flow,
				 struct nat_inner *in, const int v6)
{
	if (!(flow->has & PCN_FLOW_L4))
		return -1;
	in->l3 = pcn_header(ctx, flow->l3, v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	in->l4 = pcn_header(ctx, flow->l4, 0);
	in->end = pcn_data_end(ctx);
	in->proto = flow->protocol;
	return in->l3 && in->l4 ? 0 : -1;
}

/* The key of the packet inside, as that of a packet in the direction of the error. -1 if it has no
 * ports: the key's are 0. */
PCN_INLINE int nat_inner_key(const struct pcn_flow *flow, const struct nat_inner *in,
			     struct nat_key *key, const int egress, const int v6)
{
	nat_key(key, flow, !egress, v6);
	key->zone ^= NAT_IN; /* the entry is that for the direction of the error */
	if (flow->fragment == PCN_FRAGMENT_LATER)
		return -1;
	if (!pcn_has_ports(in->proto) && in->proto != (v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
		return 0;
	if (in->l4 + 8 > in->end)
		return -1;
	return flow->has & PCN_FLOW_PORTS || (v6 ? pcn_icmp6_has_id(flow->icmp_type)
						 : pcn_icmp_has_id(flow->icmp_type))
		       ? 0
		       : -1;
}

/* Translates the L4 header inside; returns the difference for the checksum of the error. */
PCN_INLINE __u32 nat_rewrite_inner(struct nat_inner *in, const struct nat_session *s,
				   const int egress, const int v6)
{
	struct pcn_ports *ports = in->l4;
	struct pcn_icmp *icmp = in->l4;
	__u32 diff = (__u32)s->addr_delta + s->port_delta;

	if (in->proto == (v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
		if (in->l4 + 8 > in->end)
			return 0;
		icmp->id = s->port;
		return s->port_delta + pcn_csum_inner(&icmp->check, v6 ? diff : s->port_delta, 0);
	}
	if (!pcn_has_ports(in->proto) || in->proto == IPPROTO_SCTP || in->l4 + 8 > in->end)
		return 0;
	if (egress)
		ports->destination = s->port;
	else
		ports->source = s->port;
	if (in->proto != IPPROTO_TCP)
		return s->port_delta + pcn_csum_inner(in->l4 + 6, diff, in->proto == IPPROTO_UDP);
	if (in->l4 + 18 > in->end)
		return s->port_delta; /* RFC 792 only requires 8 bytes */
	return s->port_delta + pcn_csum_inner(in->l4 + 16, diff, 0);
}

/* Writes the session's outer address, and the checksum of the error. */
PCN_INLINE void nat_rewrite_outer(struct CTXTYPE *ctx, void *l3, struct pcn_icmp *icmp,
				  const struct nat_session *s, __u32 covered, const int egress,
				  const int v6)
{
	__u32 delta;

	if (v6) {
		struct ipv6hdr *ip = l3;
		const __be32 *to = s->addr;

		delta = pcn_csum_diff16(
			egress ? ip->saddr.in6_u.u6_addr32 : ip->daddr.in6_u.u6_addr32, to);
		nat_write_address(l3, to, delta, egress, 1);
		pcn_csum_l4(ctx, icmp, &icmp->check, delta, covered, PCN_CSUM_IPV6);
		return;
	}
	struct iphdr *ip = l3;
	delta = pcn_csum_diff4(egress ? ip->saddr : ip->daddr, s->addr[3]);
	nat_write_address(l3, &s->addr[3], delta, egress, 0);
	icmp->check = pcn_csum_add(icmp->check, covered);
}

/* The result for an error that belongs to no session. An outgoing error must not reveal an internal
 * address: it is dropped if the packet inside has one. If the error itself comes from one, for
 * example from an internal router about untranslated packets, it gets the external address. */
PCN_INLINE int nat_unrelated(struct CTXTYPE *ctx, struct pcn_md *md, void *l3,
			     struct pcn_icmp *icmp, const struct nat_key *key, const int egress,
			     const int v6)
{
	struct nat_open *o = nat_scratch();

	if (!egress || nat_offered(md, egress) || !o)
		return pcn_pkt_pass(ctx, md);
	if (nat_hides(key->local, key->remote))
		return pcn_pkt_drop(ctx, md, NAT_ICMP_UNRELATED);
	if (v6) {
		struct ipv6hdr *ip = l3;
		pcn_address_copy(o->in.local, ip->saddr.in6_u.u6_addr32);
		pcn_address_copy(o->remote, ip->daddr.in6_u.u6_addr32);
	} else {
		struct iphdr *ip = l3;
		pcn_address_set4(o->in.local, ip->saddr);
		pcn_address_set4(o->remote, ip->daddr);
	}
	struct nat_source *rule = nat_hides(o->in.local, o->remote);
	if (rule) {
		nat_choose_address(o, rule);
		pcn_address_copy(o->entry.addr, o->out.local);
		nat_rewrite_outer(ctx, l3, icmp, &o->entry, 0, egress, v6);
	}
	return pcn_pkt_pass(ctx, md);
}

/* Translates the ICMP error in the scratch area, where the packet inside was also read. Returns a
 * verdict. */
PCN_INLINE int nat_error(struct CTXTYPE *ctx, struct pcn_md *md, const int egress, const int v6)
{
	struct nat_session *s = NULL;
	struct nat_open *o = nat_scratch();
	struct nat_key key;
	struct nat_inner in;
	__u32 covered;

	if (!o)
		return pcn_pkt_drop(ctx, md, NAT_SESSION_TABLE_FULL);
	pcn_reach(ctx, o->inner.l4 + 20);
	void *ip = pcn_header(ctx, o->flow.l3, v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	struct pcn_icmp *icmp = pcn_header(ctx, o->flow.l4, sizeof(*icmp));
	if (!ip || !icmp || nat_inner_headers(ctx, &o->inner, &in, v6))
		return nat_malformed(ctx, md, egress);
	if (!nat_inner_key(&o->inner, &in, &key, egress, v6))
		s = nat_translation(&key);
	if (s && nat_is_identity(s, &key))
		s = NULL;
	if (!s || (nat_offered(md, egress) && !(s->flags & NAT_HAIRPIN)))
		return nat_unrelated(ctx, md, ip, icmp, &key, egress, v6);
	covered = nat_rewrite_inner(&in, s, egress, v6);
	nat_write_address(in.l3, v6 ? s->addr : &s->addr[3], s->addr_delta, !egress, v6);
	if (v6)
		covered += s->addr_delta; /* IPv4's own checksum compensates for it */
	nat_rewrite_outer(ctx, ip, icmp, s, covered, egress, v6);
	pcn_count(&counters, NAT_ICMP_ERRORS);
	return egress && hairpin && (s->flags & NAT_HAIRPIN) ? nat_turn(ctx, md)
							     : pcn_pkt_pass(ctx, md);
}

PCN_GLOBAL int nat_error_in4(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	return nat_error(ctx, md, NAT_INGRESS, 0);
}

PCN_GLOBAL int nat_error_out4(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	return nat_error(ctx, md, NAT_EGRESS, 0);
}

PCN_GLOBAL int nat_error_in6(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	return nat_error(ctx, md, NAT_INGRESS, 1);
}

PCN_GLOBAL int nat_error_out6(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	return nat_error(ctx, md, NAT_EGRESS, 1);
}

#endif
