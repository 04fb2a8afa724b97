// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sketches: what a stream of packets has most of, in memory that does not grow with the number of keys. Go package sketch
 * reads them and knows their errors. docs/adr/0061-sketches.md explains why they are as they are.
 *
 *	PCN_SKETCH(bytes_by_source, 4096);	// sums by key: never too small
 *	PCN_SKETCH_RATES(syn_rates, 4096);	// the same, per second
 *	PCN_SKETCH_DISTINCT(sources);		// how many different keys there are
 *	PCN_SKETCH_TOP(talkers, 64);		// the heaviest keys themselves
 *
 *	__u64 hash = pcn_hash_address(seed, flow.source, 0);
 *
 *	if (pcn_sketch_rate(&syn_rates, hash, 1, pcn_time_coarse()) > limit)
 *		return pcn_pkt_drop(ctx, md, GUARD_TOO_MANY_SYNS);
 *
 * Hashes must have a seed that nobody outside knows (<pcn/hash.h>): with a known hash, a sender finds keys that share all
 * counters with a victim. */
#ifndef PCN_SKETCH_H
#define PCN_SKETCH_H

#include <pcn/address.h>
#include <pcn/hash.h>
#include <pcn/map.h>

/* Internal: rows of counters. Each uses 16 other bits of the hash. */
#define PCN_SKETCH_ROWS 4
#define PCN_SKETCH_BITS 16
/* Internal: the columns of a sketch, from the declaration of its map. */
#define PCN_SKETCH_COLUMNS(map) (sizeof(*(map)->max_entries) / sizeof(int) / PCN_SKETCH_ROWS)
/* Internal: refuses a number of columns that is no power of two, or has more bits than a row has of the hash. */
#define PCN_SKETCH_CHECK(columns)                                        \
	_Static_assert(!((columns) & ((columns)-1)) && (columns) >= 2 && \
			       (columns) <= (1 << PCN_SKETCH_BITS),      \
		       "the columns of a sketch are a power of two, from 2 to 65536")

/* A count-min sketch (Cormode and Muthukrishnan, 2005): sums by key, with a number of columns that is a power of two up to
 * 65536. It takes 32 bytes for each. */
#define PCN_SKETCH(name, columns)                                                         \
	PCN_MAP_FLAGS(name, BPF_MAP_TYPE_ARRAY, __u32, __u64, PCN_SKETCH_ROWS *(columns), \
		      BPF_F_MMAPABLE);                                                    \
	PCN_SKETCH_CHECK(columns)

/* Adds an amount to the sum of a key, and returns the sum: at least the true one, and too large by more than e/columns of
 * all that was added with a probability of e^-4, 2 %. All CPUs add to the same counters. An amount of 0 only reads.
 * pcn_sketch_add(&name, hash, amount) */
#define pcn_sketch_add(sketch, hash, amount) \
	pcn_sketch_add_to((sketch), PCN_SKETCH_COLUMNS(sketch), (hash), (amount))

/* Internal: pcn_sketch_add, with the number of columns. */
PCN_INLINE __u64 pcn_sketch_add_to(void *sketch, const __u32 columns, __u64 hash, __u64 amount)
{
	__u64 least = ~0ull;

#pragma unroll
	for (__u32 row = 0; row < PCN_SKETCH_ROWS; row++, hash >>= PCN_SKETCH_BITS) {
		__u32 at = row * columns + (hash & (columns - 1));
		__u64 *counter = bpf_map_lookup_elem(sketch, &at), sum;

		if (!counter)
			return 0; /* never */
		sum = __sync_fetch_and_add(counter, amount) + amount;
		least = sum < least ? sum : least;
	}
	return least;
}

/* Internal: a window has 2^30 ns, and its number has 24 bits, which come round after 208 days. */
#define PCN_SKETCH_WINDOW 30
#define PCN_SKETCH_AMOUNT 40
#define PCN_SKETCH_NUMBER ((1 << (64 - PCN_SKETCH_AMOUNT)) - 1)
/* Internal: how many windows ahead another CPU may be. */
#define PCN_SKETCH_AHEAD 4

/* A counter of a sketch of rates: what was added in the last even and in the last odd window, with the number of that window
 * in the upper 24 bits. */
struct pcn_sketch_windows {
	__u64 of[2];
};

/* A count-min sketch of rates, with a number of columns as above. It takes 64 bytes for each. */
#define PCN_SKETCH_RATES(name, columns)                                           \
	PCN_MAP_FLAGS(name, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_sketch_windows, \
		      PCN_SKETCH_ROWS *(columns), BPF_F_MMAPABLE);                \
	PCN_SKETCH_CHECK(columns)

/* Adds an amount to the rate of a key, and returns the rate: what was added in the last 2^30 ns (1.07 s), where the window
 * before the current one counts as if it had been even. Too large as the sum of a sketch may be. Amounts of a window must not
 * exceed 2^40 together. `now` is pcn_time_coarse() or pcn_time(). Limits in this unit: sketch.PerWindow in Go.
 * pcn_sketch_rate(&name, hash, amount, now) */
#define pcn_sketch_rate(sketch, hash, amount, now) \
	pcn_sketch_rate_of((sketch), PCN_SKETCH_COLUMNS(sketch), (hash), (amount), (now))

/* Internal: adds to a counter, and returns its rate. */
PCN_INLINE __u64 pcn_sketch_window(struct pcn_sketch_windows *w, __u64 amount, __u64 now)
{
	const __u64 mask = (1ull << PCN_SKETCH_AMOUNT) - 1;
	__u64 number = now >> PCN_SKETCH_WINDOW & PCN_SKETCH_NUMBER;
	__u64 *word = &w->of[number & 1];
	__u64 before = *(volatile __u64 *)&w->of[~number & 1];
	__u64 was = *(volatile __u64 *)word, is = was >> PCN_SKETCH_AMOUNT, left;

	if (is != number) {
		if (was && ((is - number) & PCN_SKETCH_NUMBER) <= PCN_SKETCH_AHEAD)
			return was & mask; /* this CPU is late */
		/* Begins the window, unless another CPU has. */
		__sync_val_compare_and_swap(word, was, number << PCN_SKETCH_AMOUNT);
	}
	was = (__sync_fetch_and_add(word, amount) + amount) & mask;
	if (before >> PCN_SKETCH_AMOUNT != ((number - 1) & PCN_SKETCH_NUMBER))
		return was;
	left = (1 << PCN_SKETCH_WINDOW) - (now & ((1 << PCN_SKETCH_WINDOW) - 1));
	return was + ((before & mask) * (left >> (PCN_SKETCH_WINDOW - 10)) >> 10);
}

/* Internal: pcn_sketch_rate, with the number of columns. */
PCN_INLINE __u64 pcn_sketch_rate_of(void *sketch, const __u32 columns, __u64 hash, __u64 amount,
				    __u64 now)
{
	__u64 least = ~0ull;

#pragma unroll
	for (__u32 row = 0; row < PCN_SKETCH_ROWS; row++, hash >>= PCN_SKETCH_BITS) {
		__u32 at = row * columns + (hash & (columns - 1));
		struct pcn_sketch_windows *w = bpf_map_lookup_elem(sketch, &at);
		__u64 rate;

		if (!w)
			return 0; /* never */
		rate = pcn_sketch_window(w, amount, now);
		least = rate < least ? rate : least;
	}
	return least;
}

/* Internal: bits of the hash that choose a register. */
#define PCN_SKETCH_REGISTERS 12

/* Registers of a HyperLogLog (Flajolet, Fusy, Gandouet, Meunier, 2007). */
struct pcn_sketch_distinct {
	__u8 rank[1 << PCN_SKETCH_REGISTERS];
};

/* A HyperLogLog of 4096 registers on each CPU, of a byte each: the number of different keys, with a standard error of
 * 1.6 %. */
#define PCN_SKETCH_DISTINCT(name) \
	PCN_MAP(name, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_sketch_distinct, 1)

/* Adds a key, by its hash, to a PCN_SKETCH_DISTINCT. */
PCN_INLINE void pcn_sketch_distinct_add(void *distinct, __u64 hash)
{
	__u32 zero = 0, at = hash & ((1 << PCN_SKETCH_REGISTERS) - 1);
	struct pcn_sketch_distinct *d = bpf_map_lookup_elem(distinct, &zero);
	/* one more than the zeros before the first bit that is set */
	__u8 rank = pcn_trailing_zeros(hash >> PCN_SKETCH_REGISTERS |
				       1ull << (64 - PCN_SKETCH_REGISTERS)) +
		    1;

	if (d && d->rank[at] < rank)
		d->rank[at] = rank;
}

/* A key of a list of the heaviest: an address, and a number of the cube's own, such as a port. */
struct pcn_sketch_key {
	pcn_address address;
	__u64 number;
};

/* Internal: the keys of a set. */
#define PCN_SKETCH_WAYS 8

/* Eight keys of a CPU, with their hashes: 0 is a free place. A key that is not there replaces the lightest one, and inherits
 * its sum as a possible error. */
struct pcn_sketch_set {
	__u64 hash[PCN_SKETCH_WAYS];
	__u64 sum[PCN_SKETCH_WAYS];
	__u64 error[PCN_SKETCH_WAYS];
	struct pcn_sketch_key key[PCN_SKETCH_WAYS];
};

/* The heaviest keys: Space-Saving (Metwally, Agrawal, El Abbadi, 2005) in a number of sets, which is a power of two up to
 * 65536, of eight keys on each CPU. It takes 384 bytes for each set and CPU. */
#define PCN_SKETCH_TOP(name, sets)                                                    \
	PCN_MAP(name, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_sketch_set, sets); \
	PCN_SKETCH_CHECK(sets)

/* Adds an amount to a key, whose hash is pcn_hash_address of both members. pcn_sketch_top_add(&name, hash, &key, amount) */
#define pcn_sketch_top_add(top, hash, key, amount)                                             \
	pcn_sketch_top_add_to((top), sizeof(*(top)->max_entries) / sizeof(int), (hash), (key), \
			      (amount))

/* Internal: pcn_sketch_top_add, with the number of sets. */
PCN_INLINE void pcn_sketch_top_add_to(void *top, const __u32 sets, __u64 hash,
				      const struct pcn_sketch_key *key, __u64 amount)
{
	__u32 at = hash >> (64 - PCN_SKETCH_BITS) & (sets - 1), lightest = 0;
	struct pcn_sketch_set *set = bpf_map_lookup_elem(top, &at);
	__u64 least = ~0ull;

	if (!set)
		return; /* never */
	hash += !hash;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_SKETCH_WAYS; i++) {
		if (set->hash[i] == hash) {
			set->sum[i] += amount;
			return;
		}
		if (set->sum[i] < least) {
			least = set->sum[i];
			lightest = i;
		}
	}
	lightest &= PCN_SKETCH_WAYS - 1;
	set->hash[lightest] = hash;
	set->error[lightest] = least;
	set->sum[lightest] = least + amount;
	pcn_address_copy(set->key[lightest].address, key->address);
	set->key[lightest].number = key->number;
}

#endif
