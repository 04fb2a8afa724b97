// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: packets of an algorithm at times that the test gives, and packets of several CPUs at once. */
#include <pcn/config.h>
#include <pcn/ctx.h>
#include <pcn/time.h>

#include "../limit.h"

struct limit_setup {
	struct pcn_bucket_limit limit;
	__u64 quota;
	__u64 window; /* ns */
	__u32 algorithm;
	__u32 steps;
	__u64 word;
	__u64 near; /* of limit_steps: credit below which packets are marked */
	__u64 warned;
	__u64 passed; /* bytes, of limit_race */
	__u64 offered;
	__u32 bytes; /* of a packet of limit_race */
	__u32 refer; /* limit_race works out as well what could pass */
};

/* What a limit lets pass of the packets that come, in 2^-8 ns at the rate; of a fixed window, in bytes. */
struct limit_reference {
	struct bpf_spin_lock lock;
	__u32 zero;
	__u64 at; /* the last packets, in 2^-8 ns; the number of their window */
	__u64 credit;
	__u64 passed;
};

struct limit_step {
	__u64 now; /* ns */
	__u32 bytes;
	__u16 passed;
	__u16 marked;
};

#define STEPS 16384
PCN_MAP_FLAGS(setup, BPF_MAP_TYPE_ARRAY, __u32, struct limit_setup, 1, BPF_F_MMAPABLE);
PCN_MAP_FLAGS(steps, BPF_MAP_TYPE_ARRAY, __u32, struct limit_step, STEPS, BPF_F_MMAPABLE);
PCN_MAP(states, BPF_MAP_TYPE_ARRAY, __u32, struct policer_state, 1);
PCN_MAP(reference, BPF_MAP_TYPE_ARRAY, __u32, struct limit_reference, 1);

PCN_INLINE __s64 take(struct limit_setup *l, struct policer_state *s, __u32 bytes, __u64 now)
{
	struct policer_at at = { &l->word, s, &l->limit, l->quota, l->window };

	return policer_take(l->algorithm, &at, bytes, now);
}

static long step(__u32 i, void *unused)
{
	__u32 zero = 0;
	struct limit_setup *l = bpf_map_lookup_elem(&setup, &zero);
	struct policer_state *s = bpf_map_lookup_elem(&states, &zero);
	struct limit_step *is = bpf_map_lookup_elem(&steps, &i);

	(void)unused;
	if (!l || !s || !is)
		return 1;
	__s64 left = take(l, s, is->bytes, is->now);

	is->passed = left >= 0;
	is->marked = left >= 0 && (__u64)left < l->near &&
		     policer_warn(l->algorithm, &l->warned, &l->limit, left, is->now);
	return 0;
}

/* All steps, one after the other. */
SEC(PCN_SECTION) int limit_steps(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	struct limit_setup *l = bpf_map_lookup_elem(&setup, &zero);

	if (!l || pcn_data(ctx) >= pcn_data_end(ctx))
		return -1;
	bpf_loop(l->steps, step, NULL, 0);
	return 0;
}

static long race(__u32 i, __u64 *passed)
{
	__u32 zero = 0;
	struct limit_setup *l = bpf_map_lookup_elem(&setup, &zero);
	struct policer_state *s = bpf_map_lookup_elem(&states, &zero);

	(void)i;
	if (!l || !s)
		return 1;
	if (take(l, s, l->bytes, pcn_time()) >= 0)
		*passed += l->bytes;
	return 0;
}

#define RACES 64

/* The packets of a call of limit_race come. */
PCN_INLINE void refer(const struct limit_setup *l, struct limit_reference *r)
{
	int windows = l->algorithm == POLICER_FIXED_WINDOW;
	__u64 now = pcn_time(), all = (__u64)l->bytes * RACES;

	if (!windows)
		all = pcn_bucket_cost(&l->limit, all);
	now = windows && l->window ? now / l->window : now << 8;
	bpf_spin_lock(&r->lock);
	if ((__s64)(now - r->at) > 0) {
		__u64 room = l->limit.size - r->credit, passed = now - r->at;

		r->credit = windows ? l->quota : r->credit + (passed < room ? passed : room);
		r->at = now;
	}
	all = all < r->credit ? all : r->credit;
	r->credit -= all;
	r->passed += all;
	bpf_spin_unlock(&r->lock);
}

/* Packets that come as fast as they can. */
SEC(PCN_SECTION) int limit_race(struct CTXTYPE *ctx)
{
	__u64 passed = 0;
	__u32 zero = 0;
	struct limit_setup *l = bpf_map_lookup_elem(&setup, &zero);
	struct limit_reference *r = bpf_map_lookup_elem(&reference, &zero);

	if (!l || !r || pcn_data(ctx) >= pcn_data_end(ctx))
		return -1;
	if (l->refer)
		refer(l, r);
	bpf_loop(RACES, race, &passed, 0);
	__sync_fetch_and_add(&l->passed, passed);
	__sync_fetch_and_add(&l->offered, (__u64)RACES * l->bytes);
	return 0;
}

PCN_LICENSE;
