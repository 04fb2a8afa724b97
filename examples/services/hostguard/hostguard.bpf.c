// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The first packets with data of each TCP connection go to the ring; the process decides on the
 * connection, and its decision is an entry that later packets find. */
#include <pcn/cube.h>
#include <pcn/flow.h>
#include <pcn/ring.h>

enum hostguard_reason {
	/* the host name of its connection is blocked */
	HOSTGUARD_BLOCKED = PCN_REASON_FIRST,
};
PCN_REASONS(hostguard_reason);

/* The model's first-packets. */
PCN_CONFIG(__u32, first_packets) = 8;

/* Bytes of a packet that are copied: a TLS ClientHello usually fits into one or two packets. */
#define SNAP 2048

#define TCP_SYN 0x02
#define TCP_ACK 0x10

PCN_RING(copies, 1 << 21);

/* The ends of a connection, the smaller one first: both directions have the same key. */
struct connection {
	pcn_address low;
	pcn_address high;
	__be16 low_port;
	__be16 high_port;
	__u16 vlan;
	__u8 protocol;
	__u8 zero;
};

enum hostguard_verdict {
	VERDICT_NONE = 0,
	VERDICT_PASS = 1,
	VERDICT_BLOCK = 2,
};

struct decision {
	__u32 copied; /* packets */
	__u16 verdict;
	__u16 client_is_low; /* which end opened the connection */
};

PCN_MAP(connections, BPF_MAP_TYPE_LRU_HASH, struct connection, struct decision, 65536);

/* 1 if the source is the smaller end. */
PCN_INLINE int source_is_low(const struct pcn_flow *f)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		if (f->source[i] != f->destination[i])
			return f->source[i] < f->destination[i];
	return f->source_port < f->destination_port;
}

PCN_INLINE void key_of(const struct pcn_flow *f, int low, struct connection *c)
{
	pcn_address_copy(c->low, low ? f->source : f->destination);
	pcn_address_copy(c->high, low ? f->destination : f->source);
	c->low_port = low ? f->source_port : f->destination_port;
	c->high_port = low ? f->destination_port : f->source_port;
	c->vlan = f->vlan;
	c->protocol = f->protocol;
	c->zero = 0;
}

/* True if the packet has data after the header of TCP. What follows the IP packet is padding. */
PCN_INLINE int has_data(struct CTXTYPE *ctx, const struct pcn_flow *f)
{
	int ipv6 = f->has & PCN_FLOW_IPV6;
	__be16 length;
	__u8 offset;

	if (pcn_load_bytes(ctx, f->l3 + (ipv6 ? 4 : 2), &length, 2) ||
	    pcn_load_bytes(ctx, f->l4 + 12, &offset, 1))
		return 0;
	__u32 end = f->l3 + bpf_ntohs(length) + (ipv6 ? 40 : 0);
	if (!length) /* a superframe of more than 64 KB */
		end = pcn_frame_len(ctx);
	return end > f->l4 + (__u32)(offset >> 4) * 4;
}

PCN_INLINE int guard(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct pcn_flow flow = {};
	struct connection key;
	struct decision *d;
	int low;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_TCP))
		return pcn_pkt_pass(ctx, md);
	low = source_is_low(&flow);
	key_of(&flow, low, &key);
	if ((flow.tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN) {
		/* A connection, perhaps with the ports of an old one. */
		struct decision first = { .client_is_low = low };

		bpf_map_update_elem(&connections, &key, &first, BPF_ANY);
	}
	d = bpf_map_lookup_elem(&connections, &key);
	if (!d)
		return pcn_pkt_pass(ctx, md); /* older than this cube, or evicted */
	if (d->verdict == VERDICT_BLOCK)
		return pcn_pkt_drop(ctx, md, HOSTGUARD_BLOCKED);
	if (d->verdict == VERDICT_NONE && d->client_is_low == low && d->copied < first_packets &&
	    has_data(ctx, &flow)) {
		__sync_fetch_and_add(&d->copied, 1);
		pcn_ring_packet(copies, ctx, md, SNAP, 0);
	}
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return guard(ctx, md);
}

PCN_EGRESS
{
	return guard(ctx, md);
}

PCN_LICENSE;
