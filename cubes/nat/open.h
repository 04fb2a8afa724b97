// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* New sessions: applies the rules to a packet without a session. */
#ifndef NAT_OPEN_H
#define NAT_OPEN_H

#include "insert.h"

/* The kind of a packet. */
enum nat_kind {
	NAT_PORTS, /* has ports that can be changed */
	NAT_FIXED, /* has ports under a checksum that covers too much: SCTP */
	NAT_QUERY, /* ICMP with an id */
	NAT_OTHER, /* another protocol, without ports */
	NAT_ERROR, /* an ICMP error */
	NAT_LATER, /* a fragment without an L4 header */
	NAT_REST,  /* other ICMP types */
	NAT_LOCAL, /* neighbour discovery etc., never translated */
};

/* With the TCP flags of a packet without a session: it is offered by its cube. */
#define NAT_OFFERED 0x80000000

/* Not 0 if the packet is offered by its cube. */
PCN_INLINE int nat_offered(const struct pcn_md *md, const int egress)
{
	return egress && pcn_offered(md);
}

/* The result for a malformed packet. If it is offered, its cube decides. */
PCN_INLINE int nat_malformed(struct CTXTYPE *ctx, struct pcn_md *md, const int egress)
{
	return nat_offered(md, egress) ? pcn_pkt_pass(ctx, md)
				       : pcn_pkt_drop(ctx, md, NAT_MALFORMED);
}

PCN_INLINE int nat_is_ipv4(const pcn_address addr)
{
	return !addr[0] && !addr[1] && addr[2] == bpf_htonl(0xffff);
}

/* Link-local and invalid addresses: a NAT does not process their packets. */
PCN_NOINLINE int nat_is_exempt(const pcn_address addr)
{
	__u32 high = bpf_ntohl(addr[0]), low = bpf_ntohl(addr[3]);

	if (nat_is_ipv4(addr))
		return !low || low >> 28 == 14 || low == 0xffffffff;
	if (high >> 24 == 0xff || high >> 22 == 0xfe800000 >> 22)
		return 1;
	return !addr[0] && !addr[1] && !addr[2] && low <= 1;
}

/* The rule for new sessions of an internal address. A rule for all of IPv6 does not apply to IPv4.
 * */
PCN_INLINE struct nat_source *nat_source_of(const pcn_address local)
{
	struct nat_source_key key = { .prefixlen = 128 };

	pcn_address_copy(key.addr, local);
	struct nat_source *rule = bpf_map_lookup_elem(&sources, &key);
	return rule && nat_is_ipv4(rule->first) == nat_is_ipv4(local) ? rule : NULL;
}

/* The offset of an address from the first one of a rule. */
PCN_INLINE __u32 nat_distance(const struct nat_source *rule, const pcn_address addr)
{
	if (addr[0] != rule->first[0] || addr[1] != rule->first[1] || addr[2] != rule->first[2])
		return 0xffffffff;
	return bpf_ntohl(addr[3]) - bpf_ntohl(rule->first[3]);
}

/* The rule that hides an internal address from a remote one, NULL if there is none: packets from it
 * to the remote have another source address. */
PCN_NOINLINE struct nat_source *nat_hides(const pcn_address local, const pcn_address remote)
{
	struct nat_source *rule = NAT_HAS_SOURCES ? nat_source_of(local) : NULL;

	if (!rule || nat_is_exempt(local) || nat_is_exempt(remote) ||
	    nat_distance(rule, local) < rule->count)
		return NULL;
	return rule;
}

/* One of `count` addresses, which depends on another address. */
PCN_INLINE void nat_pick(pcn_address to, const pcn_address first, __u32 count, const pcn_address by)
{
	__u32 hash = bpf_ntohl(by[3]) * 0x9e3779b1 ^ by[2] ^ by[1];

	pcn_address_copy(to, first);
	if (count > 1)
		to[3] = bpf_htonl(bpf_ntohl(first[3]) + (hash >> 4) % count);
}

/* The external address for o->in: the same for all sessions of a host (RFC 4787, REQ-2). */
PCN_INLINE void nat_choose_address(struct nat_open *o, const struct nat_source *rule)
{
	nat_pick(o->out.local, rule->first, rule->count, o->in.local);
}

/* Opens the session of an outgoing packet, whose external address and ports to choose from are known now. */
PCN_INLINE int nat_open_out(struct nat_open *o, __u32 kind)
{
	o->addr_delta = pcn_csum_diff16(o->in.local, o->out.local);
	o->fixed = kind == NAT_FIXED || kind == NAT_OTHER;
	if (o->fixed)
		o->first = o->last = bpf_ntohs(o->in.local_port);
	if (o->fixed || o->entry.flags & NAT_OWN || has_policy ||
	    mapping == NAT_MAP_ADDRESS_PORT_DEPENDENT)
		return nat_open_alone(o);
	return nat_open_mapped(o);
}

/* Whether the destination of a packet is an external endpoint of another internal host. */
PCN_NOINLINE int nat_is_hairpin(struct nat_open *o)
{
	struct nat_forward_key key = { .prefixlen = 160,
				       .proto = o->in.proto,
				       .port = o->remote_port };

	pcn_address_copy(key.addr, o->remote);
	if (NAT_HAS_FORWARDS && bpf_map_lookup_elem(&forwards, &key))
		return 1;
	/* ICMP queries have no remote port; 0 would be the id of another host's. */
	if (mapping != NAT_MAP_ENDPOINT_INDEPENDENT || !o->remote_port ||
	    !nat_is_marked(o->remote_port, NAT_MARK_MAPPING))
		return 0;
	pcn_address_copy(o->out.local, o->remote);
	o->out.local_port = o->remote_port;
	nat_wildcard(o);
	return nat_find(&o->out) != NULL;
}

/* An outgoing packet without a session. o->in, o->remote, o->entry.seen and .progress are set. */
PCN_INLINE int nat_open_egress(struct nat_open *o, __u32 kind)
{
	struct nat_source *rule = NAT_HAS_SOURCES ? nat_source_of(o->in.local) : NULL;
	__u8 flags = 0;

	if (!rule || !rule->count || nat_is_exempt(o->in.local) || nat_is_exempt(o->remote))
		return NAT_UNTOUCHED;
	int own = nat_distance(rule, o->in.local) < rule->count;
	if (o->offered && (own || !nat_is_hairpin(o)))
		return NAT_UNTOUCHED;
	if (kind == NAT_OTHER || kind == NAT_REST) {
		if (own || other_protocols == NAT_OTHER_PASS)
			return NAT_UNTOUCHED;
		if (kind == NAT_REST || other_protocols == NAT_OTHER_DROP)
			return NAT_PROTOCOL;
	}
	if (o->entry.progress.state == PCN_CT_NONE) /* an RST */
		return own ? NAT_UNTOUCHED : NAT_NO_SESSION;
	if (own)
		flags = NAT_OWN;
	else if (hairpin && (kind == NAT_PORTS || kind == NAT_FIXED || NAT_HAS_FORWARDS) &&
		 nat_is_hairpin(o))
		flags = NAT_HAIRPIN;
	o->entry.rule = rule->rule;
	o->entry.origin = rule->origin;
	o->entry.flags = flags;
	nat_range(o, rule->port_first, rule->port_last);
	if (own)
		pcn_address_copy(o->out.local, o->in.local);
	else
		nat_choose_address(o, rule);
	return nat_open_out(o, kind);
}

/* Whether an incoming packet comes from an internal host, whose session it belongs to on the other
 * side. */
PCN_INLINE int nat_has_turned(struct nat_open *o)
{
	pcn_address_copy(o->other.local, o->remote);
	pcn_address_copy(o->other.remote, o->out.local);
	o->other.local_port = o->remote_port;
	o->other.remote_port = o->out.local_port;
	if (o->out.proto == IPPROTO_ICMP || o->out.proto == IPPROTO_ICMPV6) {
		o->other.local_port = o->out.local_port; /* an id applies to both sides */
		o->other.remote_port = 0;
	}
	o->other.proto = o->out.proto;
	o->other.zone = o->out.zone;
	return nat_translation(&o->other) != NULL;
}

/* Opens the session of an incoming packet, whose internal endpoint o->in is known now: a session of
 * its mapping, or of a rule. */
PCN_INLINE int nat_open_inbound(struct nat_open *o, int mapped)
{
	if (o->entry.progress.state == PCN_CT_NONE) /* an RST */
		return NAT_NO_SESSION;
	o->entry.flags |= NAT_INBOUND;
	if (hairpin && NAT_HAS_SOURCES && nat_has_turned(o))
		o->entry.flags |= NAT_HAIRPIN;
	o->addr_delta = pcn_csum_diff16(o->in.local, o->out.local);
	nat_specific(o);
	if (mapped) {
		long err = nat_join();
		return err < 0 ? nat_refuse(err) : err;
	}
	long err = nat_ensure(o);
	if (!err && NAT_HAS_SOURCES && nat_is_shared(o)) {
		nat_remove(&o->out);
		err = NAT_EEXIST;
	}
	return err < 0 ? nat_refuse(err) : nat_complete(o, err);
}

/* Applies a rule to an incoming packet. */
PCN_INLINE int nat_open_forward(struct nat_open *o, __u32 kind)
{
	struct nat_forward_key key = { .prefixlen = 160,
				       .proto = o->out.proto,
				       .port = o->out.local_port };

	pcn_address_copy(key.addr, o->out.local);
	struct nat_forward *f = bpf_map_lookup_elem(&forwards, &key);
	if (!f || nat_is_exempt(o->remote))
		return NAT_UNTOUCHED;
	if (kind == NAT_OTHER || kind == NAT_REST) {
		if (other_protocols == NAT_OTHER_PASS)
			return NAT_UNTOUCHED;
		if (kind == NAT_REST || other_protocols == NAT_OTHER_DROP)
			return NAT_PROTOCOL;
	}
	pcn_address_copy(o->in.local, f->to);
	o->in.local_port = o->out.local_port;
	if (f->port || f->base) {
		o->in.local_port = bpf_htons(bpf_ntohs(f->port) + bpf_ntohs(o->out.local_port) -
					     bpf_ntohs(f->base));
		if (kind == NAT_FIXED && o->in.local_port != o->out.local_port)
			return NAT_PROTOCOL;
	}
	o->entry.rule = f->rule;
	o->entry.origin = f->origin;
	return nat_open_inbound(o, 0);
}

/* An incoming packet without a session. o->out, o->remote, o->entry.seen and .progress are set. */
PCN_INLINE int nat_open_ingress(struct nat_open *o, __u32 kind)
{
	if (NAT_HAS_FORWARDS) {
		int result = nat_open_forward(o, kind);
		if (result != NAT_UNTOUCHED)
			return result;
	}
	if (!NAT_HAS_SOURCES || mapping != NAT_MAP_ENDPOINT_INDEPENDENT ||
	    (kind != NAT_PORTS && kind != NAT_QUERY))
		return NAT_UNTOUCHED;
	nat_wildcard(o);
	struct nat_session *m = nat_find(&o->out);
	if (!m)
		return NAT_UNTOUCHED;
	if (filtering == NAT_FILTER_ADDRESS_PORT_DEPENDENT || nat_is_exempt(o->remote) ||
	    (filtering == NAT_FILTER_ADDRESS_DEPENDENT && !o->remote_port))
		return NAT_FILTERED;
	pcn_address_copy(o->in.local, m->addr);
	o->in.local_port = m->port;
	o->entry.rule = m->rule;
	o->entry.origin = m->origin;
	if (filtering == NAT_FILTER_ADDRESS_DEPENDENT) {
		nat_specific(o);
		o->in.remote_port = 0;
		if (!nat_find(&o->in))
			return NAT_FILTERED;
	}
	return nat_open_inbound(o, 1);
}

#endif
