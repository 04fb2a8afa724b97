// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests: forwards UDP between its two ports. Connections open from the first port only. */
#include <pcn/conntrack.h>
#include <pcn/cube.h>
#include <pcn/time.h>

enum filter_reason {
	FILTER_NO_CONNECTION = PCN_REASON_FIRST, /* from the second port, and of no connection */
	FILTER_REFUSED,				 /* the table refused the connection */
	FILTER_OTHER,				 /* not UDP */
};
PCN_REASONS(filter_reason);

PCN_INGRESS
{
	struct pcn_conntrack_entry new = {}, *e;
	struct pcn_flow flow = {};
	__u16 out = 1 - (md->in_port & 1);

	if (pcn_flow_read(ctx, &flow) || flow.protocol != IPPROTO_UDP)
		return pcn_pkt_drop(ctx, md, FILTER_OTHER);
	int from = pcn_conntrack_key(&new.key, &flow, 7);
	if (from < 0)
		return pcn_pkt_drop(ctx, md, FILTER_OTHER);
	e = pcn_conntrack_entry(pcn_conntrack_find(&new.key));
	if (e) {
		new.state = e->state;
		pcn_ct_udp(&new.state, from);
		e->state = new.state;
		e->seen = pcn_time_coarse();
		return pcn_pkt_send(ctx, md, out);
	}
	if (!out)
		return pcn_pkt_drop(ctx, md, FILTER_NO_CONNECTION);
	pcn_ct_udp(&new.state, from);
	new.seen = pcn_time_coarse();
	new.generation = pcn_conntrack_generation(7);
	if (pcn_conntrack_open(&new) <= 0)
		return pcn_pkt_drop(ctx, md, FILTER_REFUSED);
	return pcn_pkt_send(ctx, md, out);
}

PCN_LICENSE;
