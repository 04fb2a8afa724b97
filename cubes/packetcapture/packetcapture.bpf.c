// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Copies packets to a ring. While nothing is captured, packets cross the cube as if it were not there;
 * otherwise they run a program whose code is the filter, and the ones that it takes are copied. */
#include <pcn/cube.h>
#include <pcn/filter.h>
#include <pcn/ring.h>

/* Room for 80,000 packets of 128 bytes: 160 ms at 0.5 Mpps, which a reader may have to wait for a CPU.
 */
PCN_RING(copies, 1 << 24);

/* Copies the first `snap` bytes, at most 128. `direction` is 0 for ingress and 1 for egress. */
PCN_GLOBAL int packetcapture_head(struct CTXTYPE *ctx, __u32 snap, __u32 direction)
{
	/* Nothing in the metadata is of interest, and a program that keeps it to itself costs less. */
	const struct pcn_md none = {};

	return pcn_ring_packet(copies, ctx, &none,
			       snap < PCN_RING_CLASS_1 ? snap : PCN_RING_CLASS_1, direction);
}

/* Copies the first `snap` bytes. */
PCN_GLOBAL int packetcapture_copy(struct CTXTYPE *ctx, __u32 snap, __u32 direction)
{
	const struct pcn_md none = {};

	return pcn_ring_packet(copies, ctx, &none, snap, direction);
}

PCN_INGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_FILTER_PROGRAM(packetcapture_ingress, packetcapture_copy);
PCN_FILTER_PROGRAM(packetcapture_egress, packetcapture_copy);

PCN_LICENSE;
