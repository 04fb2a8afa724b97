// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Forwarding by rules: the first rule that matches a packet decides. */
#include <pcn/cube.h>
#include <pcn/classify.h>
#include <pcn/rule_counters.h>

/* The values of the model's leaf `action`, in order. */
enum pbforwarder_action {
	DROP,
	SLOWPATH,
	FORWARD,
};

enum pbforwarder_reason {
	PBFORWARDER_NO_RULE = PCN_REASON_FIRST, /* none of the rules matches */
	PBFORWARDER_ACTION_DROP,		/* as its rule says */
	PBFORWARDER_TRUNCATED,			/* shorter than an Ethernet header */
};
PCN_REASONS(pbforwarder_reason);

enum pbforwarder_slowpath_reason {
	PBFORWARDER_SLOWPATH_ACTION = PCN_REASON_FIRST, /* as its rule says */
};
PCN_SLOWPATH_REASONS(pbforwarder_slowpath_reason);

/* Fields of a rule's result: its counter, the port for FORWARD, and the action. */
#define ACTION_BITS 2
#define PORT_BITS 10

PCN_INGRESS
{
	struct pcn_classify_match match;
	int found = pcn_classify_packet(ctx, md, &match, pcn_classify_set(md, 0));

	if (found < 0)
		return pcn_pkt_drop(ctx, md, PBFORWARDER_TRUNCATED);
	if (!found)
		return pcn_pkt_drop(ctx, md, PBFORWARDER_NO_RULE);
	/* The variable `order` is free now. Another variable would exceed the stack of Linux 6.1,
	 * which counts steps of 32 bytes per function. */
	match.order = match.result >> (ACTION_BITS + PORT_BITS);
	pcn_count_rule(&match.order, md->packet_len);

	__u32 action = match.result & ((1 << ACTION_BITS) - 1);
	if (action == FORWARD)
		return pcn_pkt_send(ctx, md, match.result >> ACTION_BITS & ((1 << PORT_BITS) - 1));
	if (action == SLOWPATH)
		return pcn_pkt_controller(ctx, md, PBFORWARDER_SLOWPATH_ACTION);
	return pcn_pkt_drop(ctx, md, PBFORWARDER_ACTION_DROP);
}

PCN_LICENSE;
