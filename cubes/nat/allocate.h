// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* External endpoints. An endpoint is claimed by inserting its entry as seen outside: the table lets only
 * one CPU insert a key, so no endpoint is allocated twice, and none is lost. */
#ifndef NAT_ALLOCATE_H
#define NAT_ALLOCATE_H

#include "session.h"

/* How many ports are tried before a range counts as exhausted. A range of this size or smaller is
 * tried completely. */
#define NAT_PROBES 64
/* How many of these have the parity of the internal port (RFC 4787, REQ-4). */
#define NAT_PARITY_PROBES 48

#define NAT_ENOSPC (-28)

/* How long after its claim an endpoint may lack its session, in coarse ns: a claim that is older
 * was left behind, and sweeps remove it. */
#define NAT_CLAIM_NS 1000000000

/* The ports that may be used, of a rule from first to last, for an internal port. Ports below 1024 stay below 1024 but
 * avoid the ports of the host's services (RFC 4787, REQ-3), unless the rule has its own range. */
PCN_INLINE void nat_range(struct nat_open *o, __u16 first, __u16 last)
{
	o->first = first;
	o->last = last;
	if (o->last)
		return;
	o->first = 1024;
	o->last = 65535;
	if (o->in.proto == IPPROTO_ICMP || o->in.proto == IPPROTO_ICMPV6)
		o->first = 0;
	else if (bpf_ntohs(o->in.local_port) < 1024) {
		o->first = 512;
		o->last = 1023;
	}
}

/* True if a rule forwards the port: replies to a mapping with it would be misdirected. */
PCN_NOINLINE int nat_is_forwarded(const struct nat_key *out)
{
	struct nat_forward_key key = { .prefixlen = 160,
				       .proto = out->proto,
				       .port = out->local_port };

	pcn_address_copy(key.addr, out->local);
	struct nat_forward *f = bpf_map_lookup_elem(&forwards, &key);
	return f && (f->port || f->base);
}

/* True if a session of a mapping already has the external endpoint towards the same remote. */
PCN_INLINE int nat_is_shared(const struct nat_open *o)
{
	return nat_is_marked(o->out.local_port, NAT_MARK_MAPPING) && nat_is_mapped(&o->out);
}

/* Claims out.local_port. A mapping must not use a forwarded port; a session without one must not use that of a session
 * of a mapping, which is checked before the claim, as one that is given back takes memory until the next sweep, and
 * after it. */
PCN_INLINE long nat_try(struct nat_open *o, __u16 port)
{
	__u32 alone = !(o->entry.flags & NAT_MAPPING);
	long err = NAT_EEXIST;

	o->out.local_port = bpf_htons(port);
	if (alone ? !nat_is_shared(o) : !NAT_HAS_FORWARDS || !nat_is_forwarded(&o->out))
		err = nat_put(o, 1);
	if (!err && alone && nat_is_shared(o)) {
		nat_remove(&o->out);
		err = NAT_EEXIST;
	}
	if (err == NAT_EEXIST)
		pcn_count(&counters, NAT_COLLISIONS);
	return err;
}

/* Claims the port of probe i: random (RFC 6056), and first with the parity that UDP requires. A
 * range of NAT_PROBES ports or fewer is tried completely. */
PCN_INLINE long nat_probe(struct nat_open *o, __u32 i, __u32 random)
{
	__u32 want = bpf_ntohs(o->in.local_port), first = o->first;
	__u32 all = (o->last - first + 1) & 0x1ffff, odd = (first ^ want) & 1;
	__u32 step = all > NAT_PROBES ? (random >> 15) | 1 : 1;

	if (i >= all)
		return NAT_ENOSPC;
	if (o->in.proto != IPPROTO_UDP || all == 1)
		return nat_try(o, first + (random + i * step) % all);
	__u32 alike = (all + !odd) / 2;
	if (i >= NAT_PARITY_PROBES || i >= alike) {
		alike = all - alike;
		odd ^= 1;
	}
	return nat_try(o, first + odd + (random + i * step) % (alike & 0xffff) * 2);
}

/* True if another CPU has just claimed the endpoint for the same session, whose packets arrive on
 * several CPUs at once. */
PCN_INLINE int nat_is_claimed_for_same(const struct nat_open *o)
{
	struct nat_session *s = nat_find(&o->out);

	return s && nat_leads(o, s, 1) && pcn_age(o->entry.seen, s->created) < NAT_CLAIM_NS &&
	       ((o->entry.flags & NAT_MAPPING) || !nat_is_shared(o));
}

/* The first try is the internal port, if it is in the range or belongs to the host itself.
 * NAT_THERE: another CPU has claimed it for the same session. */
PCN_INLINE long nat_try_own(struct nat_open *o)
{
	__u16 want = bpf_ntohs(o->in.local_port);

	/* As in Linux, any port stays that no rule of the table nat changes. */
	int stays = o->entry.flags & NAT_OWN || (has_policy && !o->to.port_last);

	if ((want < o->first || want > o->last) && !stays)
		return NAT_EEXIST;
	if (has_policy && o->to.random && !o->fixed)
		return NAT_EEXIST;
	long err = nat_try(o, want);
	return err == NAT_EEXIST && nat_is_claimed_for_same(o) ? NAT_THERE : err;
}

PCN_GLOBAL int nat_probe_for(__u32 i, __u32 random)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return NAT_ENOMEM;
	return i ? nat_probe(o, i - 1, random) : nat_try_own(o);
}

/* Claims a port of first .. last of the scratch area for its in: the same port, or another.
 * NAT_THERE: another CPU has just claimed it for the same session. Negative: NAT_ENOSPC, or the
 * table is full. */
PCN_INLINE long nat_claim(void)
{
	__u32 random = bpf_get_prandom_u32();
	int err = NAT_EEXIST;

	for (__u32 i = 0; i <= NAT_PROBES && err == NAT_EEXIST; i++)
		err = nat_probe_for(i, random);
	return err == NAT_EEXIST ? NAT_ENOSPC : err;
}

#endif
