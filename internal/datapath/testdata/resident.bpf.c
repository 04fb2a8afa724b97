// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests of namespaces: a constant says what it does with a packet, and its
 * egress program writes a letter into the payload. */
#include <pcn/cube.h>

/* 0 send to the other of ports 0 and 1, 1 to the namespace if there is one, else send, 2 pass,
 * 3 flood, 4 to the namespace by a port that does not exist, 5 to the namespace by port 1,
 * 6 to the namespace, without asking, 7 send to port 1, a constant */
PCN_CONFIG(__u32, what) = 0;
/* Whether the egress program sends packets to the namespace. */
PCN_CONFIG(__u32, out) = 0;

PCN_INGRESS
{
	switch (what) {
	case 1:
		if (SHADOW)
			return pcn_pkt_namespace(ctx, md, md->in_port);
		break;
	case 2:
		return pcn_pkt_pass(ctx, md);
	case 3:
		return pcn_pkt_flood(ctx, md);
	case 4:
		return pcn_pkt_redirect_ns(ctx, md, 700);
	case 5:
		return pcn_pkt_namespace(ctx, md, 1);
	case 6:
		return pcn_pkt_namespace(ctx, md, md->in_port);
	case 7:
		return pcn_pkt_send(ctx, md, 1);
	}
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_EGRESS
{
	struct pcn_cursor c;

	if (out)
		return pcn_pkt_namespace(ctx, md, md->out_port);
	pcn_cursor_open(&c, ctx, 15);
	struct ethhdr *eth = pcn_parse_eth(&c);
	__u8 *at = eth ? pcn_cursor_take(&c, 1) : NULL;
	if (at)
		*at = 'o';
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
