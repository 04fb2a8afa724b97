// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A service that the kernel refuses in one case, which a test selects by the default of `which`. It
 * can be standard or transparent. */
#include <pcn/cube.h>

enum picky_which {
	NEVER,
	ALWAYS,
	AT_VALUE,  /* flavour is SOUR */
	AT_TRUE,   /* strict */
	AT_PAIR,   /* strict and deep */
	AT_MEMBER, /* limits.hard */
	AT_NUMBER, /* window is that of PCN_TRY */
	AT_TRACE,  /* loglevel is TRACE */
	ONLY_XDP,
	ONLY_EGRESS,
	ONLY_FURTHER, /* the program `later` */
	ONLY_SHADOW,  /* with a namespace */
	ONLY_INLINE,  /* too much to verify if it is there twice */
};

/* Not tried: it is not an enum in the object. */
PCN_CONFIG(__u32, which) = NEVER;

enum picky_flavour {
	SWEET = 3,
	SOUR = 7,
	BITTER = 1 << 20,
};

struct picky_limits {
	__u32 rate;
	bool hard;
	enum picky_flavour after;
};

PCN_CONFIG(enum picky_flavour, flavour) = BITTER;
PCN_CONFIG(bool, strict) = false;
PCN_CONFIG(bool, deep) = true;
PCN_CONFIG(struct picky_limits, limits) = { .rate = 5, .hard = true, .after = SWEET };
PCN_CONFIG(__u16, window) PCN_TRY(1500) = 0;

PCN_MAP(table, BPF_MAP_TYPE_HASH, __u32, __u64, 1 << 20);
PCN_MAP_FLAGS(large, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1 << 20, BPF_F_MMAPABLE);
PCN_MAP_OF_MAPS(sets, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, 4, BPF_MAP_TYPE_ARRAY, __u32, __u64,
		1 << 16, 0);

/* Reads possibly beyond the end of the frame. */
PCN_INLINE int wrong(struct CTXTYPE *ctx)
{
	return *(volatile __u8 *)(pcn_data(ctx) + 100);
}

PCN_INLINE int judge(struct CTXTYPE *ctx)
{
	__u32 key = 9;
	__u64 *known = bpf_map_lookup_elem(&table, &key), *far = bpf_map_lookup_elem(&large, &key);
	void *set = bpf_map_lookup_elem(&sets, &key);

	if (known && far && set && bpf_map_lookup_elem(set, &key))
		*known += *far;
	if (which == ALWAYS || (which == AT_VALUE && flavour == SOUR) ||
	    (which == AT_TRUE && strict) || (which == AT_PAIR && strict && !deep) ||
	    (which == AT_MEMBER && !limits.hard) || (which == AT_NUMBER && window == 1500) ||
	    (which == AT_TRACE && pcn_log_level == LOG_TRACE) ||
	    (which == ONLY_SHADOW && pcn_shadow))
		return wrong(ctx);
#ifdef PCN_XDP
	if (which == ONLY_XDP)
		return wrong(ctx);
#endif
	return 0;
}

PCN_INGRESS
{
	int sum = judge(ctx);

	if (which == ONLY_INLINE) {
		for (__u32 i = 0; i < 110000; i++)
			asm volatile("%0 ^= %1" : "+r"(sum) : "r"(i));
		return pcn_pkt_send(ctx, md, sum == -1 ? 0 : 1);
	}
	return sum ? pcn_pkt_drop(ctx, md, 0) : pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	if (which == ONLY_EGRESS && wrong(ctx))
		return pcn_pkt_drop(ctx, md, 0);
	return pcn_pkt_pass(ctx, md);
}

PCN_PROGRAM(later)
{
	if (which == ONLY_FURTHER && wrong(ctx))
		return pcn_pkt_drop(ctx, md, 0);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
