// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Health checks of a load balancer's servers: which packets are answers to them. Go package balance/checks makes the checks and
 * owns the maps. */
#ifndef PCN_BALANCE_CHECKS_H
#define PCN_BALANCE_CHECKS_H

#include <pcn/flow.h>
#include <pcn/map.h>

/* The first port of checks, probe.FirstPort; of ICMP, the first identifier. */
#define PCN_CHECK_PORT 32768

/* What health checks are sent to, and how many source ports they have, from the first one on. */
struct pcn_check_target {
	pcn_address address;
	__be16 port; /* 0 for ICMP */
	__u8 protocol;
	__u8 zero;
};
PCN_MAP_FLAGS(check_targets, BPF_MAP_TYPE_HASH, struct pcn_check_target, __u32, 16384,
	      BPF_F_NO_PREALLOC);

/* What is known of the health of servers, for the next daemon. Programs do not read it. */
struct pcn_health_key {
	__u8 service[24]; /* struct pcn_service_key, with `proto` as the model counts it */
	__u8 server[24];  /* balance.Key */
};
struct pcn_health {
	__u64 since;  /* ms since 1970 */
	__u32 status; /* health.Status */
	char error[52];
};
PCN_MAP_FLAGS(healths, BPF_MAP_TYPE_HASH, struct pcn_health_key, struct pcn_health, 4096,
	      BPF_F_NO_PREALLOC);

/* True if a packet may be the answer to a health check: it comes from what is checked, for a port that checks have. The
 * control plane compares it with the checks. The caller knows that it is for the source of checks. */
PCN_INLINE int pcn_check_is_answer(const struct pcn_flow *flow)
{
	struct pcn_check_target key = { .protocol = flow->protocol };
	__u32 *ports, port = bpf_ntohs(flow->destination_port); /* of ICMP, the identifier */

	if (flow->fragment != PCN_FRAGMENT_NONE)
		return 0;
	pcn_address_copy(key.address, flow->source);
	if (flow->protocol == IPPROTO_TCP)
		key.port = flow->source_port;
	else if (!(flow->has & PCN_FLOW_ICMP) ||
		 flow->icmp_type != (flow->has & PCN_FLOW_IPV6 ? 129 : 0))
		return 0;
	ports = bpf_map_lookup_elem(&check_targets, &key);
	return ports && port - PCN_CHECK_PORT < *ports;
}

#endif
