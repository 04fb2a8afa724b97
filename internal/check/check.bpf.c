// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* What all linked programs have in common, for the verifier to judge: a global function that relies on its argument not
 * being NULL, and a loop with a callback. */
#include <pcn/ctx.h>

struct state {
	__u32 turns;
};

static long turn(__u32 index, void *arg)
{
	struct state *s = arg;

	s->turns += index;
	return 0;
}

/* volatile: the call must not be optimised away. */
__attribute__((noinline)) int run(struct CTXTYPE *ctx, struct state *s PCN_NONNULL)
{
	volatile __u32 len = pcn_data_end(ctx) - pcn_data(ctx);
	struct state mine = *s;

	bpf_loop(4, turn, &mine, 0);
	s->turns = mine.turns;
	return len;
}

#ifdef PCN_XDP
SEC("xdp.frags") int check(struct CTXTYPE *ctx)
#else
SEC("tc") int check(struct CTXTYPE *ctx)
#endif
{
	struct state s = {};

	return run(ctx, &s) ? 1 : 2;
}

char _license[] SEC("license") = "Dual BSD/GPL";
