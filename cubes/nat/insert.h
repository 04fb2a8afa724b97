// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Inserts the entries of new sessions: of a mapping, or with an external endpoint of their own. */
#ifndef NAT_INSERT_H
#define NAT_INSERT_H

#include "allocate.h"

PCN_INLINE int nat_refuse(long err)
{
	if (err == NAT_ENOSPC) {
		pcn_count(&counters, NAT_EXHAUSTED);
		return NAT_PORTS_EXHAUSTED;
	}
	if (err == NAT_EEXIST)
		return NAT_ENDPOINT_TAKEN;
	pcn_count(&counters, NAT_TABLE_FULL);
	return NAT_SESSION_TABLE_FULL;
}

PCN_INLINE int nat_opened(const struct nat_open *o)
{
	switch (o->in.proto) {
	case IPPROTO_TCP:
		pcn_count(&counters, NAT_CREATED_TCP);
		break;
	case IPPROTO_UDP:
		pcn_count(&counters, NAT_CREATED_UDP);
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		pcn_count(&counters, NAT_CREATED_ICMP);
		break;
	default:
		pcn_count(&counters, NAT_CREATED_OTHER);
	}
	return NAT_MADE;
}

/* Inserts the entry of a session as seen inside, and counts its first packet if that is outgoing. */
PCN_INLINE long nat_put_session(struct nat_open *o)
{
	o->entry.packets = o->length != 0;
	o->entry.bytes = o->length;
	long err = nat_put(o, 0);
	o->entry.packets = 0;
	o->entry.bytes = 0;
	return err;
}

/* Decides whether a tentative session of a mapping stays: not if a session without a mapping has
 * its external endpoint. Any CPU that has a packet of it may decide, the first decision applies,
 * and it is never revoked: a later claim for the endpoint sees the session and withdraws. Returns
 * its flags. */
PCN_INLINE __u8 nat_settle(struct nat_open *o, struct nat_session *s)
{
	union {
		__u32 word;
		struct {
			__be16 port;
			__u8 flags;
			__u8 origin;
		};
	} is = { .word = *(volatile __u32 *)&s->port }, next = is;

	if (!(is.flags & NAT_TENTATIVE) || is.flags & NAT_WITHDRAWN)
		return is.flags;
	if (nat_is_marked(o->out.local_port, NAT_MARK_ALONE) && nat_find(&o->out))
		next.flags |= NAT_WITHDRAWN;
	else
		next.flags &= ~NAT_TENTATIVE;
	is.word = __sync_val_compare_and_swap((__u32 *)&s->port, is.word, next.word);
	return (is.flags & NAT_TENTATIVE) && !(is.flags & NAT_WITHDRAWN) ? next.flags : is.flags;
}

/* Inserts the session of a mapping, which is in o. NAT_EEXIST: a session without a mapping has the
 * external endpoint. That session checks for this one after its claim, so one of the two withdraws.
 * */
PCN_GLOBAL int nat_join(void)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return NAT_ENOMEM;
	nat_specific(o);
	o->entry.flags |= NAT_MAPPED | NAT_TENTATIVE;
	long err = nat_put_session(o);
	o->entry.flags &= ~(NAT_MAPPED | NAT_TENTATIVE);
	if (err && err != NAT_EEXIST)
		return err;
	struct nat_session *s = (void *)pcn_conntrack_entry(o->number);
	__u8 flags = s ? nat_settle(o, s) : NAT_WITHDRAWN;
	if (err) { /* another CPU inserted it at the same time */
		int inbound = o->entry.flags & NAT_INBOUND;
		return !(flags & NAT_WITHDRAWN) && (!inbound || flags & NAT_MAPPED) ? NAT_OPENED
										    : err;
	}
	if (flags & NAT_WITHDRAWN) {
		if (s)
			pcn_conntrack_end((void *)s);
		return NAT_EEXIST;
	}
	o->entry.flags |= NAT_MAPPED;
	return nat_opened(o);
}

/* After the inner entry of an endpoint that another CPU had claimed: that CPU may have given its
 * claim back, as it had no room for the entry. Not 0 if the endpoint is lost. */
PCN_NOINLINE long nat_reclaim(struct nat_open *o)
{
	long err = nat_ensure(o);

	if (err >= 0)
		return 0;
	nat_remove(&o->in);
	return err;
}

/* Inserts the inner entry of the session in o. The outer one exists: `there` is the result of
 * nat_ensure or nat_claim, so that another session's entry is not removed on failure. */
PCN_INLINE int nat_complete(struct nat_open *o, long there)
{
	long err = nat_put_session(o);

	if (!err && there) {
		err = nat_reclaim(o);
		if (err)
			return nat_refuse(err);
	}
	if (!err)
		return nat_opened(o);
	struct nat_session *s = err == NAT_EEXIST ? nat_find(&o->in) : NULL;
	if (s && nat_leads(o, s, 0))
		return NAT_OPENED; /* by another CPU at the same time */
	if (!there)
		nat_remove(&o->out);
	return s && !(o->entry.flags & NAT_INBOUND) ? NAT_OPENED : nat_refuse(err);
}

/* A session whose external endpoint is only for its remote. */
PCN_NOINLINE int nat_open_alone(struct nat_open *o)
{
	nat_specific(o);
	long there = nat_claim(), err = there < 0 ? there : 0;
	if (err == NAT_ENOSPC) {
		/* The entry may be its own, left over when it expired. */
		o->out.local_port = o->in.local_port;
		struct nat_session *s = nat_find(&o->out);
		if (s && nat_leads(o, s, 1)) {
			there = NAT_THERE;
			err = 0;
		} else if (o->fixed) {
			err = NAT_EEXIST;
		}
	}
	return err ? nat_refuse(err) : nat_complete(o, there);
}

/* Sets o->out to the external endpoint of o->in: that of its mapping, or of a new one. */
PCN_GLOBAL int nat_map(void)
{
	struct nat_open *o = nat_scratch();

	if (!o)
		return NAT_ENOMEM;
	nat_wildcard(o);
	for (int i = 0; i < 2; i++) {
		struct nat_session *m = nat_find(&o->in);
		if (m) {
			if (pcn_refresh_due(o->entry.seen, m->seen, refresh_ns))
				m->seen = o->entry.seen;
			o->out.local_port = m->port;
			pcn_address_copy(o->out.local, m->addr);
			o->addr_delta = m->addr_delta;
			/* The rule for new endpoints may have changed, with other addresses. */
			o->entry.rule = m->rule;
			o->entry.origin = m->origin;
			return 0;
		}
		long there = nat_claim();
		if (there < 0)
			return there;
		long err = nat_put(o, 0);
		if (!err && there)
			err = nat_reclaim(o);
		if (!err) {
			pcn_count(&counters, NAT_MAPPINGS);
			return 0;
		}
		m = nat_find(&o->in);
		if (!there && !(m && nat_leads(o, m, 0)))
			nat_remove(&o->out);
		if (err != NAT_EEXIST)
			return err; /* else another CPU was faster: its mapping applies */
	}
	return NAT_EEXIST;
}

/* Records that o->in has sent to the remote address, whatever the port. */
PCN_INLINE void nat_permit(struct nat_open *o)
{
	nat_specific(o);
	o->in.remote_port = 0;
	o->entry.flags |= NAT_MAPPING;
	if (!nat_find(&o->in))
		nat_put(o, 0);
	nat_specific(o);
}

/* A session of a mapping. */
PCN_INLINE int nat_open_mapped(struct nat_open *o)
{
	long err = nat_map();

	if (err == NAT_ENOSPC && overload) {
		o->entry.flags |= NAT_OVERLOAD;
		return nat_open_alone(o);
	}
	if (err)
		return nat_refuse(err);
	err = nat_join();
	if (err == NAT_EEXIST && overload)
		return nat_open_alone(o);
	if (err < 0)
		return nat_refuse(err);
	if (filtering == NAT_FILTER_ADDRESS_DEPENDENT && o->remote_port)
		nat_permit(o);
	return err;
}

#endif
