// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: takes from the bucket in the data of a test run, and from one that all test runs share. */
#include <pcn/bucket.h>
#include <pcn/config.h>
#include <pcn/map.h>
#include <pcn/time.h>

struct bucket_case {
	struct pcn_bucket_limit limit;
	__u64 bucket;
	__u64 now;
	__u32 tokens;
	__u32 taken;
};

PCN_MAP(cases, BPF_MAP_TYPE_ARRAY, __u32, struct bucket_case, 1);

SEC(PCN_SECTION) int bucket_take(struct CTXTYPE *ctx)
{
	struct bucket_case *in = pcn_data(ctx) + 16; /* after an Ethernet header */
	__u32 zero = 0;
	struct bucket_case *one = bpf_map_lookup_elem(&cases, &zero);

	if (!one || (void *)(in + 1) > pcn_data_end(ctx))
		return -1;
	__builtin_memcpy(one, in, sizeof(*one));
	one->taken = pcn_bucket_take(&one->bucket, &one->limit, one->tokens, one->now);
	__builtin_memcpy(in, one, sizeof(*in));
	return 0;
}

struct bucket_shared {
	struct pcn_bucket_limit limit;
	__u64 bucket;
	__u64 taken;   /* tokens */
	__u64 refused; /* packets */
};

PCN_MAP(shared, BPF_MAP_TYPE_ARRAY, __u32, struct bucket_shared, 1);

SEC(PCN_SECTION) int bucket_race(struct CTXTYPE *ctx)
{
	__u64 taken = 0, refused = 0;
	__u32 zero = 0;
	struct bucket_shared *s = bpf_map_lookup_elem(&shared, &zero);

	if (!s || pcn_data(ctx) >= pcn_data_end(ctx))
		return -1;
		/* One after the other, so that other CPUs come in between. */
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++) {
		if (pcn_bucket_take(&s->bucket, &s->limit, 3, pcn_time()))
			taken += 3;
		else
			refused++;
	}
	__sync_fetch_and_add(&s->taken, taken);
	__sync_fetch_and_add(&s->refused, refused);
	return 0;
}

PCN_LICENSE;
