// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: reads a message anywhere in a frame, puts a packet into a tunnel, and takes it out again. */
#include <pcn/config.h>
#include <pcn/gtpu.h>
#include <pcn/map.h>

struct gtpu_case {
	__u32 at;
	__u32 length;
	__u32 result;
	__u32 zero;
	struct pcn_gtpu got;
};

struct gtpu_way {
	pcn_address source;
	pcn_address destination;
	__u32 teid;
	__be16 source_port;
	__u8 ttl;
	__u8 ipv6;
	__u8 qfi;
	__u8 uplink;
	__u8 reflective;
	__u8 zero[5];
};

PCN_MAP(cases, BPF_MAP_TYPE_ARRAY, __u32, struct gtpu_case, 1);
PCN_MAP(ways, BPF_MAP_TYPE_ARRAY, __u32, struct gtpu_way, 1);

#define TO 0x020000000002
#define FROM 0x040000000002

SEC(PCN_SECTION) int gtpu_read(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	struct gtpu_case *c = bpf_map_lookup_elem(&cases, &zero);
	struct pcn_gtpu g;

	if (!c)
		return -1;
	c->result = pcn_gtpu_read(ctx, c->at, c->length, &g);
	c->got = g;
	return 0;
}

SEC(PCN_SECTION) int gtpu_put(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	const struct gtpu_way *w = bpf_map_lookup_elem(&ways, &zero);
	struct pcn_encap outer = {};
	struct pcn_gtpu_tunnel tunnel = { .to = TO, .from = FROM };
	struct pcn_flow flow = {};

	if (!w || pcn_flow_read(ctx, &flow))
		return 1;
	pcn_address_copy(outer.source, w->source);
	pcn_address_copy(outer.destination, w->destination);
	outer.source_port = w->source_port;
	outer.ttl = w->ttl;
	outer.ipv6 = w->ipv6;
	tunnel.teid = w->teid;
	tunnel.qfi = w->qfi;
	tunnel.uplink = w->uplink;
	tunnel.reflective = w->reflective;
	return pcn_gtpu_encap(ctx, &outer, &tunnel, &flow) ? 2 : 0;
}

SEC(PCN_SECTION) int gtpu_take(struct CTXTYPE *ctx)
{
	struct pcn_flow flow = {};
	struct pcn_gtpu g;
	__be16 length;

	if (pcn_flow_read(ctx, &flow) || flow.protocol != IPPROTO_UDP ||
	    pcn_load_bytes(ctx, flow.l4 + offsetof(struct udphdr, len), &length, sizeof(length)))
		return 1;
	if (pcn_gtpu_read(ctx, flow.l4 + sizeof(struct udphdr),
			  bpf_ntohs(length) - sizeof(struct udphdr), &g))
		return 2;
	return pcn_gtpu_strip(ctx, flow.l3, &g) ? 3 : 0;
}

PCN_LICENSE;
