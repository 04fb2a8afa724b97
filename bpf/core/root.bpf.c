// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The root program of a netdev: it enters the program in its slot. Replacing the slot replaces the
 * program of all netdevs that share the root, at once and without losing a packet. */
#include "maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} pcn_slot SEC(".maps");

#ifdef PCN_TC
/* A netdev may have two root programs in each direction: its own, and one between it and the host's stack, in which
 * pcn_at_host is not 0. pcn_before is not 0 in the one that runs first: in that of the netdev on the way in, in that of
 * the stack on the way out. */
const volatile __u32 pcn_at_host = 0;
const volatile __u32 pcn_before = 0;

/* True for a packet that this program must leave alone. A mark for the program that runs first is used up there; one for
 * the other has passed this one. */
PCN_INLINE int skips(struct __sk_buff *ctx)
{
	__u32 mark = ctx->tc_index, own = pcn_at_host ? PCN_SKIP_HOST : PCN_SKIP;

	if (mark != PCN_SKIP && mark != PCN_SKIP_HOST)
		return 0;
	if (mark == own || !pcn_before)
		ctx->tc_index = 0;
	return mark == own || pcn_before;
}
#endif

#ifdef PCN_XDP
/* Not 0 on a netdev with generic XDP. */
const volatile __u64 pcn_secret = 0;

/* True for a frame that one of our programs sends to the stack, past the programs that have already
 * processed it. Removes the header. */
PCN_INLINE int take_pass_header(struct xdp_md *ctx)
{
	struct pcn_pass *p = pcn_data(ctx);

	return pcn_secret && (void *)(p + 1) <= pcn_data_end(ctx) && p->secret == pcn_secret &&
	       !bpf_xdp_adjust_head(ctx, sizeof(*p));
}
#endif

SEC(PCN_SECTION) int pcn_root(struct CTXTYPE *ctx)
{
#ifdef PCN_XDP
	if (take_pass_header(ctx))
		return XDP_PASS;
#else
	if (skips(ctx))
		return -1; /* TC_ACT_UNSPEC: the next program, then the stack or the wire */
#endif
	bpf_tail_call(ctx, &pcn_slot, 0);
	pcn_count_fate(0, PCN_REASON_NO_PROGRAM);
#ifdef PCN_TC
	return 2; /* TC_ACT_SHOT */
#else
	return XDP_DROP;
#endif
}

char _license[] SEC("license") = "Dual BSD/GPL";
