// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A program for tests that a cube is given at run time: it has its own map and uses one of the
 * cube's, calls the cube's own program, and has a constant. */
#include <pcn/cube.h>

PCN_CONFIG(__u32, mark) = 0;

PCN_MAP(marks, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1);
PCN_MAP(guests, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

PCN_PROGRAM(guest)
{
	__u32 zero = 0;
	__u32 *m = bpf_map_lookup_elem(&marks, &zero);
	__u64 *n = bpf_map_lookup_elem(&guests, &zero);

	if (n)
		__sync_fetch_and_add(n, mark);
	if (m)
		*m = 1000;
	return pcn_call_program(ctx, md, 1);
}

PCN_LICENSE;
