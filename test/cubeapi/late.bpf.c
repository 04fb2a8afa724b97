// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A program that the cube `twelve` gets at run time, from its own object: it uses a map of the
 * cube, and has one of its own. */
#include "twelve.h"

PCN_MAP(late_bytes, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

PCN_PROGRAM(late)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&late_bytes, &zero);

	if (n)
		__sync_fetch_and_add(n, md->packet_len);
	mark(ctx, md, '~');
	return pcn_call_program(ctx, md, 4);
}

PCN_LICENSE;
