// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A bridge with VLANs (IEEE 802.1Q-2022, 8.6): a frame is classified to a VLAN by its tag and its
 * port, its source is learned there, and it is forwarded to the port where its destination was
 * learned, or flooded to all ports of the VLAN, each with the tag that it requires. If all ports
 * are in one VLAN, the program does not contain the code for tags and ports. */
#include "bridge.h"

/* 0: all ports are access ports of only_vlan, and forward. */
PCN_CONFIG(bool, vlan_aware) = true;
PCN_CONFIG(__u16, only_vlan) = 1;

PCN_MAP(ports, BPF_MAP_TYPE_ARRAY, __u32, struct bridge_port, BRIDGE_PORTS + 1);
/* Keyed by address as returned by pcn_mac(), with the VLAN in the upper bits. A plain hash, because
 * with an LRU an attacker who sends from many addresses could evict active and configured ones. The
 * control plane removes expired entries. */
PCN_MAP(fdb, BPF_MAP_TYPE_HASH, __u64, struct pcn_fdb_entry, 16384);

#include <pcn/fdb_cache.h>
#include "spanning.h"

enum bridge_counter {
	BRIDGE_NOT_LEARNED, /* frames from addresses that did not fit the table */
	BRIDGE_MOVES,	    /* learned addresses that were seen on another port */
	BRIDGE_COUNTERS,
};
PCN_COUNTERS(counters, bridge_counter, BRIDGE_COUNTERS);

PCN_INLINE __u64 fdb_key(__u64 address, __u16 vlan)
{
	return address | (__u64)vlan << 48;
}

PCN_INLINE void learn(__u64 key, __u16 port, __u64 now)
{
	int result = pcn_fdb_learn(key, port, now);

	if (result == PCN_FDB_MOVED)
		pcn_count(&counters, BRIDGE_MOVES);
	if (result == PCN_FDB_FULL)
		pcn_count(&counters, BRIDGE_NOT_LEARNED);
}

/* The reason why a port that does not forward in a VLAN drops a frame. The port may still learn
 * from it. */
PCN_NOINLINE int refuse(__u32 port, __u16 vlan, __u64 source)
{
	struct bridge_port *in = bpf_map_lookup_elem(&ports, &port);

	if (!in || !bridge_in(in->member, vlan))
		return BRIDGE_NOT_ALLOWED;
	if (bridge_in(in->learn, vlan))
		learn(fdb_key(source, vlan), port, pcn_fdb_now());
	return BRIDGE_STP_BLOCKED;
}

/* 01:80:c2:00:00:0x. A bridge without a spanning tree floods the first of them, the bridge group
 * address, so that bridges around it can run one. */
PCN_INLINE int link_local(__u64 address)
{
	return (address & 0xf0ffffffffff) == 0x000000c28001 && address != 0x000000c28001;
}

/* Returns the VLAN of a frame, or the negated drop reason. */
PCN_INLINE int classify(const struct bridge_port *in, int tci)
{
	__u16 vlan = tci & PCN_VLAN_VID_MASK;

	if (tci < 0 || !vlan)
		return in->pvid ?: -BRIDGE_UNTAGGED;
	return in->trunk ? vlan : -BRIDGE_TAGGED;
}

/* The same if all ports are in one VLAN. */
PCN_INLINE int classify_simply(int tci)
{
	return tci > 0 && tci & PCN_VLAN_VID_MASK ? -BRIDGE_TAGGED : only_vlan;
}

/* Replaces the priority tag (VLAN 0) of a frame by the tag of its VLAN, or removes it if there are
 * no other VLANs. */
PCN_INLINE int put_into(struct CTXTYPE *ctx, int *tci, __u16 vlan)
{
	int now = vlan_aware ? *tci | vlan : BRIDGE_NO_TAG;
	int was = *tci;

	*tci = now;
	return bridge_retag(ctx, was, now);
}

PCN_INLINE int flood(struct CTXTYPE *ctx, struct pcn_md *md, __u16 vlan, int tci)
{
	if (!vlan_aware)
		return pcn_pkt_flood(ctx, md);
	return pcn_pkt_flood_set(ctx, md, vlan, PCN_TAG(ETH_P_8021Q, tci >= 0 ? tci : vlan),
				 tci >= 0);
}

/* Sends a frame out of a port, with the tag that the port requires. */
PCN_INLINE int send(struct CTXTYPE *ctx, struct pcn_md *md, __u32 port, __u16 vlan, int tci)
{
	if (vlan_aware) {
		struct bridge_port *out = bpf_map_lookup_elem(&ports, &port);

		if (!out || !bridge_in(out->forward, vlan))
			return pcn_pkt_drop(ctx, md, BRIDGE_OUT_BLOCKED);
		int tagged = out->pvid != vlan;
		if (tagged != (tci >= 0) && bridge_retag(ctx, tci, tagged ? vlan : BRIDGE_NO_TAG))
			return pcn_pkt_drop(ctx, md, BRIDGE_TAG_FAILED);
	}
	return pcn_pkt_send(ctx, md, port);
}

PCN_INGRESS
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, BRIDGE_TRUNCATED);
	struct pcn_macs mac = pcn_macs(eth);
	int tci = bridge_tci(ctx, &c, eth->h_proto);
	if (tci == BRIDGE_CUT_TAG)
		return pcn_pkt_drop(ctx, md, BRIDGE_TRUNCATED);
	if (mac.from & 1)
		return pcn_pkt_drop(ctx, md, BRIDGE_GROUP_SOURCE);

	int vlan = classify_simply(tci);
	if (vlan_aware) {
		__u32 port = md->in_port;
		struct bridge_port *in = bpf_map_lookup_elem(&ports, &port);
		if (!in)
			return pcn_pkt_drop(ctx, md, BRIDGE_NOT_ALLOWED);
		vlan = classify(in, tci);
		if (stp_enabled && vlan >= 0 && bridge_is_bpdu(mac.to)) {
			int why = bridge_bpdu(port, vlan);
			__u32 words[4] = { vlan };
			if (why == BRIDGE_TO_TREE)
				return pcn_pkt_controller_md(ctx, md, BRIDGE_BPDU, words);
			if (why != BRIDGE_TO_ALL)
				return pcn_pkt_drop(ctx, md, why);
		}
		if (vlan >= 0 && !bridge_in(in->forward, vlan))
			vlan = -refuse(port, vlan, mac.from);
	}
	if (vlan < 0)
		return pcn_pkt_drop(ctx, md, -vlan);
	if (tci >= 0 && !(tci & PCN_VLAN_VID_MASK) && put_into(ctx, &tci, vlan))
		return pcn_pkt_drop(ctx, md, BRIDGE_TAG_FAILED);

	__u64 now = pcn_fdb_now();
	learn(fdb_key(mac.from, vlan), md->in_port, now);
	if (mac.to & 1) {
		if (link_local(mac.to))
			return pcn_pkt_drop(ctx, md, BRIDGE_LINK_LOCAL);
		return flood(ctx, md, vlan, tci);
	}
	int port = pcn_fdb_find(fdb_key(mac.to, vlan), now);
	if (port < 0)
		return flood(ctx, md, vlan, tci);
	if (port == md->in_port)
		return pcn_pkt_drop(ctx, md, BRIDGE_SAME_PORT);
	return send(ctx, md, port, vlan, tci);
}

PCN_LICENSE;
