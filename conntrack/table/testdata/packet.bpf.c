// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: classifies a packet, and accepts it. */
#include <pcn/config.h>
#include <pcn/conntrack_packet.h>

/* The zone, options for pcn_conntrack_track, and what came out. */
struct verdict {
	__u32 zone;
	__u32 options;
	__u32 class;
	__s32 refusal;
	__u32 number;
	__u8 reply;
	__u8 accepted;
	__u8 refuse; /* 1: the rules refuse it */
	__u8 zero;
};

PCN_MAP_FLAGS(verdicts, BPF_MAP_TYPE_ARRAY, __u32, struct verdict, 1, BPF_F_MMAPABLE);

PCN_INLINE struct verdict *the_verdict(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&verdicts, &zero);
}

/* Nothing but reading the packet: what is to be subtracted from the costs of the other. */
SEC(PCN_SECTION) int nothing(struct CTXTYPE *ctx)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();
	struct verdict *v = the_verdict();

	if (!w || !v || pcn_flow_read(ctx, &w->flow))
		return -1;
	v->class = w->flow.protocol;
	return 0;
}

SEC(PCN_SECTION) int track(struct CTXTYPE *ctx)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();
	struct verdict *v = the_verdict();

	if (!w || !v || pcn_flow_read(ctx, &w->flow))
		return -1;
	v->refusal = 0;
	v->class = pcn_conntrack_track(ctx, w, v->zone, v->options);
	if (pcn_conntrack_known(w) && w->accepted)
		;
	else if (v->refuse)
		pcn_conntrack_refuse(w);
	else
		v->refusal = pcn_conntrack_accept(w);
	v->number = w->number;
	v->reply = w->reply;
	v->accepted = w->accepted;
	return 0;
}

PCN_LICENSE;
