// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For a measurement: finds the class of random subscribers, by the hash of this cube and by the bit vectors of the paper
 * (Linear Bit Vector Search, one field): for each address a vector with a bit for each rule, whose first bit is the
 * rule. Both have the class of the n-th subscriber, n. */
#include <pcn/config.h>
#include <pcn/map.h>
#include <pcn/packet.h>

/* As in classifier.bpf.c. */
struct classifier_subscriber {
	__u32 class;
	__u32 list;
};

/* Bits of the most subscribers that are measured. The loader makes the vectors as long as the number needs. */
#define SEARCH_WORDS 157

struct search_vector {
	__u64 word[SEARCH_WORDS];
};

PCN_MAP_FLAGS(subscribers4, BPF_MAP_TYPE_HASH, __u32, struct classifier_subscriber, 1024,
	      BPF_F_NO_PREALLOC);
PCN_MAP(vectors, BPF_MAP_TYPE_HASH, __u32, struct search_vector, 1024);
PCN_MAP(classes, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1024);
/* The position of the lowest bit of a word, by the upper bits of its product with a De Bruijn sequence. */
PCN_MAP(lowest, BPF_MAP_TYPE_ARRAY, __u32, __u32, 64);
/* What was found, so that nothing is left out. */
PCN_MAP(found, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, 2);

const volatile __u32 subscribers = 1;
const volatile __u32 words = 1;

#define SEARCH_ROUNDS 64
#define SEARCH_SEQUENCE 0x03f79d71b4cb0a89

/* The address of a random subscriber: they are not in a row. */
PCN_INLINE __u32 search_address(void)
{
	return (bpf_get_prandom_u32() % subscribers) * 2654435761u;
}

PCN_INLINE void search_note(__u64 ok, __u64 class)
{
	__u32 zero = 0, one = 1;
	__u64 *n = bpf_map_lookup_elem(&found, &zero), *sum = bpf_map_lookup_elem(&found, &one);

	if (n && sum) {
		*n += ok;
		*sum += class;
	}
}

/* What the programs below have in common. */
SEC(PCN_SECTION) int search_nothing(struct CTXTYPE *ctx)
{
	__u64 sum = 0;

	(void)ctx;
#pragma clang loop unroll(disable)
	for (int i = 0; i < SEARCH_ROUNDS; i++)
		sum += search_address();
	search_note(SEARCH_ROUNDS, sum);
	return 0;
}

SEC(PCN_SECTION) int search_hash(struct CTXTYPE *ctx)
{
	__u64 sum = 0, ok = 0;

	(void)ctx;
#pragma clang loop unroll(disable)
	for (int i = 0; i < SEARCH_ROUNDS; i++) {
		__u32 address = search_address();
		struct classifier_subscriber *s = bpf_map_lookup_elem(&subscribers4, &address);

		if (s) {
			ok++;
			sum += s->class;
		}
	}
	search_note(ok, sum);
	return 0;
}

/* The first rule of a vector; negative if it has none. */
PCN_INLINE __s64 search_first(const struct search_vector *v)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < words; i++) {
		__u64 word = v->word[i];

		if (!word)
			continue;
		__u32 at = (word & -word) * SEARCH_SEQUENCE >> 58;
		__u32 *bit = bpf_map_lookup_elem(&lowest, &at);

		return bit ? 64 * i + *bit : -1;
	}
	return -1;
}

SEC(PCN_SECTION) int search_vectors(struct CTXTYPE *ctx)
{
	__u64 sum = 0, ok = 0;

	(void)ctx;
#pragma clang loop unroll(disable)
	for (int i = 0; i < SEARCH_ROUNDS; i++) {
		__u32 address = search_address();
		struct search_vector *v = bpf_map_lookup_elem(&vectors, &address);
		__s64 first = v ? search_first(v) : -1;
		__u32 rule = first;
		__u32 *class = first < 0 ? NULL : bpf_map_lookup_elem(&classes, &rule);

		if (class) {
			ok++;
			sum += *class;
		}
	}
	search_note(ok, sum);
	return 0;
}

PCN_LICENSE;
