// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Placed after the NAT on a netdev: checks packets whose checksum the device computed, and counts
 * wrong ones. */
#include <pcn/cube.h>

/* The number of packets with a checksum, and of those with a wrong one. */
PCN_MAP(sums, BPF_MAP_TYPE_ARRAY, __u32, __u64, 2);

static inline __attribute__((unused)) void count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&sums, &which);

	if (n)
		__sync_fetch_and_add(n, 1);
}

#define WORDS 600

SEC(PCN_SECTION) int complete(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	long known = bpf_csum_update(ctx, 0);
	__u64 sum = 0;

	if (known < 0 || ctx->len > 2 * WORDS)
		return -1;
	bpf_skb_pull_data(ctx, ctx->len);
	__u8 *p = pcn_data(ctx) + sizeof(struct ethhdr), *end = pcn_data_end(ctx);
	for (int i = 0; i < WORDS; i++) {
		if ((void *)(p + 2) > (void *)end)
			break;
		sum += *(__u16 *)p;
		p += 2;
	}
	if ((void *)(p + 1) <= (void *)end)
		sum += *p;
	count(0);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	known = (known & 0xffff) + (known >> 16 & 0xffff);
	known = (known & 0xffff) + (known >> 16);
	if (sum % 0xffff != (__u64)known % 0xffff)
		count(1);
#else
	(void)ctx;
#endif
	return -1;
}

PCN_LICENSE;
