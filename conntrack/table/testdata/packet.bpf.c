// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: classifies a packet, and accepts it. */
#include <pcn/config.h>
#include <pcn/conntrack_account.h>

PCN_CONFIG(bool, counts) = false;

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
	__u32 zero1;
	__u64 next; /* number of the next packet of `numbered` */
};

PCN_MAP_FLAGS(verdicts, BPF_MAP_TYPE_ARRAY, __u32, struct verdict, 1, BPF_F_MMAPABLE);

PCN_INLINE struct verdict *the_verdict(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&verdicts, &zero);
}

/* Writes the flow of a packet with a number: a client's to a server, or the reply. */
PCN_INLINE void flow_of(struct pcn_flow *flow, __u64 n, const int reply)
{
	pcn_address_set4(reply ? flow->destination : flow->source, bpf_htonl(0x0a000000 | n >> 8));
	pcn_address_set4(reply ? flow->source : flow->destination, bpf_htonl(0xc0a80001));
	flow->source_port = bpf_htons(reply ? 443 : 1000 + (n & 0xff));
	flow->destination_port = bpf_htons(reply ? 1000 + (n & 0xff) : 443);
	flow->protocol = IPPROTO_UDP;
	flow->ethertype = bpf_htons(ETH_P_IP);
	flow->has = PCN_FLOW_IP | PCN_FLOW_L4 | PCN_FLOW_PORTS;
}

PCN_INLINE struct pcn_conntrack_work *numbered(struct verdict *v, const int reply)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();

	if (w && v)
		flow_of(&w->flow, __sync_fetch_and_add(&v->next, 1), reply);
	return v ? w : NULL;
}

/* What is to be subtracted from the times of the next two. */
SEC(PCN_SECTION) int count(struct CTXTYPE *ctx)
{
	(void)ctx;
	return numbered(the_verdict(), 0) ? 0 : -1;
}

/* Opens a half-open connection. */
SEC(PCN_SECTION) int open(struct CTXTYPE *ctx)
{
	struct verdict *v = the_verdict();
	struct pcn_conntrack_work *w = numbered(v, 0);

	if (!w || pcn_conntrack_track(ctx, w, v->zone, 0) != PCN_CT_NEW)
		return -1;
	return pcn_conntrack_accept(w);
}

/* The reply moves it. */
SEC(PCN_SECTION) int answer(struct CTXTYPE *ctx)
{
	struct verdict *v = the_verdict();
	struct pcn_conntrack_work *w = numbered(v, 1);

	return w && pcn_conntrack_track(ctx, w, v->zone, 0) == PCN_CT_ESTABLISHED ? 0 : -1;
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
	v->class = pcn_conntrack_track(ctx, w, v->zone, v->options);
	if (counts && v->class == PCN_CT_ESTABLISHED)
		pcn_conntrack_account(ctx, w);
	v->refusal = w->refusal;
	if (v->class == PCN_CT_INVALID || (pcn_conntrack_known(w) && w->accepted))
		;
	else if (v->refuse)
		pcn_conntrack_refuse(w);
	else
		v->refusal = pcn_conntrack_accept(w);
	if (counts && v->class == PCN_CT_NEW && !v->refuse)
		pcn_conntrack_account(ctx, w);
	v->number = w->number;
	v->reply = w->reply;
	v->accepted = w->accepted;
	return 0;
}

PCN_LICENSE;
