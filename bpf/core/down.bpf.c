// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The program of the TAP that takes packets from the slow path down into the fast path. What
 * is to be done with a frame stands in shared memory, not in the frame: the daemon writes the
 * record, then the frame, and the kernel runs this program inside that write. So the frame is
 * untouched and keeps its offload state. At TC, copies for other cubes arrive here too. */
#include "maps.h"

PCN_MAP_FLAGS(pcn_down, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_down, 1, BPF_F_MMAPABLE);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, PCN_MAX_CUBES);
	__type(key, __u32);
	__type(value, __u32);
} pcn_cubes SEC(".maps");

#ifdef PCN_TC
#define DROP 2
#else
#define DROP XDP_DROP
#endif

PCN_INLINE int enter(struct CTXTYPE *ctx, __u32 cube)
{
	bpf_tail_call(ctx, &pcn_cubes, cube);
	pcn_count_fate(cube < PCN_MAX_CUBES ? cube : 0, PCN_REASON_NO_PROGRAM);
	return DROP;
}

SEC(PCN_SECTION) int pcn_down_in(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	struct pcn_down *down = bpf_map_lookup_elem(&pcn_down, &zero);
	struct pcn_resume *to = bpf_map_lookup_elem(&pcn_resumes, &zero);

	if (!down || !to)
		return DROP;
#ifdef PCN_TC
	if (ctx->cb[0] >> 16 == PCN_COPY_MAGIC) {
		__builtin_memset(to, 0, sizeof(*to));
		to->cube = ctx->cb[1] >> 16;
		to->target = PCN_TO_TX;
		to->md.out_port = ctx->cb[1];
		to->md.hops = ctx->cb[0];
		to->md.flow_hash = ctx->cb[2];
		to->md.tenant = ctx->cb[3];
		to->md.pass_ifindex = ctx->cb[4];
		to->md.packet_len = ctx->len;
		to->md.traffic_class = ctx->mark;
		ctx->cb[0] = 0;
		return enter(ctx, to->cube);
	}
#endif
	if (down->state != 1) {
		pcn_count_fate(0, PCN_REASON_NO_PROGRAM);
		return DROP;
	}
	down->state = 2;
	*to = down->resume;
#ifdef PCN_TC
	ctx->mark = to->md.traffic_class;
	to->md.packet_len = ctx->len;
#else
	to->md.packet_len = ctx->data_end - ctx->data;
#endif
	return enter(ctx, to->cube);
}

#ifdef PCN_TC
/* At the TC ingress of the XDP cubes' TAP: a packet that an XDP program passed goes to the
 * stack of the netdev where it once entered. */
SEC(PCN_SECTION) int pcn_down_pass(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	struct pcn_down *down = bpf_map_lookup_elem(&pcn_down, &zero);

	if (!down || !down->resume.md.pass_ifindex)
		return DROP;
	ctx->tc_index = PCN_SKIP;
	return bpf_redirect(down->resume.md.pass_ifindex, BPF_F_INGRESS);
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
