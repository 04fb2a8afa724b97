// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests: a constant says what it does with a packet. */
#include <pcn/cube.h>

enum probe_reason {
	PROBE_TOLD_TO = PCN_REASON_FIRST,
};
PCN_REASONS(probe_reason);

enum probe_slowpath_reason {
	PROBE_SLOWPATH_UP = PCN_REASON_FIRST,
};
PCN_SLOWPATH_REASONS(probe_slowpath_reason);

/* 0 send to `out`, 1 drop, 2 flood, 3 slow path, 4 pass, 5 swap MACs and send to `out`,
 * 6 the other of ports 0 and 1, 7 a verdict that does not exist, 8 a copy up and send */
PCN_CONFIG(__u32, what) = 0;
PCN_CONFIG(__u16, out) = 1;

PCN_MAP(seen, BPF_MAP_TYPE_ARRAY, __u32, __u64, 4);

PCN_INLINE void swap_macs(struct ethhdr *eth)
{
	__u8 mac[ETH_ALEN];

	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
}

PCN_INGRESS
{
	__u32 key = 0;
	__u64 *n = bpf_map_lookup_elem(&seen, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
	pcn_log(ctx, LOG_DEBUG, "port %d, %u bytes", md->in_port, md->packet_len);
	switch (what) {
	case 0:
		return pcn_pkt_send(ctx, md, out);
	case 1:
		return pcn_pkt_drop(ctx, md, PROBE_TOLD_TO);
	case 2:
		return pcn_pkt_flood(ctx, md);
	case 3: {
		__u32 words[4] = { 1, 2, 3, md->in_port };
		return pcn_pkt_controller_md(ctx, md, PROBE_SLOWPATH_UP, words);
	}
	case 4:
		return pcn_pkt_pass(ctx, md);
	case 5: {
		struct pcn_cursor c;
		pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
		struct ethhdr *eth = pcn_parse_eth(&c);
		if (!eth)
			return pcn_pkt_drop(ctx, md, PROBE_TOLD_TO);
		swap_macs(eth);
		return pcn_pkt_send(ctx, md, out);
	}
	case 6:
		return pcn_pkt_send(ctx, md, !md->in_port);
	case 8:
		pcn_pkt_copy(ctx, md, PROBE_SLOWPATH_UP);
		return pcn_pkt_send(ctx, md, out);
	}
	return 99;
}

PCN_LICENSE;
