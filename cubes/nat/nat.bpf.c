// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Network address and port translation. A packet of a session costs one lookup, or two from outside: the mapping and the session. Everything else is separate: new
 * sessions (open.h, insert.h), external ports (allocate.h), ICMP errors (icmp_error.h) and fragments
 * (fragment.h). */
#include "connection.h"
#include "icmp_error.h"

/* The session and translation of a packet. */
struct nat_found {
	struct nat_session *by; /* the translation; NULL: no session */
	struct nat_session *of; /* the session, which counts it; with mapped, as seen inside */
	int mapped;
};

/* Looks up the session of a packet from outside through the mapping of its external endpoint. */
PCN_NOINLINE void nat_lookup_mapped(struct nat_found *f, const struct nat_key *key)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return;
	struct nat_key *in = &o->probe; /* stack space is limited */
	nat_bare(in, key);
	f->by = nat_find(in);
	if (!f->by)
		return;
	pcn_address_copy(in->local, f->by->addr);
	pcn_address_copy(in->remote, key->remote);
	in->local_port = f->by->port;
	in->remote_port = key->remote_port;
	in->zone &= ~NAT_IN;
	f->of = nat_find(in);
	f->mapped = f->of && (f->of->flags & (NAT_MAPPED | NAT_TENTATIVE)) == NAT_MAPPED;
	if (!f->mapped)
		f->by = NULL;
}

/* Looks up the session of a packet. */
PCN_INLINE void nat_look(struct nat_found *f, const struct nat_key *key, const int egress)
{
	f->mapped = 0;
	f->by = NULL;
	if (!egress && NAT_HAS_SOURCES)
		nat_lookup_mapped(f, key);
	if (f->by)
		return;
	f->by = f->of = nat_find(key);
	/* From outside with address and port 0: that is the key of a mapping. */
	if (f->by && f->by->flags & (egress ? NAT_TENTATIVE : NAT_MAPPING))
		f->by = NULL;
}

/* Tells the control plane of a session. Returns 0. */
PCN_GLOBAL int nat_tell(struct CTXTYPE *ctx, const struct pcn_md *md PCN_NONNULL,
			const struct nat_session *s PCN_NONNULL, __u32 kind)
{
	__u32 cube = pcn_instance(md);
	struct pcn_conntrack_events *events = bpf_map_lookup_elem(&ct_events, &cube);
	struct pcn_notice *notice = events ? pcn_session_notice(events) : NULL;

	if (!notice)
		return 0;
	notice->kind = kind;
	notice->size = sizeof(*s);
	__builtin_memcpy(notice->data, s, sizeof(*s));
	pcn_session_notify(ctx, events, notice);
	return 0;
}

/* The state of a session as users see it: opening, established or closing. In Go: stateOf. */
PCN_INLINE __u32 nat_state(const struct pcn_ct_progress *p)
{
	if (p->state >= PCN_CT_LAST_ACK)
		return 2;
	return (p->flags & PCN_CT_SEEN_REPLY) &&
	       (p->state >= PCN_CT_OPEN || p->state == PCN_CT_REPLIED);
}

/* Counts a packet for a session. */
PCN_INLINE void nat_account(struct CTXTYPE *ctx, const struct pcn_md *md, struct nat_found *f,
			    __u32 what, const int egress)
{
	int refreshes = egress || inbound_refresh || !(what & NAT_CHECK_UDP);
	struct nat_session *s = f->of;
	struct pcn_ct_progress next = s->progress;
	__u64 now = pcn_time_coarse();

	if (egress || !f->mapped) {
		s->packets++;
		s->bytes += md->packet_len;
		if (pcn_refresh_due(now, s->seen, refresh_ns) && refreshes)
			s->seen = now;
	} else {
		__u32 units = now >> NAT_SEEN_UNIT;

		s->in_packets++;
		s->in_bytes += md->packet_len;
		if (units - s->in_seen > refresh_ns >> NAT_SEEN_UNIT && refreshes)
			s->in_seen = units;
	}
	pcn_ct_follow(&next, !egress, s->key.proto, NAT_TCP_OF(what));
	if (__builtin_memcmp(&next, &s->progress, sizeof(next))) {
		int updated = session_events && nat_state(&next) != nat_state(&s->progress);

		nat_advance(s, !egress, NAT_TCP_OF(what));
		if (updated)
			nat_tell(ctx, md, s, NAT_SESSION_UPDATED);
	}
}

/* A later fragment: uses the stored translation of the first one. */
PCN_INLINE int nat_later(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow,
			 const struct nat_key *key, const int egress, const int v6)
{
	struct nat_fragment *f = nat_recall(key, flow->id);
	pcn_address addr;

	if (nat_offered(md, egress) && (!f || !f->turns))
		return pcn_pkt_pass(ctx, md);
	if (!f) {
		int reason = nat_stray(key);
		return reason ? pcn_pkt_drop(ctx, md, reason) : pcn_pkt_pass(ctx, md);
	}
	pcn_reach(ctx, flow->l4);
	void *l3 = pcn_header(ctx, flow->l3, v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	if (!l3)
		return pcn_pkt_drop(ctx, md, NAT_MALFORMED);
	pcn_address_copy(addr, f->addr);
	nat_write_address(l3, v6 ? addr : &addr[3], f->addr_delta, egress, v6);
	if (v6)
		pcn_csum_bytes(ctx, f->addr_delta);
	return egress && hairpin && f->turns ? nat_turn(ctx, md) : pcn_pkt_pass(ctx, md);
}

/* Finds the translation of a packet that is not a fragment, or opens a session for it: NAT_OPENED,
 * NAT_UNTOUCHED, or a drop reason. */
PCN_INLINE int nat_decide(struct CTXTYPE *ctx, const struct pcn_md *md, __u32 what,
			  const struct nat_key *key, struct nat_session **by, const int egress)
{
	struct nat_found f = {};

	/* ICMP without an id belongs to no session: its key would be that of a query with id 0. */
	if (NAT_KIND_OF(what) != NAT_REST)
		nat_look(&f, key, egress);
	if (!f.by) {
		int result = has_policy ? nat_policy_miss(ctx, md, key, what, egress)
					: nat_miss(md, key, what, egress);
		struct nat_open *o = nat_scratch();
		if (session_events && o &&
		    (result == NAT_MADE || (has_policy && result == NAT_MADE_ACROSS))) {
			o->entry.key = o->in;
			nat_tell(ctx, md, &o->entry, NAT_SESSION_NEW);
		}
		if (egress && o && result == NAT_MADE) {
			*by = &o->entry;
			return NAT_OPENED;
		}
		if (result != NAT_OPENED && result != NAT_MADE)
			return result;
		nat_look(&f, key, egress);
		if (!f.by)
			return NAT_SESSION_TABLE_FULL;
	}
	if (nat_offered(md, egress) && !(f.by->flags & NAT_HAIRPIN))
		return NAT_UNTOUCHED;
	*by = f.by;
	nat_account(ctx, md, &f, what, egress);
	return NAT_OPENED;
}

/* The rest of the processing of a packet that was parsed. */
PCN_INLINE int nat_translate(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow,
			     __u32 what, const struct nat_key *key, const int egress, const int v6)
{
	struct nat_session *s = NULL;

	if (NAT_KIND_OF(what) == NAT_LATER)
		return nat_later(ctx, md, flow, key, egress, v6);
	if (NAT_KIND_OF(what) == NAT_LOCAL)
		return pcn_pkt_pass(ctx, md);
	int result = nat_decide(ctx, md, what, key, &s, egress);
	if (result == NAT_UNTOUCHED) {
		if (has_policy && what & NAT_FIRST)
			nat_remember_untouched(key, flow->id);
		return pcn_pkt_pass(ctx, md);
	}
	if (has_policy && (result == NAT_ACROSS || result == NAT_MADE_ACROSS))
		return nat_cross(ctx, md, what, egress, v6);
	if (result != NAT_OPENED || !s)
		return pcn_pkt_drop(ctx, md, result);
	if (what & NAT_FIRST)
		nat_remember(key, s, flow->id);
	if (nat_is_identity(s, key))
		return pcn_pkt_pass(ctx, md);
	if (nat_rewrite(ctx, flow, what, s, egress, v6))
		return pcn_pkt_drop(ctx, md, NAT_MALFORMED);
	if (has_policy && !egress)
		md->notes |= s->flags & NAT_INBOUND ? PCN_MD_DNAT : PCN_MD_SNAT;
	if (has_policy && !egress && s->rule & NAT_FROM_HOST && !(s->flags & NAT_INBOUND))
		return nat_cross_also(ctx, md, what, key, s, v6);
	return egress && hairpin && (s->flags & NAT_HAIRPIN) ? nat_turn(ctx, md)
							     : pcn_pkt_pass(ctx, md);
}

/* An ICMP error. The packet inside is read here because the stack of Linux 6.1 is too small for it
 * further down. */
PCN_INLINE int nat_ip_error(struct CTXTYPE *ctx, struct pcn_md *md, struct nat_open *o,
			    const int egress, const int v6)
{
	__builtin_memset(&o->inner, 0, sizeof(o->inner));
	pcn_flow_read_inner(ctx, &o->inner, o->flow.l4 + sizeof(struct pcn_icmp),
			    o->flow.ethertype);
	if (v6)
		return egress ? nat_error_out6(ctx, md) : nat_error_in6(ctx, md);
	return egress ? nat_error_out4(ctx, md) : nat_error_in4(ctx, md);
}

/* An IP packet. The paths for all kinds of packet are merged: the verifier forgets what it knows
 * about each. */
PCN_INLINE int nat_ip(struct CTXTYPE *ctx, struct pcn_md *md, struct nat_open *o, const int egress,
		      const int v6)
{
	const struct pcn_flow *flow = &o->flow;
	__u32 what;

	if (nat_what(ctx, flow, &what, v6))
		return nat_malformed(ctx, md, egress);
	what = pcn_opaque(what, flow->source[3]);
	if (NAT_KIND_OF(what) == NAT_ERROR)
		return nat_ip_error(ctx, md, o, egress, v6);
	nat_key(&o->key, flow, egress, v6);
	return nat_translate(ctx, md, flow, what, &o->key, egress, v6);
}

/* Ethernet and at most two tags, then IPv4 or IPv6. Everything else passes. */
PCN_INLINE int nat_packet(struct CTXTYPE *ctx, struct pcn_md *md, const int egress)
{
	struct nat_open *o;

	if (!NAT_HAS_SOURCES && !NAT_HAS_FORWARDS && !has_policy)
		return pcn_pkt_pass(ctx, md);
	if ((!hairpin || !NAT_HAS_SOURCES) && nat_offered(md, egress))
		return pcn_pkt_pass(ctx, md);
	o = nat_scratch();
	if (!o)
		return pcn_pkt_drop(ctx, md, NAT_SESSION_TABLE_FULL);
	__builtin_memset(&o->flow, 0, sizeof(o->flow));
	if (pcn_flow_read_inline(ctx, &o->flow))
		return pcn_pkt_drop(ctx, md, NAT_MALFORMED);
	if (o->flow.ethertype == bpf_htons(ETH_P_IP))
		return nat_ip(ctx, md, o, egress, 0);
	if (o->flow.ethertype == bpf_htons(ETH_P_IPV6))
		return nat_ip(ctx, md, o, egress, 1);
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return nat_packet(ctx, md, NAT_INGRESS);
}

PCN_EGRESS
{
	return nat_packet(ctx, md, NAT_EGRESS);
}

PCN_TAKES_OFFERS;
PCN_LICENSE;
