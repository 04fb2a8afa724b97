// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The fast path of port knocking: sources in the map may connect, knocks go to user space, and
 * packets to other ports are not affected. IPv4 addresses are stored as ::ffff:a.b.c.d. */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <pcn/cube.h>

enum portknock_reason {
	/* a segment to the port from a source that has not knocked */
	PORTKNOCK_CLOSED = PCN_REASON_FIRST,
	/* truncated headers, or too many of them to parse */
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
	__u8 byte[16];
};

/* last is 0 until the first segment: the writer of the entry need not know our clock. */
struct client {
	__u64 last;
	__u64 packets;
};

PCN_MAP(clients, BPF_MAP_TYPE_HASH, struct address, struct client, 4096);
/* The ports to knock at. */
PCN_MAP(knocks, BPF_MAP_TYPE_HASH, __u16, __u8, 8);

#define MAX_TAGS 2
#define MAX_EXTENSIONS 6
#define SYN_ACK_RST 0x16
#define SYN 0x02

struct ports {
	__be16 source;
	__be16 dest;
};

struct tcp {
	struct ports ports;
	__be32 seq;
	__be32 ack_seq;
	__u8 offset;
	__u8 flags;
};

struct extension {
	__u8 next;
	__u8 length; /* in units of 8 bytes, without the first 8 */
	__be16 fragment;
	__be32 id;
};

/* The fields that are read from a packet. */
struct flow {
	struct address source;
	__u8 protocol;
	__u8 opens; /* UDP, or a TCP SYN */
	__u16 port;
};

enum found { OTHER, TRANSPORT, UNREADABLE };

/* Moves the cursor past the IPv4 header; only a first fragment has ports. */
PCN_INLINE enum found read_v4(struct pcn_cursor *c, struct flow *f)
{
	struct iphdr *ip = pcn_cursor_take(c, sizeof(*ip));
	__u32 options;

	if (!ip || ip->ihl < 5)
		return UNREADABLE;
	if (ip->frag_off & bpf_htons(0x1fff))
		return OTHER;
	options = (ip->ihl - 5) * 4u & 0x3f;
	f->protocol = ip->protocol;
	__builtin_memset(&f->source, 0, 10);
	f->source.byte[10] = f->source.byte[11] = 0xff;
	__builtin_memcpy(&f->source.byte[12], &ip->saddr, 4);
	if (c->pos + options > c->end)
		return UNREADABLE;
	c->pos += options;
	return TRANSPORT;
}

/* The same for IPv6 with its extension headers. */
PCN_INLINE enum found read_v6(struct pcn_cursor *c, struct flow *f)
{
	struct ipv6hdr *ip = pcn_cursor_take(c, sizeof(*ip));
	__u32 rest;

	if (!ip)
		return UNREADABLE;
	f->protocol = ip->nexthdr;
	__builtin_memcpy(&f->source, &ip->saddr, 16);
#pragma unroll
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		if (f->protocol != IPPROTO_HOPOPTS && f->protocol != IPPROTO_ROUTING &&
		    f->protocol != IPPROTO_DSTOPTS && f->protocol != IPPROTO_FRAGMENT)
			return TRANSPORT;
		struct extension *e = pcn_cursor_take(c, sizeof(*e));

		if (!e)
			return UNREADABLE;
		if (f->protocol == IPPROTO_FRAGMENT && e->fragment & bpf_htons(0xfff8))
			return OTHER;
		rest = f->protocol == IPPROTO_FRAGMENT ? 0 : e->length * 8u & 0x7ff;
		f->protocol = e->next;
		if (c->pos + rest > c->end)
			return UNREADABLE;
		c->pos += rest;
	}
	return UNREADABLE;
}

PCN_INLINE enum found read_ports(struct pcn_cursor *c, struct flow *f)
{
	struct ports *ports;
	struct tcp *tcp;

	if (f->protocol == IPPROTO_TCP) {
		tcp = pcn_cursor_take(c, sizeof(*tcp));
		if (!tcp)
			return UNREADABLE;
		f->port = bpf_ntohs(tcp->ports.dest);
		f->opens = (tcp->flags & SYN_ACK_RST) == SYN;
		return TRANSPORT;
	}
	if (f->protocol != IPPROTO_UDP)
		return OTHER;
	ports = pcn_cursor_take(c, sizeof(*ports));
	if (!ports)
		return UNREADABLE;
	f->port = bpf_ntohs(ports->dest);
	f->opens = 1;
	return TRANSPORT;
}

PCN_INLINE enum found read_packet(struct CTXTYPE *ctx, struct flow *f)
{
	enum found found;
	struct pcn_cursor c;
	__be16 type;

	/* At TC, headers of more than 128 bytes in total are UNREADABLE. */
	pcn_cursor_open(&c, ctx, 128);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return UNREADABLE;
	type = eth->h_proto;
#pragma unroll
	for (int i = 0; i < MAX_TAGS; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		__be16 *tag = pcn_cursor_take(&c, 4);

		if (!tag)
			return UNREADABLE;
		type = tag[1];
	}
	if (type == bpf_htons(ETH_P_IP))
		found = read_v4(&c, f);
	else if (type == bpf_htons(ETH_P_IPV6))
		found = read_v6(&c, f);
	else
		return OTHER;
	return found == TRANSPORT ? read_ports(&c, f) : found;
}

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
	struct flow f = {};

	switch (read_packet(ctx, &f)) {
	case OTHER:
		return pcn_pkt_pass(ctx, md);
	case UNREADABLE:
		return pcn_pkt_drop(ctx, md, PORTKNOCK_UNREADABLE);
	case TRANSPORT:
		break;
	}
	if (f.protocol == IPPROTO_TCP && f.port == port) {
		if (is_open(&f.source))
			return pcn_pkt_pass(ctx, md);
		return pcn_pkt_drop(ctx, md, PORTKNOCK_CLOSED);
	}
	if (f.opens && bpf_map_lookup_elem(&knocks, &f.port)) {
		__u32 words[4];

		__builtin_memcpy(words, &f.source, sizeof(words));
		return pcn_pkt_controller_md(ctx, md, PORTKNOCK_KNOCK, words);
	}
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
