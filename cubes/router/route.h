// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Finds the next hop for a destination. */
#ifndef ROUTER_ROUTE_H
#define ROUTER_ROUTE_H

#include <pcn/flow.h>
#include "address.h"

/* The index in next_hops of an IPv4 address's route; 0: none. */
PCN_INLINE __u32 router_route4(__be32 address)
{
	__u32 a = bpf_ntohl(address), key = a >> 20, entry;
	struct router_chunk *c = bpf_map_lookup_elem(&fib4, &key);

	if (!c)
		return ROUTER_HOP_NONE;
	entry = c->entry[a >> 16 & 15];
#pragma clang loop unroll(full)
	for (int shift = 12; shift >= 0; shift -= 4) {
		__u32 page = (entry & ~ROUTER_CHUNK_FOLLOWS) / ROUTER_PAGE_CHUNKS;
		__u32 slot = entry % ROUTER_PAGE_CHUNKS;
		void *chunks;

		if (!(entry & ROUTER_CHUNK_FOLLOWS))
			break;
		chunks = bpf_map_lookup_elem(&fib4_pages, &page);
		c = chunks ? bpf_map_lookup_elem(chunks, &slot) : NULL;
		if (!c)
			return ROUTER_HOP_NONE;
		entry = c->entry[a >> shift & 15];
	}
	if (entry)
		return entry;
	key = ROUTER_ROOT_CHUNKS;
	c = bpf_map_lookup_elem(&fib4, &key);
	return c ? c->entry[0] : ROUTER_HOP_NONE;
}

/* The same, for rare code. */
PCN_GLOBAL __u32 router_find4(__be32 address)
{
	return router_route4(address);
}

/* The index in next_hops of an IPv6 address's route; 0: none. */
PCN_INLINE __u32 router_route6(const struct in6_addr *address)
{
	struct router_prefix6 key = { .length = 128 };
	__u32 *index;

	pcn_address_set6(key.address, address);
	index = bpf_map_lookup_elem(&routes6, &key);
	return index ? *index : ROUTER_HOP_NONE;
}

/* True if a route leads out of a port. */
PCN_GLOBAL int router_leads_to(const struct router_next_hop *hop PCN_NONNULL, __u32 port)
{
	struct router_group *g;
	__u32 group;

	if (hop->kind == ROUTER_KIND_UNICAST)
		return hop->port == port;
	if (hop->kind != ROUTER_KIND_MULTIPATH)
		return 0;
	group = hop->group;
	g = bpf_map_lookup_elem(&groups, &group);
	if (!g)
		return 0;
	for (__u32 i = 0; i < ROUTER_GROUP_MAX; i++) {
		struct router_next_hop *m;

		if (i >= hop->members)
			break;
		m = bpf_map_lookup_elem(&next_hops, &g->member[i]);
		if (m && m->port == port)
			return 1;
	}
	return 0;
}

/* True if the reverse path filter of a port accepts a source with that route. */
PCN_INLINE int router_accepts(__u8 filter, __u32 index, __u16 in_port)
{
	struct router_next_hop *back = bpf_map_lookup_elem(&next_hops, &index);

	if (!back)
		return 0;
	if (filter == ROUTER_RP_STRICT)
		return router_leads_to(back, in_port);
	return (back->kind == ROUTER_KIND_UNICAST || back->kind == ROUTER_KIND_MULTIPATH);
}

/* The hash of a packet's flow, from the metadata if another cube has computed it. */
PCN_GLOBAL __u32 router_flow_hash(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	struct pcn_flow flow = {};

	if (!md->flow_hash && pcn_flow_read(ctx, &flow))
		return 1;
	return pcn_get_flow_hash(md, &flow);
}

/* The member of a group for a packet's flow. */
PCN_INLINE __u32 router_member(struct CTXTYPE *ctx, struct pcn_md *md, __u32 group, __u32 members)
{
	__u32 at = (__u64)router_flow_hash(ctx, md) * members >> 32;
	struct router_group *g = bpf_map_lookup_elem(&groups, &group);

	return g ? g->member[at & (ROUTER_GROUP_MAX - 1)] : 0;
}

#endif
