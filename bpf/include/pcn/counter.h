// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Per-CPU counters of a cube. The control plane reads them by name: package counter. */
#ifndef PCN_COUNTER_H
#define PCN_COUNTER_H

#include <pcn/map.h>

/* PCN_COUNTERS(counters, nat_counter, NAT_COUNTERS); declares a map with a counter for each value
 * of an enum. The values begin with the name of the service in capitals; the last one is the number
 * of counters.
 *
 *	enum nat_counter {
 *		NAT_EXHAUSTED,	// in Go, and in the model: exhausted
 *		NAT_TABLE_FULL, // table-full
 *		NAT_COUNTERS,
 *	}; */
#define PCN_COUNTERS(name, counter, number) \
	PCN_MAP(name, BPF_MAP_TYPE_PERCPU_ARRAY, enum counter, __u64, number)

/* Adds one to a counter of PCN_COUNTERS: pcn_count(&counters, NAT_EXHAUSTED). */
PCN_INLINE void pcn_count(void *counters, __u32 which)
{
	__u64 *n = bpf_map_lookup_elem(counters, &which);

	if (n)
		++*n;
}

/* A number of packets and of their bytes: the value of a map of type BPF_MAP_TYPE_PERCPU_ARRAY or
 * BPF_MAP_TYPE_PERCPU_HASH. In Go, inet.Count. */
struct pcn_count {
	__u64 packets;
	__u64 bytes;
};

/* Adds a number of packets of `bytes` bytes together, such as those of a superframe, to an entry of a
 * map of struct pcn_count, if the entry exists. */
PCN_INLINE void pcn_count_packets(void *counters, const void *key, __u32 packets, __u32 bytes)
{
	struct pcn_count *n = bpf_map_lookup_elem(counters, key);

	if (!n)
		return;
	n->packets += packets;
	n->bytes += bytes;
}

/* Adds a packet of `bytes` bytes to an entry of a map of struct pcn_count, if the entry exists. */
PCN_INLINE void pcn_count_packet(void *counters, const void *key, __u32 bytes)
{
	pcn_count_packets(counters, key, 1, bytes);
}

#endif
