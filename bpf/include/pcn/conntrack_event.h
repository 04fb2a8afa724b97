// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Messages about connections that are new, or in another state, for the event stream. Package conntrack/session makes
 * events of them; those of the end come from the control plane, which removes connections. */
#ifndef PCN_CONNTRACK_EVENT_H
#define PCN_CONNTRACK_EVENT_H

#include <pcn/conntrack_packet.h>
#include <pcn/session_notice.h>

/* Internal: a message. */
struct pcn_conntrack_event {
	struct pcn_conntrack_key key;
	__u8 state; /* enum pcn_ct_state_name */
	__u8 opener;
	__u8 updated; /* 0: it is new */
	__u8 zero[5];
};

/* Tells the control plane of a connection that is in another state, or new: call it where pcn_conntrack_account may be
 * called. `kind` is that of pcn_notify. Returns 0. */
PCN_GLOBAL int pcn_conntrack_event(struct CTXTYPE *ctx, const struct pcn_md *md PCN_NONNULL,
				   struct pcn_conntrack_work *w PCN_NONNULL, __u32 kind)
{
	__u32 cube = pcn_instance(md), updated = w->class == PCN_CT_ESTABLISHED;
	struct pcn_conntrack_events *events = bpf_map_lookup_elem(&ct_events, &cube);
	struct pcn_notice *notice;

	if (!events || w->flow.fragment == PCN_FRAGMENT_LATER)
		return 0;
	if (updated ? *(__u8 *)&w->was == w->next.state
		    : (w->change & PCN_EMBRYO_STATUS) != PCN_EMBRYO_WRITTEN && !w->number)
		return 0;
	notice = pcn_session_notice(events);
	if (!notice)
		return 0;
	struct pcn_conntrack_event *e = (void *)notice->data;
	notice->kind = kind;
	notice->size = sizeof(*e);
	e->key = w->fresh.key;
	e->state = w->next.state;
	e->opener = w->next.flags & PCN_CT_OPENER;
	e->updated = updated;
	__builtin_memset(e->zero, 0, sizeof(e->zero));
	pcn_session_notify(ctx, events, notice);
	return 0;
}

#endif
