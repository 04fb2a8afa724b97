// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Packets and bytes of connections, in each direction, if the cube sets the constant `conntrack_counts`. The counts are
 * in an array by the number of the entry, and by the ticket of half-open connections; the control plane makes it once a
 * cube wants counts (table.Counters), and sets counts to zero before their entry is used again. Included by
 * <pcn/conntrack_packet.h>.
 *
 * As with nf_conntrack_acct of Linux, a packet counts with its bytes from the IP header on, before the rules judge it,
 * and a superframe is one packet. Unlike there, each fragment is a packet. */
#ifndef PCN_CONNTRACK_COUNT_H
#define PCN_CONNTRACK_COUNT_H

#include <pcn/config.h>
#include <pcn/conntrack.h>

/* Whether packets of connections are counted. */
PCN_CONFIG(bool, conntrack_counts) = false;

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

/* Internal: counts a packet of a side for its connection. */
PCN_GLOBAL int pcn_ct_count(__u32 number, __u32 ticket, __u32 side, __u32 length)
{
	struct pcn_conntrack_count *c = pcn_ct_counts_of(number, ticket);

	if (!c)
		return 0;
	__sync_fetch_and_add(&c->packets[side & 1], 1);
	__sync_fetch_and_add(&c->bytes[side & 1], length);
	return 0;
}

/* Internal: the same for the packet that opens it. */
PCN_GLOBAL int pcn_ct_count_first(__u32 number, __u32 ticket, __u32 side, __u32 length)
{
	struct pcn_conntrack_count *c = pcn_ct_counts_of(number, ticket);

	if (!c)
		return 0;
	__builtin_memset(c, 0, sizeof(*c));
	c->packets[side & 1] = 1;
	c->bytes[side & 1] = length;
	return 0;
}

/* Internal: adds the counts of a half-open connection to those of its entry in the large table. */
PCN_GLOBAL int pcn_ct_count_moved(__u32 number, __u32 ticket)
{
	struct pcn_conntrack_count *from = pcn_ct_counts_of(0, ticket);
	struct pcn_conntrack_count *to = pcn_ct_counts_of(number, 0);

	if (!from || !to)
		return 0;
#pragma unroll
	for (int side = 0; side < 2; side++) {
		__sync_fetch_and_add(&to->packets[side], from->packets[side]);
		__sync_fetch_and_add(&to->bytes[side], from->bytes[side]);
	}
	return 0;
}

#endif
