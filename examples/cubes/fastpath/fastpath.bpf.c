// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Forwards by the routes and neighbours of the host (bpf_fib_lookup). Whatever the lookup cannot
 * answer at once goes to the stack, which resolves neighbours, answers, fragments and sends errors:
 * no packet is dropped here that the stack would forward. */
#include <pcn/bypass.h>

PCN_INGRESS
{
	return pcn_bypass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
