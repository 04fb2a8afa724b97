// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The peer cube when the programs of a service are test-loaded: a transparent cube needs a cube
 * with the port, and a crossing needs a cube at its other end. Any packet may come back. */
#include <pcn/cube.h>

PCN_INGRESS
{
	return pcn_pkt_send(ctx, md, bpf_get_prandom_u32() & 1);
}

PCN_LICENSE;
