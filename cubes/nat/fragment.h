// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Fragments: only the first one has ports. Its translation is stored for the others, which must
 * arrive after it (RFC 4787, REQ-14: earlier ones are dropped). */
#ifndef NAT_FRAGMENT_H
#define NAT_FRAGMENT_H

#include "open.h"

/* How long a stored translation is valid: as long as a host waits for the rest of a datagram (RFC
 * 1122: 60 to 120 s, Linux: 30 s). */
#define NAT_FRAGMENT_NS 60000000000ULL

PCN_INLINE void nat_fragment_of(struct nat_open *o, const struct nat_key *key, __u32 id)
{
	pcn_address_copy(o->fragment_key.local, key->local);
	pcn_address_copy(o->fragment_key.remote, key->remote);
	o->fragment_key.id = id;
	o->fragment_key.proto = key->proto;
	o->fragment_key.egress = !(key->zone & NAT_IN);
}

/* Stores the translation of a first fragment. */
PCN_NOINLINE void nat_remember(const struct nat_key *key, const struct nat_session *s, __u32 id)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return;
	nat_fragment_of(o, key, id);
	o->fragment.seen = pcn_time_coarse();
	o->fragment.addr_delta = s->addr_delta;
	o->fragment.turns = s->flags & NAT_HAIRPIN;
	pcn_address_copy(o->fragment.addr, s->addr);
	bpf_map_update_elem(&fragments, &o->fragment_key, &o->fragment, BPF_ANY);
}

/* The stored translation for a later fragment: NULL if there is none. */
PCN_NOINLINE struct nat_fragment *nat_recall(const struct nat_key *key, __u32 id)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return NULL;
	nat_fragment_of(o, key, id);
	struct nat_fragment *f = bpf_map_lookup_elem(&fragments, &o->fragment_key);
	if (!f || pcn_aged(pcn_time_coarse(), f->seen, NAT_FRAGMENT_NS))
		return NULL;
	pcn_count(&counters, NAT_FRAGMENTS);
	return f;
}

/* The result for a fragment without a stored translation: a drop reason, if rules apply to it. */
PCN_NOINLINE int nat_stray(const struct nat_key *key)
{
	if (has_policy)
		return nat_is_exempt(key->local) || nat_is_exempt(key->remote)
			       ? NAT_UNTOUCHED
			       : NAT_FRAGMENT_WITHOUT_FIRST;
	if (key->zone & NAT_IN) {
		struct nat_forward_key dnat = { .prefixlen = 160, .proto = key->proto };

		if (nat_is_exempt(key->local) || nat_is_exempt(key->remote))
			return NAT_UNTOUCHED;
		pcn_address_copy(dnat.addr, key->local);
		return NAT_HAS_FORWARDS && bpf_map_lookup_elem(&forwards, &dnat)
			       ? NAT_FRAGMENT_WITHOUT_FIRST
			       : NAT_UNTOUCHED;
	}
	return nat_hides(key->local, key->remote) ? NAT_FRAGMENT_WITHOUT_FIRST : NAT_UNTOUCHED;
}

#endif
