// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sessions and mappings in the table, for rare code. */
#ifndef NAT_SESSION_H
#define NAT_SESSION_H

#include "nat.h"

#define NAT_EEXIST (-17)
#define NAT_ENOMEM (-12)

/* There are rules for new sessions from inside, but for those of the table nat, whose sessions have no mappings. */
#define NAT_HAS_SOURCES (!has_policy && (has_sources || has_masquerade))
/* The same for new sessions from outside. */
#define NAT_HAS_FORWARDS (!has_policy && has_forwards)

/* A global function looks it up again instead of taking it as an argument: the verifier of Linux
 * 6.1 accepts an argument's memory neither as a map key nor as a value. */
PCN_INLINE struct nat_open *nat_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch6, &zero);
}

/* The entry for a key, NULL if there is none. */
PCN_INLINE struct nat_session *nat_find(const struct nat_key *key)
{
	return (void *)pcn_conntrack_entry(pcn_conntrack_find((const void *)key));
}

/* Ends the entry for a key, if there is one. */
PCN_INLINE void nat_remove(const struct nat_key *key)
{
	struct nat_session *s = nat_find(key);

	if (s)
		pcn_conntrack_end((void *)s);
}

/* marks: bits of a port. */
#define NAT_MARK_ALONE 1
#define NAT_MARK_MAPPING 2

PCN_INLINE __u64 *nat_mark_of(__be16 port)
{
	__u32 index = port >> 5;

	return bpf_map_lookup_elem(&marks, &index);
}

/* Records that an external port has, or will have, entries of a kind. */
PCN_INLINE void nat_mark(__be16 port, __u64 kind)
{
	__u64 *word = nat_mark_of(port), bit = kind << (port & 31) * 2;

	if (word && !(*(volatile __u64 *)word & bit))
		__sync_fetch_and_or(word, bit);
}

PCN_INLINE int nat_is_marked(__be16 port, __u64 kind)
{
	__u64 *word = nat_mark_of(port);

	return !word || *(volatile __u64 *)word >> (port & 31) * 2 & kind;
}

/* Inserts the entry of one side, in or out: 0, NAT_EEXIST if the key exists, another negative number if
 * there is no room. */
PCN_INLINE long nat_put(struct nat_open *o, int outside)
{
	const struct nat_key *key = outside ? &o->out : &o->in;
	const struct nat_key *to = outside ? &o->in : &o->out;
	struct nat_session *e = &o->entry;

	e->key = *key;
	e->port = to->local_port;
	e->port_delta = pcn_csum_diff2(key->local_port, to->local_port);
	e->addr_delta = outside ? ~o->addr_delta : o->addr_delta;
	pcn_address_copy(e->addr, to->local);
	if (outside) {
		nat_mark(key->local_port,
			 e->flags & NAT_MAPPING ? NAT_MARK_MAPPING : NAT_MARK_ALONE);
		if (pcn_conntrack_find(
			    (const void *)&e->key)) /* a port that is in use, most likely */
			return NAT_EEXIST;
	}
	o->number = pcn_conntrack_open((const void *)e);
	if (o->number > 0)
		return o->number & PCN_CONNTRACK_THERE ? NAT_EEXIST : 0;
	return o->number == PCN_CONNTRACK_BUSY ? NAT_EEXIST : NAT_ENOMEM;
}

/* Whether the entry of a side translates as o wants. */
PCN_INLINE int nat_leads(const struct nat_open *o, const struct nat_session *s, int outside)
{
	const struct nat_key *to = outside ? &o->in : &o->out;

	return s->port == to->local_port && pcn_address_same(s->addr, to->local);
}

/* Fills a key with the mapping of its local endpoint. */
PCN_INLINE void nat_bare(struct nat_key *to, const struct nat_key *from)
{
	__builtin_memset(to, 0, sizeof(*to));
	pcn_address_copy(to->local, from->local);
	to->local_port = from->local_port;
	to->proto = from->proto;
	to->zone = from->zone;
}

/* True if a packet from outside belongs to a session with NAT_MAPPED. */
PCN_GLOBAL int nat_is_mapped(const struct nat_key *out PCN_NONNULL)
{
	struct nat_open *o = nat_scratch();
	struct nat_session *m, *s;

	if (!o)
		return 0;
	nat_bare(&o->probe, out);
	m = nat_find(&o->probe);
	if (!m)
		return 0;
	pcn_address_copy(o->probe.local, m->addr);
	pcn_address_copy(o->probe.remote, out->remote);
	o->probe.local_port = m->port;
	o->probe.remote_port = out->remote_port;
	o->probe.zone &= ~NAT_IN;
	s = nat_find(&o->probe);
	return s && (s->flags & NAT_MAPPED);
}

/* The entry that translates a packet, NULL if it belongs to no session. */
PCN_INLINE struct nat_session *nat_translation(const struct nat_key *key)
{
	struct nat_open *o = nat_scratch();

	if ((key->zone & NAT_IN) && NAT_HAS_SOURCES && o && nat_is_mapped(key)) {
		nat_bare(&o->probe, key);
		return nat_find(&o->probe);
	}
	struct nat_session *s = nat_find(key);
	return s && (key->zone & NAT_IN) && (s->flags & NAT_MAPPING) ? NULL : s;
}

/* Result of nat_ensure: the entry already existed, from another CPU or from before. */
#define NAT_THERE 1

/* Inserts the entry as seen outside unless it exists. NAT_EEXIST: the key has a different entry. */
PCN_INLINE long nat_ensure(struct nat_open *o)
{
	long err = nat_put(o, 1);

	if (err != NAT_EEXIST)
		return err;
	struct nat_session *s = nat_find(&o->out);
	return s && nat_leads(o, s, 1) ? NAT_THERE : NAT_EEXIST;
}

/* Sets the keys to those of the mapping, or of the session. */
PCN_INLINE void nat_wildcard(struct nat_open *o)
{
	__builtin_memset(o->in.remote, 0, sizeof(o->in.remote));
	__builtin_memset(o->out.remote, 0, sizeof(o->out.remote));
	o->in.remote_port = 0;
	o->out.remote_port = 0;
	o->entry.flags |= NAT_MAPPING;
}

PCN_INLINE void nat_specific(struct nat_open *o)
{
	pcn_address_copy(o->in.remote, o->remote);
	pcn_address_copy(o->out.remote, o->remote);
	o->in.remote_port = o->remote_port;
	o->out.remote_port = o->remote_port;
	o->entry.flags &= ~NAT_MAPPING;
}

/* Whether a session leaves its packets as they are. */
PCN_INLINE int nat_is_identity(const struct nat_session *s, const struct nat_key *key)
{
	return has_policy && s->flags & NAT_OWN && s->port == key->local_port;
}

/* The connection changes its state: in the entries of both directions, if there are two. */
PCN_GLOBAL int nat_advance(struct nat_session *s PCN_NONNULL, __u32 outside, __u32 tcp_flags)
{
	struct nat_open *o = nat_scratch();

	pcn_ct_follow_shared(&s->progress, outside, s->key.proto, tcp_flags);
	if (!o || s->flags & NAT_MAPPED)
		return 0;
	o->probe = s->key;
	pcn_address_copy(o->probe.local, s->addr);
	o->probe.local_port = s->port;
	o->probe.zone ^= NAT_IN;
	s = nat_find(&o->probe);
	if (s)
		pcn_ct_follow_shared(&s->progress, outside, s->key.proto, tcp_flags);
	return 0;
}

#endif
