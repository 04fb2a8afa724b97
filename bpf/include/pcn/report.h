// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reports of packets to the control plane, with the beginning of the packet, for rules that log or reject: Go package
 * report writes the line of the log, and makes the answer. */
#ifndef PCN_REPORT_H
#define PCN_REPORT_H

#include <pcn/bucket.h>
#include <pcn/cube.h>

/* The kinds of reports. A cube numbers messages of its own from PCN_REPORT_KINDS on. */
enum pcn_report_kind {
	PCN_REPORT_LOGGED,
	PCN_REPORT_REJECTED,
	PCN_REPORT_KINDS,
};

/* How many there may be of each: report.Limits. */
PCN_CONFIG(struct pcn_bucket_limit, log_limit) = {};
PCN_CONFIG(struct pcn_bucket_limit, reject_limit) = {};
/* Internal: the buckets of all cubes. */
PCN_MAP_SHARED(report, report_buckets, BPF_MAP_TYPE_ARRAY, __u32, __u64,
	       PCN_MAX_CUBES *PCN_REPORT_KINDS);

/* Enough for an ICMP error with the first 94 bytes of the packet. */
#define PCN_REPORT_FRAME 108

/* In `flags` of a report. */
#define PCN_REPORT_OUT 1    /* on its way out */
#define PCN_REPORT_TAGGED 2 /* with a tag that is not in the frame */

/* The data of a report: report.Report. */
struct pcn_report {
	__u32 rule;    /* what the cube calls the rule */
	__u32 length;  /* bytes of the packet */
	__u32 ifindex; /* of the netdev where it is received or sent */
	__u32 from;    /* of the netdev that received a packet that is sent, or 0 */
	__u8 frame_length;
	__u8 flags;
	__u16 tci; /* of a tag that is not in the frame */
	__u8 frame[PCN_REPORT_FRAME];
};

_Static_assert(sizeof(struct pcn_report) == PCN_NOTIFY_MAX, "a report fills a message");

/* Internal: where a report is made. */
PCN_MAP_SHARED(report, report_notices, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_notice, 1);

/* Internal: what the context knows of the packet. */
PCN_INLINE void pcn_report_origin(struct CTXTYPE *ctx, struct pcn_report *r, __u32 out)
{
	r->tci = 0;
	r->flags = out ? PCN_REPORT_OUT : 0;
	r->from = 0;
#ifdef PCN_XDP
	r->ifindex = ctx->ingress_ifindex;
#else
	r->ifindex = ctx->ifindex;
	if (out)
		r->from = ctx->ingress_ifindex;
	if (ctx->vlan_present) {
		r->tci = ctx->vlan_tci;
		r->flags |= PCN_REPORT_TAGGED;
	}
#endif
}

/* Reports a packet that a rule logs or rejects, on its way in (0) or out (1). 0 if there are too many reports, or too
 * many of the cube's messages wait. */
PCN_GLOBAL int pcn_report(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 kind,
			  __u32 rule, __u32 out)
{
	__u32 zero = 0, length = pcn_frame_len(ctx);
	__u32 at = pcn_instance(md) * PCN_REPORT_KINDS + kind;
	__u64 *bucket = bpf_map_lookup_elem(&report_buckets, &at);
	struct pcn_notice *notice = bpf_map_lookup_elem(&report_notices, &zero);

	if (!bucket || !notice)
		return 0; /* never */
	if (!pcn_bucket_take(bucket, kind == PCN_REPORT_LOGGED ? &log_limit : &reject_limit, 1,
			     pcn_time()))
		return 0;
	struct pcn_report *r = (void *)notice->data;
	length = length < PCN_REPORT_FRAME ? length : PCN_REPORT_FRAME;
	notice->kind = kind;
	notice->size = sizeof(*r);
	r->rule = rule;
	r->length = md->packet_len;
	r->frame_length = length;
	pcn_report_origin(ctx, r, out);
	if (pcn_load_first(ctx, r->frame, length, PCN_REPORT_FRAME))
		return 0;
	return !pcn_notify_notice(ctx, notice);
}

#endif
