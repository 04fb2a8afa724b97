// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* New connections of a NAT whose rules are the table nat. Each is compared with the rules once for each side, as in Linux,
 * so one that no rule translates has a session, too, which says what it is. A connection from outside has an inbound
 * session, of PREROUTING; on its way out it is compared with POSTROUTING, and may get another session, of the other side. */
#ifndef NAT_CONNECTION_H
#define NAT_CONNECTION_H

#include "fragment.h"
#include "policy.h"
#include "rewrite.h"

/* In the rule of an inbound session: it was compared with POSTROUTING. */
#define NAT_JUDGED 0x80000000
/* In the rule of an inbound session: the host itself has begun the connection, to a destination that OUTPUT has changed. So
 * packets are translated on the other side: on their way out, and answers on their way in. Also in the rule of a session that
 * POSTROUTING has added to it. */
#define NAT_FROM_HOST 0x40000000

/* The loopback netdev, on whose way in packets come from the host, which has translated them on their way out. */
#define NAT_LOOPBACK 1

/* The key of a zone, without its family, by which a packet of a session has the other direction. */
PCN_INLINE void nat_reversed(struct nat_key *to, const struct nat_key *key, __u16 outside)
{
	int query = key->proto == IPPROTO_ICMP || key->proto == IPPROTO_ICMPV6;

	pcn_address_copy(to->local, key->remote);
	pcn_address_copy(to->remote, key->local);
	to->local_port = query ? key->local_port : key->remote_port;
	to->remote_port = query ? 0 : key->local_port;
	to->zone = (key->zone & ~NAT_IN) | outside;
	to->proto = key->proto;
	to->zero = 0;
}

/* The internal endpoint of a connection from outside, by the result of PREROUTING. NAT_OPENED: it is to be opened;
 * NAT_UNTOUCHED, or a drop reason. */
PCN_NOINLINE int nat_policy_in(struct nat_open *o, __u32 kind)
{
	__u32 port = bpf_ntohs(o->out.local_port), ports = o->to.port_last - o->to.port_first + 1;

	if (o->entry.progress.state == PCN_CT_NONE) /* an RST */
		return NAT_UNTOUCHED;
	pcn_address_copy(o->in.local, o->out.local);
	o->in.local_port = o->out.local_port;
	o->entry.rule = o->to.rule;
	o->entry.origin = NAT_DNAT;
	switch (o->to.does) {
	case NAT_ROW_REDIRECT:
		o->entry.origin = NAT_PORT_FORWARDING;
		if (!o->to.count)
			return NAT_NO_ADDRESS;
		break;
	case NAT_ROW_DNAT:
		break;
	default:
		o->entry.flags = NAT_OWN;
		return NAT_OPENED;
	}
	if (o->to.count)
		nat_pick(o->in.local, o->to.first, o->to.count, o->remote);
	if (o->to.port_last && (kind == NAT_PORTS || kind == NAT_FIXED)) {
		if (o->to.random)
			port = bpf_get_prandom_u32();
		port = o->to.port_first + port % (ports & 0x1ffff ?: 1);
		if (kind == NAT_FIXED && bpf_htons(port) != o->out.local_port)
			return NAT_PROTOCOL;
		o->in.local_port = bpf_htons(port);
	}
	return NAT_OPENED;
}

/* The external address of a connection on its way out, by the result of POSTROUTING. The results are the same. */
PCN_NOINLINE int nat_policy_out(struct nat_open *o)
{
	__u32 does = o->to.does, own = does != NAT_ROW_SNAT && does != NAT_ROW_MASQUERADE;

	if (o->entry.progress.state == PCN_CT_NONE)
		return NAT_UNTOUCHED;
	if (does == NAT_ROW_MASQUERADE && !o->to.count)
		return NAT_NO_ADDRESS;
	o->entry.rule = o->to.rule;
	o->entry.origin = does == NAT_ROW_MASQUERADE ? NAT_MASQUERADE : NAT_SNAT;
	o->entry.flags = own ? NAT_OWN : 0;
	pcn_address_copy(o->out.local, o->in.local);
	if (!own && o->to.count)
		nat_pick(o->out.local, o->to.first, o->to.count, o->in.local);
	nat_range(o, own ? 0 : o->to.port_first, own ? 0 : o->to.port_last);
	return NAT_OPENED;
}

/* Opens a session for a packet of a key, or returns the drop reason. */
PCN_INLINE int nat_new(const struct nat_key *key, __u32 tcp_flags, __u32 kind, __u32 length,
		       const int egress)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return NAT_SESSION_TABLE_FULL;
	__builtin_memset(&o->entry, 0, sizeof(o->entry));
	o->entry.created = o->entry.seen = pcn_time_coarse();
	pcn_ct_follow(&o->entry.progress, !egress, key->proto, (__u8)tcp_flags);
	o->offered = tcp_flags & NAT_OFFERED;
	o->fixed = kind == NAT_FIXED || kind == NAT_OTHER;
	o->length = length;
	o->in = *key;
	o->in.zone &= ~NAT_IN;
	o->out = *key;
	o->out.zone |= NAT_IN;
	pcn_address_copy(o->remote, key->remote);
	o->remote_port = key->remote_port;
	if (has_policy) {
		int result = egress ? nat_policy_out(o) : nat_policy_in(o, kind);
		if (result != NAT_OPENED)
			return result;
		return egress ? nat_open_out(o, kind) : nat_open_inbound(o, 0);
	}
	return egress ? nat_open_egress(o, kind) : nat_open_ingress(o, kind);
}

PCN_GLOBAL int nat_new_out(const struct nat_key *key PCN_NONNULL, __u32 tcp_flags, __u32 kind,
			   __u32 length)
{
	return nat_new(key, tcp_flags, kind, length, 1);
}

PCN_GLOBAL int nat_new_in(const struct nat_key *key PCN_NONNULL, __u32 tcp_flags, __u32 kind)
{
	return nat_new(key, tcp_flags, kind, 0, 0);
}

/* Opens a session for a packet, or returns the drop reason. */
PCN_INLINE int nat_miss(const struct pcn_md *md, const struct nat_key *key, __u32 what,
			const int egress)
{
	__u32 tcp_flags = NAT_TCP_OF(what), kind = NAT_KIND_OF(what);

	if (nat_offered(md, egress))
		tcp_flags |= NAT_OFFERED;
	return egress ? nat_new_out(key, tcp_flags, kind, md->packet_len)
		      : nat_new_in(key, tcp_flags, kind);
}

/* Whether a session translates on the other side. */
PCN_INLINE int nat_is_across(const struct nat_session *s)
{
	return s->flags & NAT_INBOUND && s->rule & NAT_FROM_HOST;
}

/* Whether the host sends a packet, which it has not received before. */
PCN_INLINE int nat_from_host(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	return ctx->ingress_ifindex == 0;
#else
	(void)ctx;
	return 0;
#endif
}

PCN_INLINE int nat_on_loopback(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	return ctx->ifindex == NAT_LOOPBACK;
#else
	(void)ctx;
	return 0;
#endif
}

/* Compares a packet that the host sends, and that no session translates, with OUTPUT: NAT_NEW if no rule does. */
PCN_INLINE int nat_judge_output(struct CTXTYPE *ctx, const struct pcn_md *md, struct nat_open *o,
				const struct nat_key *key)
{
	nat_reversed(&o->other, key, NAT_IN);
	struct nat_session *s = nat_find(&o->other);
	if (s) /* else it is an answer that is translated when the host receives it */
		return nat_is_across(s) ? NAT_ACROSS : NAT_UNTOUCHED;
	o->to.does = nat_policy_of(ctx, NAT_OUTPUT, md->traffic_class);
	if (o->to.does <= NAT_ROW_ACCEPT)
		return NAT_NEW;
	o->to.rule = NAT_FROM_HOST;
	return NAT_NEW_ACROSS;
}

/* Compares a packet that no session translates with the rules, unless it belongs to a session whose packets of this direction
 * stay as they are here. Returns NAT_UNTOUCHED, NAT_ACROSS, or what is to be opened: NAT_NEW or NAT_NEW_ACROSS. */
PCN_GLOBAL int nat_judge(struct CTXTYPE *ctx, const struct pcn_md *md PCN_NONNULL,
			 const struct nat_key *key PCN_NONNULL, __u32 egress)
{
	struct nat_open *o = nat_scratch();

	if (!o || nat_is_exempt(key->local) || nat_is_exempt(key->remote))
		return NAT_UNTOUCHED;
	nat_reversed(&o->other, key, 0);
	struct nat_session *s = nat_find(&o->other);
	if (s && !egress)
		return nat_is_across(s) ? NAT_ACROSS : NAT_UNTOUCHED;
	if (s && (!(s->flags & NAT_INBOUND) || s->rule & NAT_JUDGED))
		return NAT_UNTOUCHED;
	if (nat_on_loopback(ctx) && (!egress || !nat_from_host(ctx)))
		return NAT_UNTOUCHED;
	if (egress && !s && nat_from_host(ctx)) {
		int result = nat_judge_output(ctx, md, o, key);
		if (result != NAT_NEW)
			return result;
		nat_reversed(&o->other, key, 0);
	}
	o->to.does =
		nat_policy_of(ctx, egress ? NAT_POSTROUTING : NAT_PREROUTING, md->traffic_class);
	o->to.rule = s ? s->rule & NAT_FROM_HOST : 0;
	if (!s || o->to.does > NAT_ROW_ACCEPT)
		return NAT_NEW;
	__sync_fetch_and_or(&s->rule, NAT_JUDGED);
	return NAT_UNTOUCHED;
}

/* A packet that no session translates. NAT_UNTOUCHED, NAT_OPENED, NAT_MADE, NAT_ACROSS, NAT_MADE_ACROSS, or a drop reason. */
PCN_INLINE int nat_policy_miss(struct CTXTYPE *ctx, const struct pcn_md *md,
			       const struct nat_key *key, __u32 what, const int egress)
{
	__u32 kind = NAT_KIND_OF(what);
	struct nat_open *o = nat_scratch();

	if (!o || kind == NAT_REST)
		return NAT_UNTOUCHED;
	int result = nat_judge(ctx, md, key, egress);
	if (egress && result == NAT_NEW_ACROSS) {
		result = nat_new_in(&o->other, NAT_TCP_OF(what), kind);
		nat_reversed(&o->other, key, NAT_IN);
		if (result == NAT_MADE)
			return NAT_MADE_ACROSS;
		return result == NAT_OPENED ? NAT_ACROSS : result;
	}
	if (result != NAT_NEW)
		return result;
	if (!egress)
		return nat_new_in(key, NAT_TCP_OF(what), kind);
	result = nat_new_out(key, NAT_TCP_OF(what), kind, md->packet_len);
	struct nat_session *s = nat_find(&o->other);
	if (s && (result == NAT_OPENED || result == NAT_MADE))
		__sync_fetch_and_or(&s->rule, NAT_JUDGED);
	return result;
}

#ifdef PCN_TC
/* Where a packet that was translated by the session with the key o->other goes: -1: on, 0: nowhere, or to the netdev with that
 * interface index. What the host sends goes where its routes lead to the new destination. Packets between two addresses of the host
 * go by way of the loopback netdev: the host refuses them from another one. */
PCN_GLOBAL int nat_route(struct CTXTYPE *ctx, __u32 egress, __u32 v6)
{
	struct nat_open *o = nat_scratch();
	struct nat_session *s = o ? nat_find(&o->other) : NULL;
	struct bpf_fib_lookup q = {};

	if (!s)
		return 0;
	int local = nat_address_type(s->addr, v6) == PCN_ADDRESS_LOCAL;
	if (local && (egress || !nat_on_loopback(ctx)))
		return NAT_LOOPBACK;
	if (!egress)
		return -1;
	q.l4_protocol = s->key.proto;
	q.ifindex = ctx->ifindex;
	if (v6) {
		q.family = 10;
		__builtin_memcpy(q.ipv6_src, s->key.remote, sizeof(q.ipv6_src));
		__builtin_memcpy(q.ipv6_dst, s->addr, sizeof(q.ipv6_dst));
	} else {
		q.family = 2;
		q.ipv4_src = s->key.remote[3];
		q.ipv4_dst = s->addr[3];
	}
	long route = bpf_fib_lookup(ctx, &q, sizeof(q), 0);
	if (route == BPF_FIB_LKUP_RET_SUCCESS || route == BPF_FIB_LKUP_RET_NO_NEIGH)
		return q.ifindex;
	/* The host forwards nothing, so it does not say: the same netdev may lead there. */
	if (route == BPF_FIB_LKUP_RET_FWD_DISABLED && !nat_on_loopback(ctx))
		return ctx->ifindex;
	return 0;
}
#endif

/* Translates a packet by the entry of the other side, whose key is o->other. Returns 0 or a drop reason. */
PCN_GLOBAL int nat_across(struct CTXTYPE *ctx, const struct pcn_md *md PCN_NONNULL, __u32 what,
			  __u32 egress, __u32 v6)
{
	struct nat_open *o = nat_scratch();
	struct nat_session *s = o ? nat_find(&o->other) : NULL;

	if (!o || !s)
		return NAT_SESSION_TABLE_FULL;
	s->packets++;
	s->bytes += md->packet_len;
	if (pcn_refresh_due(pcn_time_coarse(), s->seen, refresh_ns))
		s->seen = pcn_time_coarse();
	struct pcn_ct_progress next = s->progress;
	pcn_ct_follow(&next, !!egress, s->key.proto, NAT_TCP_OF(what));
	if (__builtin_memcmp(&next, &s->progress, sizeof(next)))
		nat_advance(s, !!egress, NAT_TCP_OF(what));
	int malformed = v6 ? nat_rewrite(ctx, &o->flow, what, s, !egress, 1)
			   : nat_rewrite(ctx, &o->flow, what, s, !egress, 0);
	return malformed ? NAT_MALFORMED : 0;
}

/* A packet that the entry of the other side translates. Returns a verdict. */
PCN_INLINE int nat_cross(struct CTXTYPE *ctx, struct pcn_md *md, __u32 what, const int egress,
			 const int v6)
{
	int reason = nat_across(ctx, md, what, egress, v6);

	if (reason)
		return pcn_pkt_drop(ctx, md, reason);
	if (!egress)
		md->notes |= PCN_MD_DNAT;
#ifdef PCN_TC
	int to = nat_route(ctx, egress, v6);
	if (!to)
		return pcn_pkt_drop(ctx, md, NAT_NO_ROUTE);
	if (to > 0)
		return pcn_pkt_redirect_neigh(ctx, md, to);
#endif
	return pcn_pkt_pass(ctx, md);
}

/* An answer to the host, whose destination was translated back: its source, too, by the session that OUTPUT has opened.
 * Returns a verdict. */
PCN_INLINE int nat_cross_also(struct CTXTYPE *ctx, struct pcn_md *md, __u32 what,
			      const struct nat_key *key, const struct nat_session *s, const int v6)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return pcn_pkt_drop(ctx, md, NAT_SESSION_TABLE_FULL);
	nat_reversed(&o->other, key, 0);
	pcn_address_copy(o->other.remote, s->addr);
	if (o->other.remote_port)
		o->other.remote_port = s->port;
	else
		o->other.local_port = s->port; /* the id of ICMP queries */
	return nat_cross(ctx, md, what, 0, v6);
}

/* A first fragment whose packet stays as it is: so do the others. */
PCN_NOINLINE void nat_remember_untouched(const struct nat_key *key, __u32 id)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return;
	__builtin_memset(&o->entry, 0, sizeof(o->entry));
	pcn_address_copy(o->entry.addr, key->local);
	nat_remember(key, &o->entry, id);
}

#endif
