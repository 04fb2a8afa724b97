// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Messages about sessions for the event stream: at most so many per second and cube, and those that are left out count as lost.
 * Cubes that track connections use <pcn/conntrack_event.h>, others fill a message of their own. */
#ifndef PCN_SESSION_NOTICE_H
#define PCN_SESSION_NOTICE_H

#include <pcn/bucket.h>
#include <pcn/cube.h>
#include <pcn/notify.h>

/* Internal: the bucket of a cube's messages, and how many were left out since there is the map. */
struct pcn_conntrack_events {
	__u64 bucket;
	__u64 lost;
};

PCN_MAP_SHARED(conntrack, ct_events, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_events,
	       PCN_MAX_CUBES);
PCN_MAP_SHARED(conntrack, ct_notices, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_notice, 1);

/* How many messages there may be. */
PCN_CONFIG(struct pcn_bucket_limit, session_event_limit) = {};

/* Internal: the memory for a message, NULL if there were too many in this second. */
PCN_INLINE struct pcn_notice *pcn_session_notice(struct pcn_conntrack_events *events)
{
	__u32 only = 0;
	struct pcn_notice *notice = bpf_map_lookup_elem(&ct_notices, &only);

	if (notice && pcn_bucket_take(&events->bucket, &session_event_limit, 1, pcn_time()))
		return notice;
	__sync_fetch_and_add(&events->lost, 1);
	return NULL;
}

/* Internal: sends the message. */
PCN_INLINE void pcn_session_notify(struct CTXTYPE *ctx, struct pcn_conntrack_events *events,
				   const struct pcn_notice *notice)
{
	if (pcn_notify_notice(ctx, notice))
		__sync_fetch_and_add(&events->lost, 1);
}

#endif
