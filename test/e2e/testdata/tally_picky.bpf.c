// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A version of the cube with a program that the kernel refuses if `strict` is true: it reads
 * possibly beyond the end of the frame. No cube ever uses the program or the value. */
#include "../../../internal/datapath/testdata/tally.bpf.c"

PCN_CONFIG(bool, strict) = false;

PCN_PROGRAM(audit)
{
	if (strict && *(volatile __u8 *)(pcn_data(ctx) + 1000))
		return pcn_pkt_drop(ctx, md, 0);
	return pcn_pkt_pass(ctx, md);
}
