// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: whether the flow in the data of a test run may be the answer to a health check. */
#include <pcn/balance_checks.h>

struct checks_case {
	pcn_address source;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 icmp_type;
	__u8 fragment;
	__u8 is_answer;
};

SEC(PCN_SECTION) int checks_run(struct CTXTYPE *ctx)
{
	struct checks_case *in = pcn_data(ctx) + 16; /* after an Ethernet header */
	struct pcn_flow flow = { .has = PCN_FLOW_IP | PCN_FLOW_L4 | PCN_FLOW_PORTS };

	if ((void *)(in + 1) > pcn_data_end(ctx))
		return -1;
	pcn_address_copy(flow.source, in->source);
	flow.source_port = in->source_port;
	flow.destination_port = in->destination_port;
	flow.protocol = in->protocol;
	flow.icmp_type = in->icmp_type;
	flow.fragment = in->fragment;
	if (in->protocol == IPPROTO_ICMP || in->protocol == IPPROTO_ICMPV6)
		flow.has = PCN_FLOW_IP | PCN_FLOW_L4 | PCN_FLOW_ICMP;
	if (in->protocol == IPPROTO_ICMPV6)
		flow.has |= PCN_FLOW_IPV6;
	in->is_answer = pcn_check_is_answer(&flow);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
