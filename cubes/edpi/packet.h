// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reads a packet, and finds out which flow it belongs to. */
#ifndef EDPI_PACKET_H
#define EDPI_PACKET_H

#include "edpi.h"

PCN_MAP(fragments, BPF_MAP_TYPE_LRU_HASH, struct pcn_fragment_key, struct edpi_first,
	EDPI_FRAGMENTS);

/* A packet on its way through this cube. */
struct edpi_packet {
	struct edpi_key key;
	__u64 now; /* coarse */
	__u32 bytes;
	__u32 packets;
	__u8 reverse;
	__u8 tcp_flags;
	__u8 payload;  /* it has one, or is not of TCP */
	__u8 fragment; /* enum pcn_fragment */
	__u8 zero[4];
	/* Of fragments; not cleared for each packet. */
	struct pcn_fragment_key datagram;
	struct edpi_first first;
	__s32 offset; /* of a later fragment */
	__u32 zero2;
};
/* In a map: Linux 6.1 counts the stack of all functions together, and reading the packet needs much of it. */
PCN_DISPOSABLE PCN_MAP(work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct edpi_packet, 1);

/* The order of the ends: any order will do that is the same for both directions. */
PCN_INLINE int edpi_is_reverse(const struct pcn_flow *f)
{
	const __u64 *a = (const void *)f->source, *b = (const void *)f->destination;

	if (a[0] != b[0])
		return a[0] > b[0];
	if (a[1] != b[1])
		return a[1] > b[1];
	return f->source_port > f->destination_port;
}

PCN_INLINE void edpi_key_of(struct edpi_packet *p, const struct pcn_flow *f)
{
	p->reverse = edpi_is_reverse(f);
	pcn_address_copy(p->key.low, p->reverse ? f->destination : f->source);
	pcn_address_copy(p->key.high, p->reverse ? f->source : f->destination);
	p->key.low_port = p->reverse ? f->destination_port : f->source_port;
	p->key.high_port = p->reverse ? f->source_port : f->destination_port;
	p->key.protocol = f->protocol;
}

/* True if a packet of TCP has payload, by the length in its IP header: a short frame is padded. */
PCN_INLINE int edpi_has_payload(struct CTXTYPE *ctx, const struct pcn_flow *f)
{
	__u32 v6 = f->has & PCN_FLOW_IPV6, end = f->l3 + (v6 ? 40 : 0);
	__be16 length = 0;
	__u8 offset = 0;

	if (!(f->has & PCN_FLOW_TCP))
		return 1;
	if (pcn_load_bytes(ctx, f->l3 + (v6 ? 4 : 2), &length, sizeof(length)) ||
	    pcn_load_bytes(ctx, f->l4 + 12, &offset, sizeof(offset)))
		return 0;
	if (!length)
		return 1; /* a superframe longer than its header can say */
	end += bpf_ntohs(length);
	return end > f->l4 + (offset >> 4) * 4u;
}

/* Reads a packet. 0, or -1 if it is none of IP. */
PCN_GLOBAL int edpi_read(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			 struct edpi_packet *p PCN_NONNULL)
{
	struct pcn_flow f = {};
	struct pcn_wire wire = { .bytes = md->packet_len, .packets = 1 };
	int ip;

	p->now = pcn_time_coarse();
	ip = !pcn_flow_read(ctx, &f) && f.has & PCN_FLOW_IP;
	if (ip)
		wire = pcn_on_the_wire(ctx, md, &f);
	p->bytes = wire.bytes;
	p->packets = wire.packets;
	if (!ip)
		return -1;
	edpi_key_of(p, &f);
	p->tcp_flags = f.has & PCN_FLOW_TCP ? f.tcp_flags : 0;
	p->payload = edpi_has_payload(ctx, &f);
	p->fragment = f.fragment;
	if (!f.fragment)
		return 0;
	pcn_fragment_key_of(&p->datagram, &f, 0);
	if (p->datagram.ipv6)
		p->datagram.protocol = 0;
	if (f.fragment == PCN_FRAGMENT_LATER)
		p->offset = pcn_fragment_offset(ctx, &f);
	return 0;
}

/* A fragment: the first one leaves its flow for the others. -1 for one of these if the first one was not seen, or if it would
 * overwrite what that has shown. */
PCN_INLINE int edpi_fragment(struct edpi_packet *p)
{
	struct edpi_first *first;

	if (p->fragment == PCN_FRAGMENT_FIRST) {
		p->first.key = p->key;
		p->first.seen = p->now;
		p->first.reverse = p->reverse;
		bpf_map_update_elem(&fragments, &p->datagram, &p->first, BPF_ANY);
		return 0;
	}
	first = bpf_map_lookup_elem(&fragments, &p->datagram);
	if (!first || pcn_aged(p->now, first->seen, PCN_FRAGMENT_NS) || p->offset < 0 ||
	    pcn_fragment_overlaps(first->key.protocol, p->offset))
		return -1;
	p->key = first->key;
	p->reverse = first->reverse;
	p->payload = 0; /* nDPI reassembles nothing */
	return 0;
}

#endif
