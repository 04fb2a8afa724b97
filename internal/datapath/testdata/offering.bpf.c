// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests: it offers what it receives to a port. What it gets a second time
 * leaves, or is dropped for a reason that tells on which port it came back. */
#include <pcn/cube.h>

enum offering_reason {
	OFFERING_OWN_0 = PCN_REASON_FIRST, /* no cube took it: it came in on port 0 */
	OFFERING_OWN_1,
	OFFERING_OWN_2,
	OFFERING_NO_OFFERS,
};
PCN_REASONS(offering_reason);

/* The port to offer to, and the port by which turned packets leave. */
PCN_CONFIG(__u16, to) = 1;
PCN_CONFIG(__u16, out) = 2;

PCN_INGRESS
{
	if (pcn_turned(md))
		return pcn_pkt_send(ctx, md, out);
	if (pcn_offered(md))
		return pcn_pkt_drop(ctx, md,
				    OFFERING_OWN_0 + (md->in_port & 1) + (md->in_port & 2));
	if (!pcn_offers)
		return pcn_pkt_drop(ctx, md, OFFERING_NO_OFFERS);
	return pcn_pkt_offer(ctx, md, to);
}

PCN_LICENSE;
