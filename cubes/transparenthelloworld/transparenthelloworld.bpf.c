// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The smallest transparent cube: a frozen constant for each direction. */
#include <pcn/cube.h>

/* The values of the model's type `action`, in order. */
enum transparenthelloworld_action {
	DROP,
	PASS,
	SLOWPATH,
};

/* Each one is set by the direction's leaf. */
enum transparenthelloworld_reason {
	TRANSPARENTHELLOWORLD_INGRESS_DROP = PCN_REASON_FIRST,
	TRANSPARENTHELLOWORLD_EGRESS_DROP,
};
PCN_REASONS(transparenthelloworld_reason);

enum transparenthelloworld_slowpath_reason {
	TRANSPARENTHELLOWORLD_SLOWPATH_INGRESS = PCN_REASON_FIRST,
	TRANSPARENTHELLOWORLD_SLOWPATH_EGRESS,
};
PCN_SLOWPATH_REASONS(transparenthelloworld_slowpath_reason);

PCN_CONFIG(enum transparenthelloworld_action, ingress_action) = PASS;
PCN_CONFIG(enum transparenthelloworld_action, egress_action) = PASS;

PCN_INGRESS
{
	pcn_log(ctx, LOG_DEBUG, "ingress: %d bytes, action %d", md->packet_len, ingress_action);
	if (ingress_action == DROP)
		return pcn_pkt_drop(ctx, md, TRANSPARENTHELLOWORLD_INGRESS_DROP);
	if (ingress_action == SLOWPATH)
		return pcn_pkt_controller(ctx, md, TRANSPARENTHELLOWORLD_SLOWPATH_INGRESS);
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	pcn_log(ctx, LOG_DEBUG, "egress: %d bytes, action %d", md->packet_len, egress_action);
	if (egress_action == DROP)
		return pcn_pkt_drop(ctx, md, TRANSPARENTHELLOWORLD_EGRESS_DROP);
	if (egress_action == SLOWPATH)
		return pcn_pkt_controller(ctx, md, TRANSPARENTHELLOWORLD_SLOWPATH_EGRESS);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
