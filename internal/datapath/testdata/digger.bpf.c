// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests that puts its frame pointer on the stack, to find the driver's frame when it
 * is inlined there. */
#include <pcn/cube.h>

PCN_CONFIG(__u16, out) = 1;

struct page {
	__u64 count[64];
};
PCN_MAP(mine, BPF_MAP_TYPE_ARRAY, __u32, struct page, 1);
/* Finds, through a frame pointer that was on the stack, a value that a caller keeps 16 bytes below
 * its own. When verified alone, it is the cube's own map. */
PCN_INLINE void dig(void)
{
	__u32 key = 0;
	struct page *p = bpf_map_lookup_elem(&mine, &key);

	if (!p)
		return;
	asm volatile("*(u64 *)(r10 - 16) = %[p]\n"
		     "*(u64 *)(r10 - 8) = r10\n"
		     "r3 = *(u64 *)(r10 - 8)\n"
		     "r4 = *(u64 *)(r3 - 16)\n"
		     "r5 = 4711\n"
		     "*(u64 *)(r4 + 16) = r5\n"
		     :
		     : [p] "r"(p)
		     : "r3", "r4", "r5", "memory");
}

PCN_INGRESS
{
	dig();
	return pcn_pkt_send(ctx, md, out);
}

PCN_LICENSE;
