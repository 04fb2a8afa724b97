// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Runs a program on the packets of many flows: it writes the headers of the next one over the packet,
 * which the program has changed, and tail-calls the program. */
#include <pcn/ctx.h>
#include <pcn/map.h>

#define HEADERS 56 /* Ethernet, IPv4 and TCP, rounded to words */

struct header {
	__u64 words[HEADERS / 8];
};

PCN_MAP(headers, BPF_MAP_TYPE_ARRAY, __u32, struct header, 65536);
PCN_MAP(next, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} target SEC(".maps");

const volatile __u32 flows = 1;

SEC(PCN_SECTION) int write_next(struct CTXTYPE *ctx)
{
	__u32 zero = 0, *at = bpf_map_lookup_elem(&next, &zero), i;
	struct header *h;
	__u64 *data;

	if (!at)
		return 0;
	i = *at;
	/* Prime, so that consecutive flows are not adjacent in a table. */
	*at = i + 389 < flows ? i + 389 : (i + 389) % flows;
	h = bpf_map_lookup_elem(&headers, &i);
	data = pcn_data(ctx);
	if (!h || (void *)data + HEADERS > pcn_data_end(ctx))
		return 0;
#pragma unroll
	for (int word = 0; word < HEADERS / 8; word++)
		data[word] = h->words[word];
	bpf_tail_call(ctx, &target, 0);
	return 0;
}

SEC(PCN_SECTION) int nothing(struct CTXTYPE *ctx)
{
	(void)ctx;
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
