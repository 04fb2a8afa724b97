// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: a program with a filter, and programs that say whether a packet passed it. */
#include <pcn/cube.h>
#include <pcn/filter.h>

/* What `matched` was called with. */
PCN_MAP(seen, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

PCN_GLOBAL int matched(struct CTXTYPE *ctx, __u32 first, __u32 second)
{
	__u32 zero = 0;
	__u64 *s = bpf_map_lookup_elem(&seen, &zero);

	(void)ctx;
	if (s)
		*s = (__u64)first << 32 | second;
	return 0;
}

/* Does nothing: what a program costs that rejects a packet is the cost of its filter. */
PCN_GLOBAL int ignored(struct CTXTYPE *ctx, __u32 first, __u32 second)
{
	(void)ctx;
	return first + second;
}

PCN_FILTER_PROGRAM(filtered, matched);
PCN_FILTER_PROGRAM(unfiltered, ignored);

PCN_INLINE int passes(struct CTXTYPE *ctx)
{
	struct pcn_md md = {};
	__u32 zero = 0;
	__u64 *s = bpf_map_lookup_elem(&seen, &zero);

	if (!s)
		return -1;
	*s = 0;
	if (filtered(ctx, &md) != PCN_PASS)
		return -1;
	return *s ? 1 : 0;
}

SEC(PCN_SECTION) int run(struct CTXTYPE *ctx)
{
	return passes(ctx);
}

#ifdef PCN_TC
/* With a tag of VLAN 10 in the skb. */
SEC(PCN_SECTION) int run_tagged(struct CTXTYPE *ctx)
{
	if (bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), 10))
		return -1;
	return passes(ctx);
}
#endif

PCN_LICENSE;
