// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A set of addresses, ports or others, which programs of other cubes look up. This one declares the maps that have it. */
#include <pcn/cube.h>
#include <pcn/classify_memory.h>
#include <pcn/elements_memory.h>

PCN_INGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
