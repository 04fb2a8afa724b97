// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The sources and the services with most bytes, in memory that does not grow with their number: a flood from a million
 * addresses does not push a heavy source out of the list. The sums are too large by `error` at most. */
#include <pcn/monitor.h>
#include <pcn/flow.h>
#include <pcn/sketch.h>

/* 256 keys on each CPU. */
#define SETS 32

PCN_SKETCH_TOP(sources, SETS);
PCN_SKETCH_TOP(services, SETS);

/* Functions that are PCN_GLOBAL are verified once, not for each path that leads to them. */
PCN_GLOBAL int add_source(struct pcn_sketch_key *key PCN_NONNULL, __u32 bytes)
{
	__u64 hash = pcn_hash_address(pcn_monitor_seed(), key->address, key->number);

	pcn_sketch_top_add(&sources, hash, key, bytes);
	return 0;
}

PCN_GLOBAL int add_service(struct pcn_sketch_key *key PCN_NONNULL, __u32 bytes)
{
	__u64 hash = pcn_hash_address(pcn_monitor_seed(), key->address, key->number);

	pcn_sketch_top_add(&services, hash, key, bytes);
	return 0;
}

PCN_MONITOR
{
	struct pcn_sketch_key key = {};
	struct pcn_flow flow = {};

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	pcn_address_copy(key.address, flow.source);
	add_source(&key, md->packet_len);
	if (!(flow.has & PCN_FLOW_PORTS))
		return pcn_pkt_pass(ctx, md);
	pcn_address_copy(key.address, flow.destination);
	key.number = bpf_ntohs(flow.destination_port);
	add_service(&key, md->packet_len);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
