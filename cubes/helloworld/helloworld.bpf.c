// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The smallest standard cube. Read it first: one frozen constant, one map, an ingress and an egress
 * program. */
#include <pcn/cube.h>

/* The values of the model's leaf `action`, in order. */
enum helloworld_action {
	DROP,
	SLOWPATH,
	FORWARD,
};

enum helloworld_reason {
	HELLOWORLD_ACTION_DROP = PCN_REASON_FIRST, /* as action says */
	HELLOWORLD_NO_OTHER_PORT, /* action is FORWARD and there is no other port */
};
PCN_REASONS(helloworld_reason);

enum helloworld_slowpath_reason {
	HELLOWORLD_SLOWPATH_ACTION = PCN_REASON_FIRST, /* as action says */
};
PCN_SLOWPATH_REASONS(helloworld_slowpath_reason);

PCN_CONFIG(enum helloworld_action, action) = DROP;

/* The cube's two ports: index + 1; 0: none. */
PCN_MAP(ports, BPF_MAP_TYPE_ARRAY, __u32, __u32, 2);

/* Returns the port that is not in_port, or -1. */
PCN_INLINE int other_port(__u16 in_port)
{
	for (__u32 i = 0; i < 2; i++) {
		__u32 key = i; /* keeps the counter itself in a register */
		__u32 *port = bpf_map_lookup_elem(&ports, &key);
		if (port && *port && *port - 1 != in_port)
			return *port - 1;
	}
	return -1;
}

PCN_INGRESS
{
	int out;

	pcn_log(ctx, LOG_DEBUG, "ingress: port %d, %d bytes", md->in_port, md->packet_len);
	if (action == SLOWPATH)
		return pcn_pkt_controller(ctx, md, HELLOWORLD_SLOWPATH_ACTION);
	if (action == DROP)
		return pcn_pkt_drop(ctx, md, HELLOWORLD_ACTION_DROP);
	out = other_port(md->in_port);
	if (out < 0)
		return pcn_pkt_drop(ctx, md, HELLOWORLD_NO_OTHER_PORT);
	return pcn_pkt_send(ctx, md, out);
}

PCN_EGRESS
{
	pcn_log(ctx, LOG_DEBUG, "egress: port %d, %d bytes", md->out_port, md->packet_len);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
