// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The fast path of port knocking: sources in the map may connect, knocks go to user space, and
 * packets to other ports are not affected. */
#include <pcn/cube.h>
#include <pcn/flow.h>

enum portknock_reason {
	/* a segment to the port from a source that has not knocked */
	PORTKNOCK_CLOSED = PCN_REASON_FIRST,
	/* truncated or malformed headers, or too many of them to parse */
	PORTKNOCK_UNREADABLE,
};
PCN_REASONS(portknock_reason);

enum portknock_slowpath_reason {
	PORTKNOCK_KNOCK = PCN_REASON_FIRST,
};
PCN_SLOWPATH_REASONS(portknock_slowpath_reason);

/* The model's leaves; idle_timeout is in nanoseconds. */
PCN_CONFIG(__u16, port) = 22;
PCN_CONFIG(__u64, idle_timeout) = 60000000000ull;

struct address {
	pcn_address words;
};

/* last is 0 until the first segment: the writer of the entry need not know our clock. */
struct client {
	__u64 last;
	__u64 packets;
};

PCN_MAP(clients, BPF_MAP_TYPE_HASH, struct address, struct client, 4096);
/* The ports to knock at. */
PCN_MAP(knocks, BPF_MAP_TYPE_HASH, __u16, __u8, 8);

#define SYN_ACK_RST 0x16
#define SYN 0x02

/* Whether the port is open to a source, whose entry is then marked as used. */
PCN_INLINE int is_open(const struct address *source)
{
	struct client *client = bpf_map_lookup_elem(&clients, source);
	__u64 now = pcn_time();

	if (!client || (client->last && (__s64)(now - client->last) > (__s64)idle_timeout))
		return 0;
	client->last = now;
	__sync_fetch_and_add(&client->packets, 1);
	return 1;
}

PCN_INGRESS
{
	struct pcn_flow f = {};
	struct address source;
	__u16 to;

	if (pcn_flow_read(ctx, &f))
		return pcn_pkt_drop(ctx, md, PORTKNOCK_UNREADABLE);
	/* The host might read what the reader cannot. */
	if (!(f.has & PCN_FLOW_L4) &&
	    (f.ethertype == bpf_htons(ETH_P_IP) || f.ethertype == bpf_htons(ETH_P_IPV6)))
		return pcn_pkt_drop(ctx, md, PORTKNOCK_UNREADABLE);
	if (f.fragment == PCN_FRAGMENT_LATER ||
	    (f.protocol != IPPROTO_TCP && f.protocol != IPPROTO_UDP))
		return pcn_pkt_pass(ctx, md);
	/* A TCP header that is cut off has ports, but no flags. */
	if (!(f.has & (f.protocol == IPPROTO_TCP ? PCN_FLOW_TCP : PCN_FLOW_PORTS)))
		return pcn_pkt_drop(ctx, md, PORTKNOCK_UNREADABLE);
	to = bpf_ntohs(f.destination_port);
	pcn_address_copy(source.words, f.source);
	if (f.protocol == IPPROTO_TCP && to == port) {
		if (is_open(&source))
			return pcn_pkt_pass(ctx, md);
		return pcn_pkt_drop(ctx, md, PORTKNOCK_CLOSED);
	}
	if ((f.protocol == IPPROTO_UDP || (f.tcp_flags & SYN_ACK_RST) == SYN) &&
	    bpf_map_lookup_elem(&knocks, &to))
		return pcn_pkt_controller_md(ctx, md, PORTKNOCK_KNOCK, source.words);
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
