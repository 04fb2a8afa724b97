// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Functions to trace packets. Only the driver of a component that is traced calls them; other
 * drivers do not contain them. */
#ifndef PCN_TRACE_H
#define PCN_TRACE_H

/* The framework calls the functions of filters by names of its own. */
#define PCN_FILTER_INTERNAL
#include <pcn/filter.h>

/* Tracing stops at this time, in monotonic ns: the lease of a daemon, which may have died. */
PCN_MAP_FLAGS(pcn_tracing, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1, BPF_F_MMAPABLE);
/* Number of records that were shed, per CPU. */
PCN_MAP(pcn_trace_lost, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, 1);

#define WHO_PROGRAM(who) ((who) >> 24)
/* Fields of `what`: the stage, and the verdict or the sessions in the upper bits. */
#define STAGE(what) ((what)&0xff)
#define VERDICT(what) ((what) >> 8 & 0xff)
#define SESSIONS(what) ((what) >> 16 & 0xff)

/* A field of the frame, of 1, 2 or 4 bytes, or -1 where the frame ends. For filters. */
PCN_GLOBAL long pcn_core_field(struct CTXTYPE *ctx, __u32 at, __u32 width)
{
	return pcn_filter_read(ctx, at, width);
}

/* The length of the frame on the wire. For filters. */
PCN_GLOBAL int pcn_core_length(struct CTXTYPE *ctx)
{
	return pcn_filter_wire_len(ctx);
}

/* Marks a packet as followed by the sessions whose filters matched. */
PCN_GLOBAL int pcn_core_trace_begin(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
				    __u32 sessions)
{
	__u32 zero = 0;
	__u64 *until = bpf_map_lookup_elem(&pcn_tracing, &zero);

	(void)ctx;
	if (!until || bpf_ktime_get_ns() > *until) {
		md->flags &= ~PCN_MD_TRACE;
		return 0;
	}
	md->flags |= sessions & PCN_MD_TRACE;
	if (!md->trace_id)
		md->trace_id = bpf_get_prandom_u32() | 1;
	return 0;
}

PCN_INLINE void trace_lost(void)
{
	__u32 zero = 0;
	__u64 *lost = bpf_map_lookup_elem(&pcn_trace_lost, &zero);

	if (lost)
		(*lost)++;
}

PCN_INLINE void fill_trace(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_trace *t, __u32 who,
			   __u32 what, __u32 extra)
{
	t->time = bpf_ktime_get_ns();
	t->cube = CUBE(who);
	t->in_port = md->in_port;
	t->out_port = md->out_port;
	t->reason = md->reason;
	t->extra = extra;
	t->id = md->trace_id;
	t->stage = STAGE(what);
	t->verdict = VERDICT(what);
	t->program = WHO_PROGRAM(who);
	t->egress = !!EGRESS(who);
	t->sessions = SESSIONS(what) ?: md->flags & PCN_MD_TRACE;
	t->pad = 0;
	(void)ctx;
}

PCN_INLINE long load_captured(struct CTXTYPE *ctx, struct pcn_record *r, __u32 n, const __u32 max)
{
	return pcn_load_first(ctx, r->data + sizeof(struct pcn_trace), n, max);
}

/* Records a step of a packet with its first bytes. The upper bits of who are the index of the
 * program. */
PCN_GLOBAL int pcn_core_trace(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who,
			      __u32 what, __u32 extra)
{
	const __u32 head = sizeof(struct pcn_trace), size = RECORD(head + PCN_TRACE_BYTES);
	__u32 zero = 0, len = LEN(ctx), n = len < PCN_TRACE_BYTES ? len : PCN_TRACE_BYTES;
	struct pcn_share *share = bpf_map_lookup_elem(&pcn_shares, &zero);
	struct pcn_record *r;

	if (!share || !admit(share, size) || !(r = bpf_ringbuf_reserve(&pcn_ring, size, 0))) {
		trace_lost();
		return -1;
	}
	__sync_fetch_and_add(&share->produced, size);
	fill(ctx, md, r, who);
	r->kind = PCN_RECORD_TRACE;
	r->cube = 0; /* the share that is charged */
	r->len = len;
	r->size = size;
	fill_trace(ctx, md, (void *)r->data, who, what, extra);
	r->caplen = head + (load_captured(ctx, r, n, PCN_TRACE_BYTES) ? 0 : n);
	bpf_ringbuf_submit(r, wakeup());
	return 0;
}

/* Records a step of a packet with the whole packet. */
PCN_GLOBAL int pcn_core_capture(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who,
				__u32 what, __u32 extra)
{
	const __u32 head = sizeof(struct pcn_trace);
	__u32 zero = 0, len = LEN(ctx), n = len;
	struct pcn_share *share = bpf_map_lookup_elem(&pcn_shares, &zero);
	__u32 class = len + head <= CLASS_1   ? CLASS_1
		      : len + head <= CLASS_2 ? CLASS_2
		      : len + head <= CLASS_3 ? CLASS_3
					      : CLASS_4;
	struct pcn_record *r;

	if (!share || !admit(share, RECORD(class)) || !(r = reserve(class))) {
		trace_lost();
		return -1;
	}
	__sync_fetch_and_add(&share->produced, RECORD(class));
	fill(ctx, md, r, who);
	r->kind = PCN_RECORD_TRACE;
	r->cube = 0;
	r->len = len;
	r->size = RECORD(class);
	fill_trace(ctx, md, (void *)r->data, who, what, extra);
	if (n > class - head)
		n = class - head;
	long err = class == CLASS_1   ? load_captured(ctx, r, n, CLASS_1 - head)
		   : class == CLASS_2 ? load_captured(ctx, r, n, CLASS_2 - head)
		   : class == CLASS_3 ? load_captured(ctx, r, n, CLASS_3 - head)
				      : load_captured(ctx, r, n, CLASS_4 - head);
	r->caplen = head + (err ? 0 : n);
	bpf_ringbuf_submit(r, wakeup());
	return 0;
}

#endif
