// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: values with a spin lock, all words of which are the same whenever nobody holds it. */
#include <pcn/config.h>
#include <pcn/map.h>

#define WORDS 48

struct guarded {
	struct bpf_spin_lock lock;
	__u32 torn; /* how often a program found different words */
	__u64 word[WORDS];
};

PCN_MAP(hash, BPF_MAP_TYPE_HASH, __u32, struct guarded, 16);
PCN_MAP(array, BPF_MAP_TYPE_ARRAY, __u32, struct guarded, 4);

PCN_INLINE void change(struct guarded *g)
{
	if (!g)
		return;
	bpf_spin_lock(&g->lock);
	__u64 was = g->word[0];
	if (g->word[WORDS / 2] != was || g->word[WORDS - 1] != was)
		g->torn++;
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		*(volatile __u64 *)&g->word[i] = was + 1;
	bpf_spin_unlock(&g->lock);
}

SEC(PCN_SECTION) int change_all(struct CTXTYPE *ctx)
{
	__u32 key = 1;

	if (pcn_data(ctx) >= pcn_data_end(ctx))
		return -1;
	change(bpf_map_lookup_elem(&hash, &key));
	change(bpf_map_lookup_elem(&array, &key));
	return 0;
}

PCN_LICENSE;
