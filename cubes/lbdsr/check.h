// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Health checks, and what else is for the addresses of ports: the namespace of the cube. Checks come from the control plane
 * with the number of a server, and take the way that packets of clients to this server take. Answers go back to the control
 * plane. */
#ifndef LBDSR_CHECK_H
#define LBDSR_CHECK_H

#include "forward.h"

/* True if there are health checks: otherwise their code is not there. */
PCN_CONFIG(bool, checks) = false;

/* Sends a packet of a check to the server that the control plane has named. Its source port varies the outer headers. */
PCN_GLOBAL int lbdsr_check(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			   const struct pcn_flow *flow PCN_NONNULL)
{
	if (!(flow->has & PCN_FLOW_L4))
		return pcn_pkt_drop(ctx, md, LBDSR_MALFORMED);
	return lbdsr_send(ctx, md, flow, md->md[0], flow->source_port * 0x9e3779b97f4a7c15ULL);
}

/* A packet for no service. For an address of a port, it is the answer to a check, or for the namespace. */
PCN_GLOBAL int lbdsr_none(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			  const struct pcn_flow *flow PCN_NONNULL)
{
	struct lbdsr_address_key own = { .port = md->in_port };
	__u32 zero = 0, *is;
	struct lbdsr_settings *s = bpf_map_lookup_elem(&settings, &zero);

	if ((!checks && !pcn_shadow) || !s)
		return pcn_pkt_drop(ctx, md, LBDSR_NO_SERVICE);
	pcn_address_copy(own.address, flow->destination);
	is = bpf_map_lookup_elem(&addresses, &own);
	if (!is || !(*is & LBDSR_ADDRESS_OF_PORT))
		return pcn_pkt_drop(ctx, md, LBDSR_NO_SERVICE);
	if (checks && pcn_check_is_answer(flow)) {
		if (!lbdsr_allowed(s, LBDSR_LIMIT_CHECKS))
			return pcn_pkt_drop(ctx, md, LBDSR_CHECK_LIMIT);
		return pcn_pkt_controller(ctx, md, LBDSR_CHECK_ANSWER);
	}
	if (pcn_shadow)
		return pcn_pkt_namespace(ctx, md, md->in_port);
	return pcn_pkt_drop(ctx, md, LBDSR_NOT_A_CHECK);
}

/* A frame at a frontend port for another MAC address: what is for a group goes to the namespace, where a routing protocol
 * may wait for it. */
PCN_INLINE int lbdsr_other(struct CTXTYPE *ctx, struct pcn_md *md, const struct lbdsr_settings *s,
			   __u64 to)
{
	if (!pcn_shadow || !(to & 1))
		return pcn_pkt_drop(ctx, md, LBDSR_OTHER_STATION);
	if (!lbdsr_allowed(s, LBDSR_LIMIT_CONTROL))
		return pcn_pkt_drop(ctx, md, LBDSR_CONTROL_LIMIT);
	return pcn_pkt_namespace(ctx, md, md->in_port);
}

#endif
