// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube that copies the first 128 bytes of each packet to its ring, and drops it. */
#include <pcn/cube.h>
#include <pcn/ring.h>

PCN_CONFIG(bool, copying) = true;

PCN_RING(copies, 1 << 23);

enum mirror_reason {
	MIRROR_ALL = PCN_REASON_FIRST,
};
PCN_REASONS(mirror_reason);

PCN_INGRESS
{
	if (copying)
		pcn_ring_packet(copies, ctx, md, 128, 0);
	return pcn_pkt_drop(ctx, md, MIRROR_ALL);
}

PCN_LICENSE;
