// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube that decides nothing: every packet goes to the slow path. */
#include <pcn/cube.h>

enum punt_reason {
	PUNT_ALL = PCN_REASON_FIRST,
};
PCN_REASONS(punt_reason);

PCN_INGRESS
{
	return pcn_pkt_controller(ctx, md, PUNT_ALL);
}

PCN_LICENSE;
