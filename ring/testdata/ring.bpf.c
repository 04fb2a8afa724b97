// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: copies packets to a ring, with metadata that a test can recognize. */
#include <pcn/config.h>
#include <pcn/ring.h>

PCN_RING(copies, 1 << 20);
/* The snap length of `copy`. */
PCN_MAP(snap, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1);

#define MD                                                                   \
	{                                                                    \
		.in_port = 3, .out_port = 5, .flow_hash = 0x12345678,        \
		.md = { 1, 0x80000002, 3, 0xffffffff }, .pass_ifindex = 4711 \
	}

SEC(PCN_SECTION) int copy(struct CTXTYPE *ctx)
{
	struct pcn_md md = MD;
	__u32 zero = 0, *length = bpf_map_lookup_elem(&snap, &zero);

	return length && pcn_ring_packet(copies, ctx, &md, *length, 7) ? 1 : 0;
}

SEC(PCN_SECTION) int copy_head(struct CTXTYPE *ctx)
{
	struct pcn_md md = MD;

	return pcn_ring_packet(copies, ctx, &md, 128, 8) ? 1 : 0;
}

SEC(PCN_SECTION) int copy_later(struct CTXTYPE *ctx)
{
	struct pcn_md md = MD;

	return pcn_ring_packet_later(copies, ctx, &md, 128, 9, 1) ? 1 : 0;
}

/* What else such a run costs. */
SEC(PCN_SECTION) int copy_nothing(struct CTXTYPE *ctx)
{
	struct pcn_md md = MD;

	asm volatile("" : : "r"(ctx), "r"(&md));
	return 0;
}

PCN_LICENSE;
