// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* From a next hop to the neighbour's MAC address. The control plane resolves unknown neighbours and
 * writes them to the maps. */
#ifndef ROUTER_NEIGHBOUR_H
#define ROUTER_NEIGHBOUR_H

#include "address.h"
#include "punt.h"

/* How many packets may wait for one neighbour. */
#define ROUTER_QUEUE_MAX 8
/* How old `confirmed` may be before it is updated. */
#define ROUTER_REFRESH_NS 1000000000

/* A stale neighbour is used: request a probe, once. */
PCN_GLOBAL int router_stale(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			    struct router_address_key *key PCN_NONNULL)
{
	struct router_address_key own =
		*key; /* Linux 6.1 does not accept an argument's memory as a map key */
	struct router_neighbour *n;

	if (pcn_notify(ctx, md, ROUTER_NOTIFY_STALE, &own, sizeof(own)))
		return -1;
	n = bpf_map_lookup_elem(&neighbours, &own);
	if (n && n->state == ROUTER_STALE)
		n->state = ROUTER_PROBE;
	return 0;
}

/* The MAC address of a neighbour, 0: unknown. */
PCN_INLINE __u64 router_neighbour_mac(struct CTXTYPE *ctx, struct pcn_md *md,
				      struct router_address_key *key)
{
	struct router_neighbour *n = bpf_map_lookup_elem(&neighbours, key);
	__u64 mac;

	if (!n)
		return 0;
	mac = n->mac;
	if (n->state == ROUTER_REACHABLE || n->state == ROUTER_PERMANENT ||
	    n->state == ROUTER_PROBE)
		return mac;
	if (n->state != ROUTER_STALE)
		return 0;
	router_stale(ctx, md, key);
	return mac;
}

/* The verdict for a packet whose neighbour is unknown. */
PCN_GLOBAL int router_unresolved(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
				 struct router_address_key *key PCN_NONNULL, __u32 hop)
{
	struct router_address_key own = *key; /* see router_stale */
	struct router_neighbour *n = bpf_map_lookup_elem(&neighbours, &own);

	if (n && n->state == ROUTER_FAILED)
		return router_punt(ctx, md, ROUTER_HOST_FAILED, ROUTER_CLASS_ICMP, key->port, hop);
	if (n && n->queued >= ROUTER_QUEUE_MAX)
		return pcn_pkt_drop(ctx, md, ROUTER_NEIGHBOUR_QUEUE);
	if (n)
		n->queued++;
	return router_punt(ctx, md, ROUTER_UNRESOLVED, ROUTER_CLASS_NEIGHBOUR, key->port, hop);
}

/* A station on a port's link announces the address in key with a MAC address. A matching entry is
 * confirmed here; the control plane processes everything else. */
PCN_INLINE void router_heard(struct CTXTYPE *ctx, struct pcn_md *md, struct router_address_key *key,
			     __u64 mac, __u16 reason)
{
	struct router_neighbour *n = bpf_map_lookup_elem(&neighbours, key);
	__u64 now;

	if (n && n->state == ROUTER_PERMANENT)
		return;
	if (n && n->state == ROUTER_REACHABLE && n->mac == mac) {
		now = pcn_time_coarse();
		if (pcn_aged(now, n->confirmed, ROUTER_REFRESH_NS))
			n->confirmed = now;
		return;
	}
	router_show(ctx, md, reason, ROUTER_CLASS_CONTROL);
}

#endif
