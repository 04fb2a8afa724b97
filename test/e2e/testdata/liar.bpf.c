// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent cube that the verifier accepts, until its service sets a number that no trial
 * covers. */
#include <pcn/cube.h>

PCN_CONFIG(__u32, what) = 0;

PCN_INGRESS
{
	if (what == 2)
		md[1].md[0] = 1; /* beyond the end of md */
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
