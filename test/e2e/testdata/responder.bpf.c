// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests whose ports have addresses: packets for a port's MAC address or for a group go
 * to the cube's namespace, the others to the other one of ports 0 and 1. */
#include <pcn/cube.h>

PCN_MAP(macs, BPF_MAP_TYPE_ARRAY, __u32, __u64, 512);

PCN_INGRESS
{
	struct pcn_cursor c;
	__u32 key = md->in_port;
	__u64 *mac = bpf_map_lookup_elem(&macs, &key);

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, PCN_REASON_MALFORMED);
	if (SHADOW && (pcn_mac_is_group(eth->h_dest) || (mac && pcn_mac(eth->h_dest) == *mac)))
		return pcn_pkt_redirect_ns(ctx, md, md->in_port);
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_LICENSE;
