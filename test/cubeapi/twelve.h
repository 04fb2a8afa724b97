// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Definitions shared by the programs of the cube `twelve`, including those added at run time. */
#ifndef TWELVE_H
#define TWELVE_H

#include <pcn/cube.h>

/* The number of runs of each program, by its letter. */
PCN_MAP(visits, BPF_MAP_TYPE_ARRAY, __u32, __u64, 256);

/* Appends a letter to the payload, so that the packet records its path through the cube. The first
 * of the cube's own words counts them: it is preserved between programs. */
PCN_INLINE void mark(struct CTXTYPE *ctx, struct pcn_md *md, __u8 letter)
{
	struct pcn_cursor c;
	__u32 key = letter, at = md->md[0]++;

	pcn_cursor_open(&c, ctx, 64);
	struct ethhdr *eth = pcn_parse_eth(&c);
	__u8 *payload = eth ? pcn_cursor_take(&c, 32) : NULL; /* the sender wrote the first 16 */
	if (payload) {
#pragma unroll
		for (__u32 i = 0; i < 16;
		     i++) /* each at a constant offset, which the verifier accepts */
			if (i == at)
				payload[16 + i] = letter;
	}
	__u64 *n = bpf_map_lookup_elem(&visits, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
}

/* A program that leaves its letter and calls another one. */
#define STAGE(name, letter, next)                       \
	PCN_PROGRAM(name)                               \
	{                                               \
		mark(ctx, md, letter);                  \
		return pcn_call_program(ctx, md, next); \
	}

#endif
