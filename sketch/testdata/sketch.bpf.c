// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests and benchmarks: adds a stream of keys, which the test has put into a map, to each kind of sketch. */
#include <pcn/config.h>
#include <pcn/sketch.h>

/* Items of a stream, and how many a run takes. */
#define ITEMS (1 << 17)
#define TAKES 1024

struct sketch_item {
	struct pcn_sketch_key key;
	__u64 amount;
	__u64 now;
	/* results */
	__u64 hash;
	__u64 sum;
	__u64 rate;
};

/* The next item, and the end of the stream. */
struct sketch_stream {
	__u64 next;
	__u64 end;
};

PCN_MAP_FLAGS(items, BPF_MAP_TYPE_ARRAY, __u32, struct sketch_item, ITEMS, BPF_F_MMAPABLE);
PCN_MAP_FLAGS(stream, BPF_MAP_TYPE_ARRAY, __u32, struct sketch_stream, 1, BPF_F_MMAPABLE);
PCN_MAP(seeds, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_hash_seed, 1);

/* Small ones, whose errors a test can see. */
PCN_SKETCH(sums, 256);
PCN_SKETCH_RATES(rates, 256);
PCN_SKETCH_DISTINCT(distinct);
PCN_SKETCH_TOP(top, 16);

/* For comparison: sums of each CPU. */
#define COLUMNS 4096
PCN_SKETCH(large_sums, COLUMNS);
PCN_SKETCH_RATES(large_rates, COLUMNS);
PCN_SKETCH_TOP(large_top, 64);
PCN_MAP(cpu_sums, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, PCN_SKETCH_ROWS *COLUMNS);

PCN_INLINE struct sketch_item *next_item(void)
{
	__u32 zero = 0, at;
	struct sketch_stream *s = bpf_map_lookup_elem(&stream, &zero);

	if (!s)
		return NULL;
	__u64 number = __sync_fetch_and_add(&s->next, 1);
	if (number >= s->end)
		return NULL;
	at = number;
	return bpf_map_lookup_elem(&items, &at);
}

PCN_INLINE __u64 hash_of(const struct pcn_sketch_key *key)
{
	__u32 zero = 0;
	struct pcn_hash_seed *seed = bpf_map_lookup_elem(&seeds, &zero);

	return seed ? pcn_hash_address(seed, key->address, key->number) : 0;
}

static long add_item(__u32 i, void *unused)
{
	struct sketch_item *item = next_item();

	(void)i;
	(void)unused;
	if (!item)
		return 1;
	item->hash = hash_of(&item->key);
	item->sum = pcn_sketch_add(&sums, item->hash, item->amount);
	item->rate = pcn_sketch_rate(&rates, item->hash, item->amount, item->now);
	pcn_sketch_distinct_add(&distinct, item->hash);
	pcn_sketch_top_add(&top, item->hash, &item->key, item->amount);
	return 0;
}

SEC(PCN_SECTION) int sketch_add(struct CTXTYPE *ctx)
{
	(void)ctx;
	bpf_loop(TAKES, add_item, NULL, 0);
	return 0;
}

/* What is timed. */
enum sketch_cost { COST_HASH, COST_SUM, COST_CPU_SUM, COST_RATE, COST_DISTINCT, COST_TOP };

/* The same as pcn_sketch_add, with counters of each CPU. */
PCN_INLINE __u64 add_on_cpu(__u64 hash, __u64 amount)
{
	__u64 least = ~0ull;

#pragma unroll
	for (__u32 row = 0; row < PCN_SKETCH_ROWS; row++, hash >>= PCN_SKETCH_BITS) {
		__u32 at = row * COLUMNS + (hash & (COLUMNS - 1));
		__u64 *counter = bpf_map_lookup_elem(&cpu_sums, &at);

		if (!counter)
			return 0;
		*counter += amount;
		least = *counter < least ? *counter : least;
	}
	return least;
}

PCN_INLINE long cost(__u32 i, const enum sketch_cost what)
{
	__u32 zero = 0, at = i & (ITEMS - 1);
	struct sketch_stream *s = bpf_map_lookup_elem(&stream, &zero);

	if (!s)
		return 1;
	at &= s->end; /* a mask here: 0 is the same key each time */
	struct sketch_item *item = bpf_map_lookup_elem(&items, &at);
	if (!item)
		return 1;
	__u64 hash = hash_of(&item->key), result = hash;
	if (what == COST_SUM)
		result = pcn_sketch_add(&large_sums, hash, 1);
	else if (what == COST_CPU_SUM)
		result = add_on_cpu(hash, 1);
	else if (what == COST_RATE)
		result = pcn_sketch_rate(&large_rates, hash, 1, s->next);
	else if (what == COST_DISTINCT)
		pcn_sketch_distinct_add(&distinct, hash);
	else if (what == COST_TOP)
		pcn_sketch_top_add(&large_top, hash, &item->key, 1);
	asm volatile("" : : "r"(result));
	return 0;
}

#define COST(name, what)                               \
	static long name##_once(__u32 i, void *unused) \
	{                                              \
		(void)unused;                          \
		return cost(i, what);                  \
	}                                              \
	SEC(PCN_SECTION) int name(struct CTXTYPE *ctx) \
	{                                              \
		(void)ctx;                             \
		bpf_loop(TAKES, name##_once, NULL, 0); \
		return 0;                              \
	}

COST(cost_hash, COST_HASH)
COST(cost_sum, COST_SUM)
COST(cost_cpu_sum, COST_CPU_SUM)
COST(cost_rate, COST_RATE)
COST(cost_distinct, COST_DISTINCT)
COST(cost_top, COST_TOP)

PCN_LICENSE;
