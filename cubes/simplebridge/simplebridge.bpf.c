// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent learning bridge (IEEE 802.1D-2004, 7.7 and 7.8, without spanning tree): two
 * lookups in one hash table for each frame. Nothing but the Ethernet header is read and nothing
 * is written, so tagged frames, jumbo frames and fragments go through as they are. */
#include <pcn/cube.h>
#include <pcn/fdb.h>

enum simplebridge_reason {
	SIMPLEBRIDGE_TRUNCATED = PCN_REASON_FIRST, /* shorter than an Ethernet header */
	SIMPLEBRIDGE_GROUP_SOURCE,		   /* no station sends from a group address */
	SIMPLEBRIDGE_SAME_PORT, /* the destination is where the frame came from */
};
PCN_REASONS(simplebridge_reason);

/* How long an entry is used after its last frame; 0: for ever. */
PCN_CONFIG(__u64, aging_ns) = 300000000000;
/* How old `seen` gets before it is written again: no write to shared memory for each frame. */
PCN_CONFIG(__u64, refresh_ns) = 1000000000;

/* By address as pcn_mac() gives it. A plain hash: an LRU would let an attacker who sends from
 * many addresses push out live and configured ones. The control plane removes what is aged. */
PCN_MAP(fdb, BPF_MAP_TYPE_HASH, __u64, struct pcn_fdb_entry, 4096);

enum simplebridge_counter {
	SIMPLEBRIDGE_NOT_LEARNED, /* frames from addresses that found no room */
	SIMPLEBRIDGE_COUNTERS,
};
PCN_COUNTERS(not_learned, simplebridge_counter, SIMPLEBRIDGE_COUNTERS);

PCN_INLINE void add(__u64 address, __u16 port, __u64 now)
{
	struct pcn_fdb_entry entry = { .seen = now, .port = port };

	if (!bpf_map_update_elem(&fdb, &address, &entry, BPF_NOEXIST))
		return;
	/* Full; or another CPU learned it at this moment, which is as good. */
	if (!bpf_map_lookup_elem(&fdb, &address))
		pcn_count(&not_learned, SIMPLEBRIDGE_NOT_LEARNED);
}

PCN_INLINE void learn(__u64 address, __u16 port, __u64 now)
{
	struct pcn_fdb_entry *entry = bpf_map_lookup_elem(&fdb, &address);

	if (!entry) {
		add(address, port, now);
		return;
	}
	if (entry->port == port && !pcn_refresh_due(now, entry->seen, refresh_ns))
		return;
	if (entry->fixed)
		return;
	entry->port = port;
	entry->seen = now;
}

PCN_INGRESS
{
	struct pcn_cursor c;
	struct pcn_fdb_entry *entry;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, SIMPLEBRIDGE_TRUNCATED);
	if (pcn_mac_is_group(eth->h_source))
		return pcn_pkt_drop(ctx, md, SIMPLEBRIDGE_GROUP_SOURCE);

	__u64 now = pcn_time_coarse();
	__u64 destination = pcn_mac(eth->h_dest);
	int group = pcn_mac_is_group(eth->h_dest);

	learn(pcn_mac(eth->h_source), md->in_port, now);
	if (group)
		return pcn_pkt_flood(ctx, md);
	entry = bpf_map_lookup_elem(&fdb, &destination);
	if (!entry || pcn_fdb_aged(entry, now, aging_ns)) {
		pcn_log(ctx, LOG_TRACE, "port %d: %M is unknown, flooded", md->in_port,
			destination);
		return pcn_pkt_flood(ctx, md);
	}
	if (entry->port == md->in_port)
		return pcn_pkt_drop(ctx, md, SIMPLEBRIDGE_SAME_PORT);
	return pcn_pkt_send(ctx, md, entry->port);
}

PCN_LICENSE;
