// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Static forwarding by one array lookup. Entries are data: editing one never relinks. */
#include <pcn/cube.h>

/* The values of the model's leaf `action`, in order, after "no entry". */
enum simpleforwarder_action {
	NONE,
	DROP,
	SLOWPATH,
	FORWARD,
	FORWARD_NOWHERE, /* FORWARD, without an outport */
};

struct simpleforwarder_entry {
	__u16 action;
	__u16 outport;
};

enum simpleforwarder_reason {
	SIMPLEFORWARDER_NO_ACTION = PCN_REASON_FIRST, /* the port has no entry */
	SIMPLEFORWARDER_ACTION_DROP,		      /* as its entry says */
	SIMPLEFORWARDER_NO_OUTPORT, /* its entry is FORWARD without an output port */
};
PCN_REASONS(simpleforwarder_reason);

enum simpleforwarder_slowpath_reason {
	SIMPLEFORWARDER_SLOWPATH_ACTION = PCN_REASON_FIRST, /* as the port's entry says */
};
PCN_SLOWPATH_REASONS(simpleforwarder_slowpath_reason);

/* By input port, with as many entries as a cube can have ports. */
PCN_MAP(actions, BPF_MAP_TYPE_ARRAY, __u32, struct simpleforwarder_entry, 512);

PCN_INGRESS
{
	__u32 inport = md->in_port;
	struct simpleforwarder_entry *entry = bpf_map_lookup_elem(&actions, &inport);

	if (!entry || entry->action == NONE)
		return pcn_pkt_drop(ctx, md, SIMPLEFORWARDER_NO_ACTION);
	pcn_log(ctx, LOG_DEBUG, "port %d: action %d, outport %d", inport, entry->action,
		entry->outport);
	if (entry->action == FORWARD)
		return pcn_pkt_send(ctx, md, entry->outport);
	if (entry->action == SLOWPATH)
		return pcn_pkt_controller(ctx, md, SIMPLEFORWARDER_SLOWPATH_ACTION);
	if (entry->action == FORWARD_NOWHERE)
		return pcn_pkt_drop(ctx, md, SIMPLEFORWARDER_NO_OUTPORT);
	return pcn_pkt_drop(ctx, md, SIMPLEFORWARDER_ACTION_DROP);
}

PCN_LICENSE;
