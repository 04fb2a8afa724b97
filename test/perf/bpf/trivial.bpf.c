// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The smallest cube worth chaining: it checks the bounds, swaps the MAC addresses and sends the
 * packet to port 1. The additional cost of a chain is the framework's. */
#include <pcn/cube.h>
#include "swap.h"

enum trivial_reason {
	TRIVIAL_TRUNCATED = PCN_REASON_FIRST, /* shorter than an Ethernet header */
};
PCN_REASONS(trivial_reason);

PCN_INGRESS
{
	if (swap_macs(ctx))
		return pcn_pkt_drop(ctx, md, TRIVIAL_TRUNCATED);
	return pcn_pkt_send(ctx, md, 1);
}

PCN_LICENSE;
