// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* How many different sources, destinations and flows there are, in 4 KiB each, whatever their number: a HyperLogLog, with
 * a standard error of 1.6 %. */
#include <pcn/monitor.h>
#include <pcn/flow.h>
#include <pcn/sketch.h>

PCN_SKETCH_DISTINCT(sources);
PCN_SKETCH_DISTINCT(destinations);
PCN_SKETCH_DISTINCT(flows);

PCN_MONITOR
{
	const struct pcn_hash_seed *seed = pcn_monitor_seed();
	struct pcn_flow flow = {};
	__u64 from, to;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	pcn_sketch_distinct_add(&sources, pcn_hash_address(seed, flow.source, 0));
	pcn_sketch_distinct_add(&destinations, pcn_hash_address(seed, flow.destination, 0));
	from = pcn_hash_address(seed, flow.source, flow.source_port);
	to = pcn_hash_address(seed, flow.destination, flow.destination_port);
	pcn_sketch_distinct_add(
		&flows, pcn_hash_words(seed, from, to, flow.protocol | (__u64)flow.vlan << 8));
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
