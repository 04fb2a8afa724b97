// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Packets and bytes of connections, in each direction, for cubes that call pcn_conntrack_account. The counts are in an array
 * by the number of the entry, and by the ticket of half-open connections. The control plane makes it once a cube wants
 * counts (table.Counters), and sets counts to zero before their entry is used again.
 *
 * As with nf_conntrack_acct of Linux, a packet counts with its bytes from the IP header on, and a superframe is one
 * packet. Unlike there, each fragment is a packet.
 *
 *	int class = pcn_conntrack_track(ctx, w, zone, 0);
 *	if (accounting && class == PCN_CT_ESTABLISHED)
 *		pcn_conntrack_account(ctx, w);
 *	...
 *	if (pcn_conntrack_accept(w) < 0)
 *		return pcn_pkt_drop(ctx, md, X_NO_ENTRY);
 *	if (accounting && class == PCN_CT_NEW)
 *		pcn_conntrack_account(ctx, w); */
#ifndef PCN_CONNTRACK_ACCOUNT_H
#define PCN_CONNTRACK_ACCOUNT_H

#include <pcn/conntrack_packet.h>

/* Internal: the counts of a connection, by the side that sent the packets. */
struct pcn_conntrack_count {
	__u64 packets[2];
	__u64 bytes[2];
};

typedef struct pcn_conntrack_count pcn_conntrack_count_element[1];

/* Internal: the last part is for half-open connections. */
PCN_MAP_OF_MAPS_SHARED(conntrack, ct_counts, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32,
		       PCN_CONNTRACK_PARTS + 1, BPF_MAP_TYPE_ARRAY, __u32,
		       pcn_conntrack_count_element, PCN_CONNTRACK_PART, BPF_F_MMAPABLE);

/* Internal: the counts of an element of a part, NULL if nothing is counted. */
PCN_INLINE struct pcn_conntrack_count *pcn_ct_counts(__u32 part, __u32 at)
{
	void *array = bpf_map_lookup_elem(&ct_counts, &part);

	return array ? bpf_map_lookup_elem(array, &at) : NULL;
}

/* Internal: the counts of a connection: of a number in the large table or, for 0, of a ticket. */
PCN_INLINE struct pcn_conntrack_count *pcn_ct_counts_of(__u32 number, __u32 ticket)
{
	__u32 at =
		number ? number & (PCN_CONNTRACK_PART - 1) : ticket & (PCN_CONNTRACK_EMBRYOS - 1);

	return pcn_ct_counts(number ? number / PCN_CONNTRACK_PART : PCN_CONNTRACK_PARTS, at);
}

/* Internal: moves the counts of a half-open connection to its entry in the large table. Whoever comes first takes them. */
PCN_INLINE void pcn_ct_count_moved(struct pcn_conntrack_count *to, __u32 ticket)
{
	struct pcn_conntrack_count *from = pcn_ct_counts_of(0, ticket);

	if (!from)
		return;
#pragma unroll
	for (int side = 0; side < 2; side++) {
		__sync_fetch_and_add(&to->packets[side],
				     __sync_lock_test_and_set(&from->packets[side], 0));
		__sync_fetch_and_add(&to->bytes[side],
				     __sync_lock_test_and_set(&from->bytes[side], 0));
	}
}

/* Internal: a packet of IP that Ethernet may have padded. */
#define PCN_CT_PADDED 46

/* Internal: the bytes of a packet from its IP header on, without padding. */
PCN_INLINE __u32 pcn_ct_length(struct CTXTYPE *ctx, const struct pcn_flow *f)
{
	__u32 ipv6 = f->has & PCN_FLOW_IPV6, l3 = f->l3, length = pcn_frame_len(ctx) - l3, whole;
	__be16 says;

	if (length > PCN_CT_PADDED || pcn_load_bytes(ctx, l3 + (ipv6 ? 4 : 2), &says, sizeof(says)))
		return length;
	whole = bpf_ntohs(says) + (ipv6 ? sizeof(struct ipv6hdr) : 0);
	return whole < length ? whole : length;
}

/* Counts a packet for its connection: call it after pcn_conntrack_track if the packet is ESTABLISHED, and after
 * pcn_conntrack_accept if it is NEW. Returns 0. */
PCN_GLOBAL int pcn_conntrack_account(struct CTXTYPE *ctx, struct pcn_conntrack_work *w PCN_NONNULL)
{
	__u32 change = w->change & PCN_EMBRYO_STATUS, side = w->side & 1;
	__u32 ticket = (change == PCN_EMBRYO_WRITTEN ? w->change : w->embryo) >> 8;
	__u32 number = w->number, length;
	struct pcn_conntrack_count *c;

	if (w->class != PCN_CT_ESTABLISHED && w->class != PCN_CT_NEW)
		return 0;
	length = pcn_ct_length(ctx, &w->flow);
	c = pcn_ct_counts_of(number, ticket);
	if (!c)
		return 0;
	if (change == PCN_EMBRYO_WRITTEN || (number && w->class == PCN_CT_NEW))
		__builtin_memset(c, 0, sizeof(*c));
	if (change == PCN_EMBRYO_OPEN && number)
		pcn_ct_count_moved(c, w->change >> 8);
	__sync_fetch_and_add(&c->packets[side], 1);
	__sync_fetch_and_add(&c->bytes[side], length);
	return 0;
}

#endif
