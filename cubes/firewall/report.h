// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reports of packets to the control plane, with the beginning of the packet: it writes the log, and answers packets
 * that were rejected. */
#ifndef FIREWALL_REPORT_H
#define FIREWALL_REPORT_H

#include <pcn/bucket.h>
#include <pcn/cube.h>

/* The kinds of reports. */
enum firewall_kind {
	FIREWALL_LOGGED,
	FIREWALL_REJECTED,
	FIREWALL_KINDS,
	FIREWALL_SESSION = FIREWALL_KINDS
};

/* How many there may be of each. */
PCN_CONFIG(struct pcn_bucket_limit, log_limit) = {};
PCN_CONFIG(struct pcn_bucket_limit, reject_limit) = {};
PCN_MAP(report_buckets, BPF_MAP_TYPE_ARRAY, __u32, __u64, FIREWALL_KINDS);

/* Enough for all headers up to the flags of TCP, with two VLAN tags. */
#define FIREWALL_FRAME 108

/* The data of a report. */
struct firewall_report {
	__u32 counter; /* of the rule */
	__u32 length;  /* bytes of the packet */
	__u32 ifindex; /* of the netdev where it is received or sent */
	__u16 frame_length;
	__u16 tci; /* of a tag that is not in the frame */
	__u8 tagged;
	__u8 out;
	__u16 zero;
	__u8 frame[FIREWALL_FRAME];
};

_Static_assert(sizeof(struct firewall_report) == PCN_NOTIFY_MAX, "a report fills a message");

PCN_MAP(notices, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_notice, 1);

/* Reports a packet. 0 if there are too many reports, or too many of the cube's messages wait. */
PCN_GLOBAL int firewall_report(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 kind,
			       __u32 counter, __u32 out)
{
	__u32 zero = 0, length = pcn_frame_len(ctx);
	__u64 *bucket = bpf_map_lookup_elem(&report_buckets, &kind);
	struct pcn_notice *notice = bpf_map_lookup_elem(&notices, &zero);

	if (!bucket || !notice)
		return 0; /* never */
	if (!pcn_bucket_take(bucket, kind == FIREWALL_LOGGED ? &log_limit : &reject_limit, 1,
			     pcn_time()))
		return 0;
	struct firewall_report *r = (void *)notice->data;
	length = length < FIREWALL_FRAME ? length : FIREWALL_FRAME;
	notice->kind = kind;
	notice->size = sizeof(*r);
	r->counter = counter;
	r->length = md->packet_len;
	r->frame_length = length;
	r->out = out;
	r->tci = 0;
	r->tagged = 0;
	r->zero = 0;
#ifdef PCN_XDP
	r->ifindex = ctx->ingress_ifindex;
#else
	r->ifindex = ctx->ifindex;
	if (ctx->vlan_present) {
		r->tci = ctx->vlan_tci;
		r->tagged = 1;
	}
#endif
	if (pcn_load_first(ctx, r->frame, length, FIREWALL_FRAME))
		return 0;
	return !pcn_notify_notice(ctx, notice);
}

#endif
