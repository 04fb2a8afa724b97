// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests with a known stack: 64 bytes, and 128 in a function that it calls. */
#include <pcn/cube.h>

PCN_NOINLINE int below(int x)
{
	asm volatile("*(u64 *)(r10 - 128) = %0" : : "r"(x) : "memory");
	return x;
}

PCN_INGRESS
{
	asm volatile("*(u64 *)(r10 - 64) = %0" : : "r"(0) : "memory");
	return pcn_pkt_send(ctx, md, below(md->in_port) ^ 1);
}

PCN_LICENSE;
