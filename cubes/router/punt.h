// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sending packets to the control plane. The rate for each port and class is limited, so that a scan
 * of one kind on one port does not affect others. */
#ifndef ROUTER_PUNT_H
#define ROUTER_PUNT_H

#include "router.h"

/* The classes of packets to the control plane; each has its own limit. */
enum router_class {
	ROUTER_CLASS_NEIGHBOUR = 0, /* packets with an unresolved neighbour */
	ROUTER_CLASS_ICMP,	    /* packets that may be answered with an ICMP error */
	ROUTER_CLASS_LOCAL,   /* packets for the router itself, and packets to be fragmented */
	ROUTER_CLASS_CONTROL, /* ARP and neighbour discovery */
	ROUTER_CLASSES,
};

/* When the limit of a port and a class will be unused again, in coarse monotonic ns: the virtual
 * clock of a leaky bucket. Two CPUs that write at once may let one more packet through, which does
 * no harm. */
PCN_MAP(shares, BPF_MAP_TYPE_ARRAY, __u32, __u64, 2048); /* ports times classes */

/* The time that a packet takes from its limit, and how much may be used at once. */
PCN_INLINE __u64 router_cost(__u32 class)
{
	switch (class) {
	case ROUTER_CLASS_NEIGHBOUR:
		return 500000; /* 2,000 per second */
	case ROUTER_CLASS_ICMP:
		return 1000000; /* 1,000 per second */
	case ROUTER_CLASS_LOCAL:
		return 50000; /* 20,000 per second */
	default:
		return 500000;
	}
}

#define ROUTER_BURST 512

/* True if the limit of the port is not used up; then it is charged with one packet. */
PCN_NOINLINE int router_admit(__u32 port, __u32 class)
{
	__u32 key = (port * ROUTER_CLASSES + class) & 2047;
	__u64 *until = bpf_map_lookup_elem(&shares, &key);
	__u64 now = pcn_time_coarse(), cost = router_cost(class), used;

	if (!until)
		return 0;
	used = *until;
	if ((__s64)(used - now) < 0)
		used = now;
	if (used - now > ROUTER_BURST * cost)
		return 0;
	*until = used + cost;
	return 1;
}

/* The drop reason for packets over the limit. */
PCN_INLINE __u16 router_limit(__u32 class)
{
	switch (class) {
	case ROUTER_CLASS_NEIGHBOUR:
		return ROUTER_NEIGHBOUR_LIMIT;
	case ROUTER_CLASS_ICMP:
		return ROUTER_ICMP_LIMIT;
	case ROUTER_CLASS_LOCAL:
		return ROUTER_LOCAL_LIMIT;
	default:
		return ROUTER_CONTROL_LIMIT;
	}
}

/* Sends the packet to the control plane with two words. The third word says that it is the packet
 * itself rather than a copy. */
PCN_INLINE int router_punt(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason,
			   enum router_class class, __u32 word0, __u32 word1)
{
	__u32 words[4] = { word0, word1, 1 };

	if (!router_admit(md->in_port, class))
		return pcn_pkt_drop(ctx, md, router_limit(class));
	return pcn_pkt_controller_md(ctx, md, reason, words);
}

/* Sends a copy to the control plane. */
PCN_INLINE void router_show(struct CTXTYPE *ctx, struct pcn_md *md, __u16 reason,
			    enum router_class class)
{
	if (router_admit(md->in_port, class))
		pcn_pkt_copy(ctx, md, reason);
}

#endif
