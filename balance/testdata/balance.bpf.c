// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: chooses the server of the flow in the data of a test run, and pins it. */
#include <pcn/balance_pins.h>

struct balance_case {
	pcn_address source;
	pcn_address destination;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 confirms;
	__u8 found;   /* there is a service */
	__u8 refused; /* there is no room for the pin */
	__u32 now;
	__u32 chosen; /* by the table */
	__u32 pinned; /* to which it is pinned before */
	__u32 zero;
	__u64 hash;
};

SEC(PCN_SECTION) int balance_run(struct CTXTYPE *ctx)
{
	struct balance_case *in = pcn_data(ctx) + 16; /* after an Ethernet header */
	struct pcn_flow flow = { .has = PCN_FLOW_IP | PCN_FLOW_L4 | PCN_FLOW_PORTS };

	if ((void *)(in + 1) > pcn_data_end(ctx))
		return -1;
	pcn_address_copy(flow.source, in->source);
	pcn_address_copy(flow.destination, in->destination);
	flow.source_port = in->source_port;
	flow.destination_port = in->destination_port;
	flow.protocol = in->protocol;
	struct pcn_service *service = pcn_balance_service(&flow);

	in->found = !!service;
	if (!service)
		return 0;
	in->hash = pcn_balance_hash(&flow, service->by);
	in->chosen = pcn_balance_server(service->pool, in->hash);
	in->pinned = pcn_pin_get(in->hash, service->id, in->now, service->timeout, in->confirms);
	if (!in->pinned && in->chosen)
		in->refused =
			!!pcn_pin_add(in->hash, pcn_pin_word(service->id, in->chosen, in->now),
				      in->now, service->timeout);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
