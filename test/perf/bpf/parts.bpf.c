// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The smallest use of each shared part in a program of its own, to be verified: the difference to part_nothing is what
 * the part costs. */
#include <pcn/cube.h>
#include <pcn/balance_pins.h>
#include <pcn/bucket.h>
#include <pcn/encap.h>
#include <pcn/gtpu_end.h>
#include <pcn/classify.h>
#include <pcn/conntrack_packet.h>
#include <pcn/fdb.h>
#include <pcn/ring.h>
#include <pcn/rule_counters.h>
#include <pcn/sdf.h>
#include <pcn/sketch.h>

PCN_MAP(fdb, BPF_MAP_TYPE_HASH, __u64, struct pcn_fdb_entry, 64);

#include <pcn/fdb_cache.h>

enum parts_reason {
	PCN_GTPU_END_REASONS(PARTS),
	PARTS_YES, /* the part has found something */
	PARTS_NO,
};
PCN_REASONS(parts_reason);

PCN_PROGRAM(part_nothing)
{
	return pcn_pkt_drop(ctx, md, PARTS_NO);
}

PCN_PROGRAM(part_flow)
{
	struct pcn_flow flow = {};

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_PORTS))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_classifier)
{
	struct pcn_classify_match match;

	if (pcn_classify_packet(ctx, md, &match, pcn_classify_set(md, 0)) <= 0)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

/* The key is read once, for two sets. */
PCN_PROGRAM(part_classifier_key)
{
	__u32 first = pcn_classify_set(md, 0), second = pcn_classify_set(md, 1);
	__u32 fields = pcn_classify_fields(first) | pcn_classify_fields(second);
	struct pcn_classify_key *key = pcn_classify_key();
	struct pcn_classify_match match;

	if (!key || pcn_classify_read(ctx, key, fields, md->in_port, md->traffic_class))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	if (pcn_classify(key, &match, first) || pcn_classify(key, &match, second))
		return pcn_pkt_drop(ctx, md, PARTS_YES);
	return pcn_pkt_drop(ctx, md, PARTS_NO);
}

PCN_MAP(bucket_limits, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_bucket_limit, 1);
PCN_MAP(bucket_words, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

PCN_PROGRAM(part_bucket)
{
	__u32 zero = 0;
	struct pcn_bucket_limit *limit = bpf_map_lookup_elem(&bucket_limits, &zero);
	__u64 *bucket = bpf_map_lookup_elem(&bucket_words, &zero);

	if (!limit || !bucket || !pcn_bucket_take(bucket, limit, md->packet_len, pcn_time_coarse()))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_balance)
{
	struct pcn_flow flow = {};
	struct pcn_service *service;

	if (pcn_flow_read(ctx, &flow))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	service = pcn_balance_service(&flow);
	if (!service || !pcn_balance_server(service->pool, pcn_balance_hash(&flow, service->by)))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_balance_pins)
{
	struct pcn_flow flow = {};
	struct pcn_service *service;
	__u32 now = pcn_time_coarse() >> 33, server;

	if (pcn_flow_read(ctx, &flow))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	service = pcn_balance_service(&flow);
	if (!service)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	__u64 hash = pcn_balance_hash(&flow, service->by);

	if (pcn_pin_get(hash, service->id, now, service->timeout, 1))
		return pcn_pkt_drop(ctx, md, PARTS_YES);
	server = pcn_balance_server(service->pool, hash);
	if (!server ||
	    pcn_pin_add(hash, pcn_pin_word(service->id, server, now), now, service->timeout))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_encap)
{
	struct pcn_encap outer = { .kind = PCN_ENCAP_GUE,
				   .ipv6 = md->traffic_class & 1,
				   .ttl = 64 };
	struct pcn_flow flow = {};

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP) ||
	    pcn_encap(ctx, &outer, &flow, 1, 2))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_gtpu)
{
	struct pcn_encap outer = { .ipv6 = md->traffic_class & 1, .ttl = 64 };
	struct pcn_gtpu_tunnel tunnel = {
		.to = 1, .from = 2, .teid = md->flow_hash, .qfi = md->tenant
	};
	struct pcn_flow flow = {};
	struct pcn_gtpu g;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	if (flow.destination_port != bpf_htons(PCN_GTPU_PORT)) {
		if (pcn_gtpu_encap(ctx, &outer, &tunnel, &flow))
			return pcn_pkt_drop(ctx, md, PARTS_NO);
		return pcn_pkt_drop(ctx, md, PARTS_YES);
	}
	if (pcn_gtpu_read(ctx, flow.l4 + sizeof(struct udphdr), md->packet_len - flow.l4, &g) ||
	    pcn_gtpu_strip(ctx, flow.l3, &g))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

/* Both directions of a cube that ends tunnels. */
PCN_PROGRAM(part_gtpu_end)
{
	struct pcn_encap outer = { .ipv6 = md->traffic_class & 1, .ttl = 64 };
	struct pcn_gtpu_tunnel tunnel = { .teid = md->flow_hash };
	struct pcn_flow flow = {};
	struct pcn_gtpu g;
	int result;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	if (pcn_gtpu_end_is_for(&flow)) {
		result = pcn_gtpu_end_read(ctx, md, &flow, &g);
		if (result == PCN_GTPU_END_PACKET) {
			pcn_gtpu_end_learn(ctx, &flow);
			result = pcn_pkt_drop(ctx, md, PARTS_YES);
		}
		return result;
	}
	outer.source_port = pcn_gtpu_end_port(&flow);
	result = pcn_gtpu_end_fits(ctx, md, &flow, pcn_gtpu_overhead(&outer, &tunnel), 1500);
	if (result != PCN_GTPU_END_PACKET)
		return result;
	if (pcn_gtpu_end_macs(ctx, &tunnel, flow.destination) || !tunnel.to)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_MAP(flow_lists, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_sdf_list, 1);

PCN_PROGRAM(part_sdf)
{
	struct pcn_sdf_packet p = {};
	struct pcn_sdf_list *list;
	struct pcn_flow flow = {};
	__u32 zero = 0;

	list = bpf_map_lookup_elem(&flow_lists, &zero);
	if (!list || pcn_flow_read(ctx, &flow))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	pcn_sdf_of_flow(&p, &flow, md->tenant, md->traffic_class & 1);
	return pcn_pkt_drop(ctx, md, pcn_sdf_search(&p, list, 0) ? PARTS_YES : PARTS_NO);
}

PCN_MAP(sketch_seed, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_hash_seed, 1);
PCN_SKETCH(sketch_sums, 4096);
PCN_SKETCH_RATES(sketch_rates, 4096);
PCN_SKETCH_DISTINCT(sketch_distinct);
PCN_SKETCH_TOP(sketch_top, 64);

/* The hash of a key that the parts below have. */
PCN_INLINE __u64 sketch_hash(const struct pcn_md *md, struct pcn_sketch_key *key)
{
	__u32 zero = 0;
	struct pcn_hash_seed *seed = bpf_map_lookup_elem(&sketch_seed, &zero);

	pcn_address_set4(key->address, md->in_port);
	key->number = 0;
	return seed ? pcn_hash_address(seed, key->address, key->number) : 0;
}

PCN_PROGRAM(part_sketch)
{
	struct pcn_sketch_key key;

	if (pcn_sketch_add(&sketch_sums, sketch_hash(md, &key), md->packet_len) > 1 << 20)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_sketch_rates)
{
	struct pcn_sketch_key key;
	__u64 hash = sketch_hash(md, &key);

	if (pcn_sketch_rate(&sketch_rates, hash, md->packet_len, pcn_time_coarse()) > 1 << 20)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_sketch_distinct)
{
	struct pcn_sketch_key key;

	pcn_sketch_distinct_add(&sketch_distinct, sketch_hash(md, &key));
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_sketch_top)
{
	struct pcn_sketch_key key;
	__u64 hash = sketch_hash(md, &key);

	pcn_sketch_top_add(&sketch_top, hash, &key, md->packet_len);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_RING(copies, 1 << 20);

PCN_PROGRAM(part_ring)
{
	if (pcn_ring_packet(copies, ctx, md, 128, 0))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_PROGRAM(part_rule_counters)
{
	__u32 counter = md->in_port;

	pcn_count_rule(&counter, md->packet_len);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

/* The calls of a stateful cube, without those of its rules. */
PCN_PROGRAM(part_connections)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();

	if (!w || pcn_flow_read(ctx, &w->flow))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	if (pcn_conntrack_track(ctx, w, pcn_instance(md), 0) == PCN_CT_INVALID)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	if (!pcn_conntrack_known(w) && pcn_conntrack_accept(w) < 0)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

/* The table alone, with a state of the cube's own. */
PCN_PROGRAM(part_connections_table)
{
	struct pcn_conntrack_work *w = pcn_conntrack_begin();

	if (!w || pcn_flow_read(ctx, &w->flow))
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	struct pcn_conntrack_entry *new = &w->fresh;
	if (pcn_conntrack_key(&new->key, &w->flow, pcn_instance(md)) < 0)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	if (pcn_conntrack_find(&new->key) > 0 || pcn_conntrack_open(new) > 0)
		return pcn_pkt_drop(ctx, md, PARTS_YES);
	return pcn_pkt_drop(ctx, md, PARTS_NO);
}

PCN_PROGRAM(part_bridge_cache)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	struct pcn_macs mac = pcn_macs(eth);
	__u64 now = pcn_fdb_now();
	pcn_fdb_learn(mac.from, md->in_port, now);
	if (pcn_fdb_find(mac.to, now) < 0)
		return pcn_pkt_drop(ctx, md, PARTS_NO);
	return pcn_pkt_drop(ctx, md, PARTS_YES);
}

PCN_LICENSE;
