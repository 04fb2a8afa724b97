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

/* The inner key of the session of which a packet has the other direction. */
PCN_INLINE void nat_reversed(struct nat_key *to, const struct nat_key *key)
{
	int query = key->proto == IPPROTO_ICMP || key->proto == IPPROTO_ICMPV6;

	pcn_address_copy(to->local, key->remote);
	pcn_address_copy(to->remote, key->local);
	to->local_port = query ? key->local_port : key->remote_port;
	to->remote_port = query ? 0 : key->local_port;
	to->zone = key->zone & ~NAT_IN;
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

/* A packet that no session translates: it belongs to one whose packets of this direction stay as they are here, or its
 * connection is new. NAT_UNTOUCHED, NAT_OPENED, NAT_MADE, or a drop reason. */
PCN_INLINE int nat_policy_miss(struct CTXTYPE *ctx, const struct pcn_md *md,
			       const struct nat_key *key, __u32 what, const int egress)
{
	__u32 kind = NAT_KIND_OF(what);
	struct nat_open *o = nat_scratch();

	if (!o)
		return NAT_SESSION_TABLE_FULL;
	if (kind == NAT_REST || nat_is_exempt(key->local) || nat_is_exempt(key->remote))
		return NAT_UNTOUCHED;
	nat_reversed(&o->other, key);
	struct nat_session *s = nat_find(&o->other);
	if (s && (!egress || !(s->flags & NAT_INBOUND) || s->rule & NAT_JUDGED))
		return NAT_UNTOUCHED;
	o->to.does =
		nat_policy_of(ctx, egress ? NAT_POSTROUTING : NAT_PREROUTING, md->traffic_class);
	int result = NAT_UNTOUCHED;
	if (!s || o->to.does > NAT_ROW_ACCEPT)
		result = egress ? nat_new_out(key, NAT_TCP_OF(what), kind, md->packet_len)
				: nat_new_in(key, NAT_TCP_OF(what), kind);
	if (s && result <= NAT_MADE)
		__sync_fetch_and_or(&s->rule, NAT_JUDGED);
	return result;
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
