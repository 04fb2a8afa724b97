// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Algorithms that limit a rate. Each takes a packet's bytes at a time and returns the credit that is left, in the unit of
 * `near` of its contract, or a negative number if the packet is above the rate: then nothing was taken.
 *
 * Token bucket, sliding window and fixed window are those of F. Parola, F. Risso, S. Miano: "Providing Telco-oriented Network
 * Services with eBPF: the Case for a 5G Mobile Gateway" (IEEE NetSoft 2021), with three differences: the clock is the
 * kernel's, tokens are counted as the time in which they come back, and are compared as signed numbers. Where several CPUs take from the same
 * contract at once, the ones with a reduced lock may let one packet of each CPU but one pass above the rate. */
#ifndef POLICER_LIMIT_H
#define POLICER_LIMIT_H

#include <pcn/bucket.h>
#include <pcn/map.h>

/* The values of the model's type `algorithm`, in order. */
enum policer_algorithm {
	POLICER_COMPARE_AND_SWAP,
	POLICER_FIXED_WINDOW,
	POLICER_TOKEN_BUCKET,
	POLICER_TOKEN_BUCKET_REDUCED_LOCK,
	POLICER_SLIDING_WINDOW,
	POLICER_SLIDING_WINDOW_REDUCED_LOCK,
};

/* The state of a contract for algorithms with a lock. Zeros are a full bucket. Times are in 2^-8 ns, as in
 * <pcn/bucket.h>. */
struct policer_state {
	struct bpf_spin_lock lock;
	__u32 zero;
	__u64 at;     /* when the bucket was filled last; where the window begins */
	__s64 credit; /* the bucket's tokens, as the time in which they come back */
};

/* Internal: a word that other CPUs change. */
#define POLICER_ONCE(word) (*(volatile typeof(word) *)&(word))

/* A window of `length` ns, in which `quota` bytes may pass: one word, the number of the window in the upper 24 bits, the bytes
 * that passed in the lower 40. */
#define POLICER_WINDOW_BITS 40
#define POLICER_WINDOW_BYTES ((1ull << POLICER_WINDOW_BITS) - 1)

PCN_INLINE __s64 policer_fixed_window(__u64 *word, __u64 quota, __u32 bytes, __u64 now,
				      __u64 length)
{
	__u64 id = now / length << POLICER_WINDOW_BITS, was = POLICER_ONCE(*word);
	__s64 ahead = (__s64)(id - (was & ~POLICER_WINDOW_BYTES)) >> POLICER_WINDOW_BITS;

	if (bytes > quota)
		return -1;
	/* A CPU whose clock is a little behind must not return to the last window; one that is far behind has slept. */
	if (ahead > 0 || ahead < -1) {
		if (__sync_val_compare_and_swap(word, was, id | bytes) == was)
			return quota - bytes;
	}
	was = __sync_fetch_and_add(word, bytes) & POLICER_WINDOW_BYTES;
	if (was + bytes <= quota)
		return quota - was - bytes;
	__sync_fetch_and_add(word, -(__u64)bytes);
	return -1;
}

/* How much a bucket gains: until it is full, the time since it was filled last. */
PCN_INLINE __s64 policer_gain(__u64 at, __s64 credit, __u64 now, __s64 size)
{
	__s64 passed = now - at, room = size - credit;

	return !at || passed > room ? room : passed;
}

PCN_INLINE __s64 policer_token_bucket(struct policer_state *s,
				      const volatile struct pcn_bucket_limit *limit, __u32 bytes,
				      __u64 now)
{
	__s64 size = limit->size, cost = pcn_bucket_cost(limit, bytes), left;

	if (bytes > limit->burst)
		return -1;
	bpf_spin_lock(&s->lock);
	if (!s->at || (__s64)(now - s->at) > 0) {
		s->credit += policer_gain(s->at, s->credit, now, size);
		s->at = now;
	}
	left = s->credit - cost;
	if (left >= 0)
		s->credit = left;
	bpf_spin_unlock(&s->lock);
	return left;
}

/* The same, where only filling takes the lock. */
PCN_INLINE __s64 policer_token_bucket_reduced(struct policer_state *s,
					      const volatile struct pcn_bucket_limit *limit,
					      __u32 bytes, __u64 now)
{
	__s64 size = limit->size, cost = pcn_bucket_cost(limit, bytes), left;
	__u64 at = POLICER_ONCE(s->at);

	if (bytes > limit->burst)
		return -1;
	if (!at || (__s64)(now - at) > 0) {
		bpf_spin_lock(&s->lock);
		at = s->at;
		if (!at || (__s64)(now - at) > 0) {
			__sync_fetch_and_add(&s->credit,
					     policer_gain(at, POLICER_ONCE(s->credit), now, size));
			POLICER_ONCE(s->at) = now;
		}
		bpf_spin_unlock(&s->lock);
	}
	left = POLICER_ONCE(s->credit) - cost; /* signed: it may be below zero for a moment */
	if (left >= 0)
		__sync_fetch_and_add(&s->credit, -cost);
	return left;
}

/* Where a window begins that has not moved for so long that it ends before now: so that it ends now. */
PCN_INLINE __u64 policer_window(__u64 at, __u64 now, __s64 size)
{
	return !at || (__s64)(now - at) > size ? now - size : at;
}

PCN_INLINE __s64 policer_sliding_window(struct policer_state *s,
					const volatile struct pcn_bucket_limit *limit, __u32 bytes,
					__u64 now)
{
	__s64 size = limit->size, left;
	__u64 cost = pcn_bucket_cost(limit, bytes), next;

	if (bytes > limit->burst)
		return -1;
	bpf_spin_lock(&s->lock);
	next = policer_window(s->at, now, size) + cost;
	left = now - next;
	if (left >= 0)
		s->at = next;
	bpf_spin_unlock(&s->lock);
	return left;
}

/* The same, where only moving a window to the present takes the lock. */
PCN_INLINE __s64 policer_sliding_window_reduced(struct policer_state *s,
						const volatile struct pcn_bucket_limit *limit,
						__u32 bytes, __u64 now)
{
	__s64 size = limit->size, left;
	__u64 cost = pcn_bucket_cost(limit, bytes), at = POLICER_ONCE(s->at);
	int moved = 0;

	if (bytes > limit->burst)
		return -1;
	if (policer_window(at, now, size) != at) {
		bpf_spin_lock(&s->lock);
		at = s->at;
		if (policer_window(at, now, size) != at) {
			at = now - size + cost;
			POLICER_ONCE(s->at) = at;
			moved = 1;
		}
		bpf_spin_unlock(&s->lock);
	}
	left = now - at;
	if (moved)
		return left;
	left -= cost;
	if (left >= 0)
		__sync_fetch_and_add(&s->at, cost);
	return left;
}

/* What an algorithm takes a packet's bytes from. */
struct policer_at {
	__u64 *word;		     /* of compare-and-swap, and of the fixed window */
	struct policer_state *state; /* of the others */
	const volatile struct pcn_bucket_limit *limit;
	__u64 quota, window; /* of the fixed window */
};

/* Takes a packet's bytes by an algorithm; `now` is in ns. */
PCN_INLINE __s64 policer_take(__u32 algorithm, const struct policer_at *p, __u32 bytes, __u64 now)
{
	__s64 left;

	switch (algorithm) {
	case POLICER_COMPARE_AND_SWAP:
		if (!pcn_bucket_take(p->word, p->limit, bytes, now))
			return -1;
		/* Another CPU may have taken more since, at a later time: this packet has its tokens. */
		left = (now << 8) - POLICER_ONCE(*p->word);
		return left < 0 ? 0 : left;
	case POLICER_FIXED_WINDOW:
		return policer_fixed_window(p->word, p->quota, bytes, now, p->window);
	case POLICER_TOKEN_BUCKET:
		return policer_token_bucket(p->state, p->limit, bytes, now << 8);
	case POLICER_TOKEN_BUCKET_REDUCED_LOCK:
		return policer_token_bucket_reduced(p->state, p->limit, bytes, now << 8);
	case POLICER_SLIDING_WINDOW:
		return policer_sliding_window(p->state, p->limit, bytes, now << 8);
	default:
		return policer_sliding_window_reduced(p->state, p->limit, bytes, now << 8);
	}
}

/* Marks by ECN are apart by the time that the credit lasts, shifted by this. */
#define POLICER_WARN_SHIFT 3

/* Whether to tell the sender of a packet with ECT(0) to slow down, where `left` is little; `*last` is when one was told last, in 2^-8
 * ns, or 0. A sender takes 0.7 or 0.5 of its window for any number of marks in a round trip, and what it sends changes a round trip
 * later: if packets were marked until then, it would do so again. So marks are apart by eight times what the credit lasts: long while
 * there is much, and ever less if they do not help, as with many senders. */
PCN_INLINE int policer_warn(__u32 algorithm, __u64 *last,
			    const volatile struct pcn_bucket_limit *limit, __u64 left, __u64 now)
{
	__u64 was = POLICER_ONCE(*last);

	if (algorithm == POLICER_FIXED_WINDOW) /* bytes */
		left = pcn_bucket_cost(limit, left > limit->burst ? limit->burst : left);
	now <<= 8;
	if (was && (now - was) >> POLICER_WARN_SHIFT < left)
		return 0;
	POLICER_ONCE(*last) = now; /* of two CPUs at once, both may mark */
	return 1;
}

#endif
