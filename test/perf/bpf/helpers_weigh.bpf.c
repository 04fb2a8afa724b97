// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Each helper once, in its own program, and the preparation that some need: the cost of a helper
 * for the verifier is the difference in processed instructions. */
#define TIMES 1
#include "helpers.h"

#define PROGRAM(name)                      \
	PCN_PROGRAM(weigh_##name)          \
	{                                  \
		return use(ctx, md, name); \
	}
CASES(PROGRAM)

/* The preparation for the helpers of read(), take() and inspect(). */
PCN_PROGRAM(before_read)
{
	read(ctx, COST_nothing);
	return pcn_pkt_drop(ctx, md, HELPERS_MEASURED);
}

PCN_PROGRAM(before_take)
{
	take(ctx, COST_nothing);
	return pcn_pkt_drop(ctx, md, HELPERS_MEASURED);
}

PCN_PROGRAM(before_inspect)
{
	inspect(ctx, COST_nothing);
	return pcn_pkt_drop(ctx, md, HELPERS_MEASURED);
}

PCN_LICENSE;
