// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A transparent learning bridge (IEEE 802.1D-2004, 7.7 and 7.8, without spanning tree). It only
 * reads the Ethernet header and writes nothing, so tagged frames, jumbo frames and fragments pass
 * unchanged. */
#include <pcn/cube.h>
#include <pcn/fdb.h>

enum simplebridge_reason {
	SIMPLEBRIDGE_TRUNCATED = PCN_REASON_FIRST, /* shorter than an Ethernet header */
	SIMPLEBRIDGE_GROUP_SOURCE,		   /* the source is a group address */
	SIMPLEBRIDGE_SAME_PORT,			   /* the destination is on the ingress port */
};
PCN_REASONS(simplebridge_reason);

/* Keyed by address as returned by pcn_mac(). A plain hash, because with an LRU an attacker who
 * sends from many addresses could evict active and configured ones. The control plane removes
 * expired entries. */
PCN_MAP(fdb, BPF_MAP_TYPE_HASH, __u64, struct pcn_fdb_entry, 4096);

#include <pcn/fdb_cache.h>

enum simplebridge_counter {
	SIMPLEBRIDGE_NOT_LEARNED, /* frames from addresses that did not fit the table */
	SIMPLEBRIDGE_COUNTERS,
};
PCN_COUNTERS(not_learned, simplebridge_counter, SIMPLEBRIDGE_COUNTERS);

/* Logs a frame to an unknown address. Not inlined: the arguments of a log line take 128 bytes of the stack, which cubes in
 * front of the bridge need. */
PCN_GLOBAL int simplebridge_log_unknown(struct CTXTYPE *ctx, __u32 port, __u64 to)
{
	pcn_log(ctx, LOG_TRACE, "port %d: %M is unknown, flooded", port, to);
	return 0;
}

PCN_INGRESS
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, SIMPLEBRIDGE_TRUNCATED);
	struct pcn_macs mac = pcn_macs(eth);
	if (mac.from & 1)
		return pcn_pkt_drop(ctx, md, SIMPLEBRIDGE_GROUP_SOURCE);

	__u64 now = pcn_fdb_now();
	if (pcn_fdb_learn(mac.from, md->in_port, now) == PCN_FDB_FULL)
		pcn_count(&not_learned, SIMPLEBRIDGE_NOT_LEARNED);
	if (mac.to & 1)
		return pcn_pkt_flood(ctx, md);
	int port = pcn_fdb_find(mac.to, now);
	if (port < 0) {
		if (LOG_TRACE >= pcn_log_level)
			simplebridge_log_unknown(ctx, md->in_port, mac.to);
		return pcn_pkt_flood(ctx, md);
	}
	if (port == md->in_port)
		return pcn_pkt_drop(ctx, md, SIMPLEBRIDGE_SAME_PORT);
	return pcn_pkt_send(ctx, md, port);
}

PCN_LICENSE;
