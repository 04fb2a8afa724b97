// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Token buckets: they let packets through at a rate, and a burst of them at once. Exact on any number of
 * CPUs, without a lock: a bucket is one word, which a packet changes by one compare-and-swap.
 *
 *	struct pcn_bucket_limit *limit = bpf_map_lookup_elem(&limits, &class);
 *	__u64 *bucket = bpf_map_lookup_elem(&buckets, &class);
 *
 *	if (limit && bucket && !pcn_bucket_take(bucket, limit, md->packet_len, pcn_time_coarse()))
 *		return pcn_pkt_drop(ctx, md, POLICER_OVER_RATE);
 *
 * Tokens are what the limit counts, such as bytes or packets. Go package bucket makes limits of rates. The
 * control plane writes limits, programs write buckets: keep them in different maps, or in members that the
 * control plane does not overwrite. A bucket of zeros is full.
 *
 * The word is a time, in 2^-8 ns modulo 2^64: the bucket has the tokens of all the time that has passed since,
 * but never more than a burst (the virtual scheduling algorithm of ITU-T I.371). */
#ifndef PCN_BUCKET_H
#define PCN_BUCKET_H

#include <pcn/ctx.h>

/* A rate and a burst, as bucket.Limit in Go has them. All zeros let nothing through. */
struct pcn_bucket_limit {
	__u64 price; /* of a token, in 2^-(8 + shift) ns */
	__u64 size;  /* price of the burst, in 2^-8 ns */
	__u32 shift;
	__u32 burst; /* tokens */
};

/* Internal: how far ahead another CPU may have read the clock, in 2^-8 ns: a second. */
#define PCN_BUCKET_AHEAD 256000000000ll
/* Internal: how often a packet tries to be first. */
#define PCN_BUCKET_TRIES 8

/* What tokens cost, in 2^-8 ns, rounded up. */
PCN_INLINE __u64 pcn_bucket_cost(const volatile struct pcn_bucket_limit *limit, __u32 tokens)
{
	__u32 shift = limit->shift & 63;

	return (tokens * limit->price + (1ull << shift) - 1) >> shift;
}

/* Internal: all ones if a bucket is full: it is new, the time of a burst has passed, or its time is too far ahead; else 0.
 * Without branches, because the verifier would process each of them for every try. */
PCN_INLINE __u64 pcn_bucket_full(__u64 was, __u64 now, __u64 size)
{
	__u64 passed = now - was, full = (size - passed) | (passed + PCN_BUCKET_AHEAD);

	full |= ~was & (was - 1);
	asm volatile("%0 s>>= 63" : "+r"(full)); /* the compiler would make a branch of it */
	return full;
}

/* Takes tokens from a bucket. Returns 1, or 0 if it has not as many: then it is unchanged. `now` is
 * pcn_time(), or pcn_time_coarse() if the burst takes more than 10 ms at that rate; all packets of a bucket
 * have the same clock. Also returns 0 if other CPUs take from the bucket first eight times in a row. */
PCN_INLINE int pcn_bucket_take(__u64 *bucket, const volatile struct pcn_bucket_limit *limit,
			       __u32 tokens, __u64 now)
{
	__u64 size = limit->size, cost = pcn_bucket_cost(limit, tokens);

	if (tokens > limit->burst)
		return 0;
	now <<= 8;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_BUCKET_TRIES; i++) {
		__u64 was = *(volatile __u64 *)bucket;
		__u64 empty = was + ((now - size - was) & pcn_bucket_full(was, now, size)) + cost;

		if ((__s64)(now - empty) < 0)
			return 0;
		if (__sync_val_compare_and_swap(bucket, was, empty) == was)
			return 1;
	}
	return 0;
}

#endif
