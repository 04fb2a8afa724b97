// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube that does one thing with each packet: the cost of a helper is the difference in time. A
 * constant selects the case, so the program does not contain the others. */
#include "helpers.h"

PCN_CONFIG(__u32, which) = COST_nothing;

PCN_PROGRAM(helpers_second)
{
	return pcn_pkt_drop(ctx, md, HELPERS_MEASURED);
}

PCN_INGRESS
{
	return use(ctx, md, which);
}

PCN_LICENSE;
