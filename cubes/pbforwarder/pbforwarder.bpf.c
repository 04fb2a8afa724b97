// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Forwarding by rules: the first rule that matches a packet says what becomes of it. Rules are
 * data; which headers are read is a constant. */
#include <pcn/cube.h>
#include <pcn/classify.h>

/* The enumeration of the model's leaf `action`, in its order. */
enum pbforwarder_action {
	DROP,
	SLOWPATH,
	FORWARD,
};

enum pbforwarder_reason {
	PBFORWARDER_NO_RULE = PCN_REASON_FIRST, /* none of the rules matches */
	PBFORWARDER_ACTION_DROP,		/* its rule says so */
	PBFORWARDER_TRUNCATED,			/* shorter than an Ethernet header */
};
PCN_REASONS(pbforwarder_reason);

enum pbforwarder_slowpath_reason {
	PBFORWARDER_SLOWPATH_ACTION = PCN_REASON_FIRST, /* its rule says so */
};
PCN_SLOWPATH_REASONS(pbforwarder_slowpath_reason);

/* In a rule's result: the place of its counters, the port that FORWARD sends to, and the action. */
#define ACTION_BITS 2
#define PORT_BITS 10

PCN_CLASSIFIER(rules);

/* By place, which a rule keeps as long as it is there. As many as max-rules says. */
PCN_MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, 16384);

/* The rule's id plus 1 that has a place; 0: none. It is for the next daemon: the fast path does
 * not look here. */
PCN_MAP(places, BPF_MAP_TYPE_ARRAY, __u32, __u64, 16384);

PCN_INGRESS
{
	struct pcn_classify_key key;
	struct pcn_classify_match match;

	if (pcn_classify_read(ctx, md, &key, rules_fields))
		return pcn_pkt_drop(ctx, md, PBFORWARDER_TRUNCATED);
	if (!pcn_classify_rules(&key, &match))
		return pcn_pkt_drop(ctx, md, PBFORWARDER_NO_RULE);
	/* The order has done its work. A number of its own would be too much for the stack of Linux
	 * 6.1, which counts 32 bytes for each that a function begins. */
	match.order = match.result >> (ACTION_BITS + PORT_BITS);
	pcn_count_packet(&counters, &match.order, md->packet_len);

	__u32 action = match.result & ((1 << ACTION_BITS) - 1);
	if (action == FORWARD)
		return pcn_pkt_send(ctx, md, match.result >> ACTION_BITS & ((1 << PORT_BITS) - 1));
	if (action == SLOWPATH)
		return pcn_pkt_controller(ctx, md, PBFORWARDER_SLOWPATH_ACTION);
	return pcn_pkt_drop(ctx, md, PBFORWARDER_ACTION_DROP);
}

PCN_LICENSE;
