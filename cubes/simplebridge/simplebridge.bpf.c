// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent learning bridge (IEEE 802.1D-2004, 7.7 and 7.8, without spanning tree): two lookups
 * in one hash table per frame. It only reads the Ethernet header and writes nothing, so tagged
 * frames, jumbo frames and fragments pass unchanged. */
#include <pcn/cube.h>
#include <pcn/fdb.h>

enum simplebridge_reason {
	SIMPLEBRIDGE_TRUNCATED = PCN_REASON_FIRST, /* shorter than an Ethernet header */
	SIMPLEBRIDGE_GROUP_SOURCE,		   /* the source is a group address */
	SIMPLEBRIDGE_SAME_PORT,			   /* the destination is on the ingress port */
};
PCN_REASONS(simplebridge_reason);

/* How long an entry is used after its last frame; 0: forever. */
PCN_CONFIG(__u64, aging_ns) = 300000000000;
/* How old `seen` may be before it is updated, to avoid a write to shared memory for each frame. */
PCN_CONFIG(__u64, refresh_ns) = 1000000000;

/* Keyed by address as returned by pcn_mac(). A plain hash, because with an LRU an attacker who
 * sends from many addresses could evict active and configured ones. The control plane removes
 * expired entries. */
PCN_MAP(fdb, BPF_MAP_TYPE_HASH, __u64, struct pcn_fdb_entry, 4096);

enum simplebridge_counter {
	SIMPLEBRIDGE_NOT_LEARNED, /* frames from addresses that did not fit the table */
	SIMPLEBRIDGE_COUNTERS,
};
PCN_COUNTERS(not_learned, simplebridge_counter, SIMPLEBRIDGE_COUNTERS);

PCN_INLINE void add(__u64 address, __u16 port, __u64 now)
{
	struct pcn_fdb_entry entry = { .seen = now, .port = port };

	if (!bpf_map_update_elem(&fdb, &address, &entry, BPF_NOEXIST))
		return;
	/* Either the table is full, or another CPU just learned it, which is as good. */
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
