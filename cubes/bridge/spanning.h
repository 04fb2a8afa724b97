// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* BPDUs: the fast path passes them to the control plane, which runs the spanning trees. */
#ifndef BRIDGE_SPANNING_H
#define BRIDGE_SPANNING_H

#include "bridge.h"

enum bridge_slowpath {
	BRIDGE_BPDU = PCN_REASON_FIRST, /* for the spanning tree of the VLAN in the first word */
};
PCN_SLOWPATH_REASONS(bridge_slowpath);

/* Spanning trees are on. */
PCN_CONFIG(bool, stp_enabled) = false;

/* If the heartbeat is older than this, the control plane is considered gone. It sends one per
 * second. Neighbours that speak RSTP wait 6 seconds for BPDUs. */
#define BRIDGE_SILENCE 3000000000ull

/* Time of the control plane's last heartbeat, coarse monotonic ns; 0: none. */
PCN_MAP(spanning, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

/* A port's BPDUs in the current second. CPUs that count at the same time may accept a few more. */
struct bridge_bpdus {
	__u64 since; /* coarse monotonic ns */
	__u32 taken;
	__u32 limit; /* set by the control plane; 0: none are accepted */
};
PCN_MAP(bpdus, BPF_MAP_TYPE_ARRAY, __u32, struct bridge_bpdus, BRIDGE_PORTS);

/* The bridge group address, and the address for the trees of VLANs whose frames are tagged. */
PCN_INLINE int bridge_is_bpdu(__u64 to)
{
	return to == 0x000000c28001 || to == 0xcdcccc0c0001;
}

PCN_INLINE int bridge_too_many(__u32 port, __u64 now)
{
	struct bridge_bpdus *b = bpf_map_lookup_elem(&bpdus, &port);

	if (!b)
		return 1;
	if ((__s64)(now - b->since) > 1000000000) {
		b->since = now;
		b->taken = 0;
	}
	if (b->taken >= b->limit)
		return 1;
	b->taken++;
	return 0;
}

/* The verdict on a BPDU, or the drop reason. */
#define BRIDGE_TO_TREE 0
#define BRIDGE_TO_ALL -1

/* Processes a BPDU received on a port in a VLAN, whatever the port's state. While the control plane
 * is away, the bridge is transparent to BPDUs where it forwards, like a bridge without spanning
 * tree: its neighbours see each other's BPDUs, and none of them opens a loop through this bridge.
 * */
PCN_NOINLINE int bridge_bpdu(__u32 port, __u16 vlan)
{
	__u32 zero = 0;
	__u64 now = pcn_time_coarse();
	struct bridge_port *in = bpf_map_lookup_elem(&ports, &port);
	__u64 *sign = bpf_map_lookup_elem(&spanning, &zero);

	if (!in || !sign || !bridge_in(in->member, vlan))
		return BRIDGE_NOT_ALLOWED;
	if (bridge_too_many(port, now))
		return BRIDGE_BPDU_FLOOD;
	if (*sign && !pcn_aged(now, *sign, BRIDGE_SILENCE))
		return BRIDGE_TO_TREE;
	return bridge_in(in->forward, vlan) ? BRIDGE_TO_ALL : BRIDGE_STP_BLOCKED;
}

#endif
