// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The session tables, for rare code: one form of key for both families. */
#ifndef NAT_SESSION_H
#define NAT_SESSION_H

#include "nat.h"

/* The table. Always a constant to the verifier. */
#define NAT_IN 0x1
#define NAT_V6 0x2

#define NAT_EEXIST (-17)
#define NAT_ENOMEM (-12)

/* There are rules for new sessions from inside. */
#define NAT_HAS_SOURCES (has_sources || has_masquerade)

/* A global function looks it up again instead of taking it as an argument: the verifier of Linux
 * 6.1 accepts an argument's memory neither as a map key nor as a value. */
PCN_INLINE struct nat_open *nat_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch2, &zero);
}

PCN_INLINE void nat_narrow(struct nat_key4 *to, const struct nat_key6 *from)
{
	to->local = from->local[3];
	to->remote = from->remote[3];
	to->local_port = from->local_port;
	to->remote_port = from->remote_port;
	to->proto = from->proto;
	to->zero[0] = 0;
	to->zero[1] = 0;
	to->zero[2] = 0;
}

/* Writes the translated local address of a session, in 16 bytes. */
PCN_INLINE void nat_target(pcn_address to, const struct nat_session4 *s, const __u32 table)
{
	if (table & NAT_V6)
		pcn_address_copy(to, ((const struct nat_session6 *)s)->addr);
	else
		pcn_address_set4(to, s->addr);
}

/* The entry for a key, NULL if there is none. Entries of both families have the same beginning. */
PCN_INLINE struct nat_session4 *nat_get(const struct nat_key6 *key, __u32 table)
{
	struct nat_key4 four;

	if (table & NAT_V6)
		return table & NAT_IN ? bpf_map_lookup_elem(&ingress6, key)
				      : bpf_map_lookup_elem(&egress6, key);
	nat_narrow(&four, key);
	return table & NAT_IN ? bpf_map_lookup_elem(&ingress4, &four)
			      : bpf_map_lookup_elem(&egress4, &four);
}

/* The same, for shallow call chains: the verifier allows a depth of 8. */
PCN_NOINLINE struct nat_session4 *nat_find(const struct nat_key6 *key, __u32 table)
{
	return nat_get(key, table);
}

/* The table that will replace another one, NULL if its size does not change. */
PCN_INLINE void *nat_next(const __u32 table)
{
	__u32 index = (next_set ? NAT_NEXT_TABLES : 0) + (table & NAT_IN);

	return table & NAT_V6 ? bpf_map_lookup_elem(&next6, &index)
			      : bpf_map_lookup_elem(&next4, &index);
}

PCN_INLINE long nat_delete4(const struct nat_key4 *key, const __u32 table)
{
	return table & NAT_IN ? bpf_map_delete_elem(&ingress4, key)
			      : bpf_map_delete_elem(&egress4, key);
}

PCN_INLINE long nat_delete6(const struct nat_key6 *key, const __u32 table)
{
	return table & NAT_IN ? bpf_map_delete_elem(&ingress6, key)
			      : bpf_map_delete_elem(&egress6, key);
}

/* The entry of a key in the table that will replace another one, NULL if there is none. */
PCN_NOINLINE struct nat_session4 *nat_find_next(const struct nat_key6 *key, __u32 table)
{
	void *next = nat_next(table);
	struct nat_key4 four;

	if (!next)
		return NULL;
	if (table & NAT_V6)
		return bpf_map_lookup_elem(next, key);
	nat_narrow(&four, key);
	return bpf_map_lookup_elem(next, &four);
}

PCN_NOINLINE long nat_remove(const struct nat_key6 *key, __u32 table)
{
	void *next = nat_next(table);
	struct nat_key4 four;

	if (table & NAT_V6) {
		if (next)
			bpf_map_delete_elem(next, key);
		return nat_delete6(key, table);
	}
	nat_narrow(&four, key);
	if (next)
		bpf_map_delete_elem(next, &four);
	return nat_delete4(&four, table);
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

/* Inserts the entry of one direction, from in to out or back: 0, NAT_EEXIST if the key exists,
 * another negative number if there is no room. While the size of the tables changes, the key must not
 * exist in either table: a program that uses the new one may have inserted it. */
PCN_NOINLINE long nat_put(struct nat_open *o, __u32 table)
{
	const struct nat_key6 *key = table & NAT_IN ? &o->out : &o->in;
	const struct nat_key6 *to = table & NAT_IN ? &o->in : &o->out;
	struct nat_session6 *e = &o->entry;
	void *next = nat_next(table);
	struct nat_key4 four;
	long err;

	e->port = to->local_port;
	e->port_delta = pcn_csum_diff2(key->local_port, to->local_port);
	e->addr_delta = table & NAT_IN ? ~o->addr_delta : o->addr_delta;
	if (table & NAT_IN)
		nat_mark(key->local_port,
			 e->flags & NAT_MAPPING ? NAT_MARK_MAPPING : NAT_MARK_ALONE);
	if (table & NAT_V6) {
		pcn_address_copy(e->addr, to->local);
		err = table & NAT_IN ? bpf_map_update_elem(&ingress6, key, e, BPF_NOEXIST)
				     : bpf_map_update_elem(&egress6, key, e, BPF_NOEXIST);
		if (!err && next) {
			err = bpf_map_update_elem(next, key, e, BPF_NOEXIST);
			if (err)
				nat_delete6(key, table);
		}
		return err;
	}
	nat_narrow(&four, key);
	e->addr[0] = to->local[3];
	e->addr[1] = e->addr[2] = e->addr[3] = 0;
	err = table & NAT_IN ? bpf_map_update_elem(&ingress4, &four, e, BPF_NOEXIST)
			     : bpf_map_update_elem(&egress4, &four, e, BPF_NOEXIST);
	if (!err && next) {
		err = bpf_map_update_elem(next, &four, e, BPF_NOEXIST);
		if (err)
			nat_delete4(&four, table);
	}
	return err;
}

/* Whether the entry of a direction matches o. */
PCN_NOINLINE int nat_leads(const struct nat_open *o, const struct nat_session4 *s, __u32 table)
{
	const struct nat_key6 *to = table & NAT_IN ? &o->in : &o->out;
	pcn_address addr;

	nat_target(addr, s, table);
	return s->port == to->local_port && pcn_address_same(addr, to->local);
}

/* Fills a key with the mapping of its local endpoint. */
PCN_INLINE void nat_bare(struct nat_key6 *to, const struct nat_key6 *from)
{
	__builtin_memset(to, 0, sizeof(*to));
	pcn_address_copy(to->local, from->local);
	to->local_port = from->local_port;
	to->proto = from->proto;
}

/* True if a packet from outside belongs to a session with NAT_MAPPED. */
PCN_INLINE int nat_is_mapped(const struct nat_key6 *out, const __u32 table)
{
	struct nat_open *o = nat_scratch();
	struct nat_session4 *m, *s;

	if (!o)
		return 0;
	nat_bare(&o->probe, out);
	m = nat_get(&o->probe, table | NAT_IN);
	if (!m)
		return 0;
	nat_target(o->probe.local, m, table);
	pcn_address_copy(o->probe.remote, out->remote);
	o->probe.local_port = m->port;
	o->probe.remote_port = out->remote_port;
	s = nat_get(&o->probe, table & NAT_V6);
	return s && (s->flags & NAT_MAPPED);
}

PCN_GLOBAL int nat_is_mapped4(const struct nat_key6 *out PCN_NONNULL)
{
	return nat_is_mapped(out, 0);
}

PCN_GLOBAL int nat_is_mapped6(const struct nat_key6 *out PCN_NONNULL)
{
	return nat_is_mapped(out, NAT_V6);
}

/* The entry that translates a packet, NULL if it belongs to no session. */
PCN_INLINE struct nat_session4 *nat_translation(const struct nat_key6 *key, const __u32 table)
{
	struct nat_open *o = nat_scratch();

	if ((table & NAT_IN) && NAT_HAS_SOURCES && o &&
	    (table & NAT_V6 ? nat_is_mapped6(key) : nat_is_mapped4(key))) {
		nat_bare(&o->probe, key);
		return nat_find(&o->probe, table);
	}
	struct nat_session4 *s = nat_find(key, table);
	return s && (table & NAT_IN) && (s->flags & NAT_MAPPING) ? NULL : s;
}

/* Result of nat_ensure: the entry already existed, from another CPU or from before. */
#define NAT_THERE 1

/* Inserts the entry of a direction unless it exists. NAT_EEXIST: the key has a different entry. */
PCN_INLINE long nat_ensure(struct nat_open *o, const __u32 table)
{
	long err = nat_put(o, table);

	if (err != NAT_EEXIST)
		return err;
	struct nat_session4 *s = nat_find(table & NAT_IN ? &o->out : &o->in, table);
	return s && nat_leads(o, s, table) ? NAT_THERE : NAT_EEXIST;
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

#endif
