// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Monitors, which a user gives a `dynmon` cube at run time: as C, or compiled. docs/guide/watch-with-a-monitor.md shows how.
 *
 *	struct flow { pcn_address source; __be16 port; };
 *	PCN_MAP(packets, BPF_MAP_TYPE_LRU_PERCPU_HASH, struct flow, __u64, 10240);
 *
 *	PCN_MONITOR
 *	{
 *		... count ...
 *		return pcn_pkt_pass(ctx, md);
 *	}
 *
 * The cube reads the maps by their BTF: types and names of members are what a client sees.
 *
 * Include it yourself. */
#ifndef PCN_MONITOR_H
#define PCN_MONITOR_H

#include <pcn/cube.h>
#include <pcn/hash.h>

/* The path that source code is compiled for: 0 is ingress, 1 is egress. A compiled object serves both, and tells them apart
 * by PCN_INGRESS and PCN_EGRESS instead of PCN_MONITOR. */
#ifndef PCN_MONITOR_PATH
#define PCN_MONITOR_PATH 0
#endif

/* Text for IPv4 and MAC addresses in keys and values, as pcn_address is for addresses of either version. */
typedef __be32 pcn_ipv4;
typedef __u8 pcn_mac_address[6];

/* In front of a map: the monitors of both paths use the same one. Both declare it alike. Without it, each path has a map of
 * its own. */
#define PCN_BOTH_PATHS PCN_MAP_TAG("monitor_both_paths")

/* Internal: written by the cube. */
const volatile struct pcn_hash_seed pcn_monitor_secret = {};

/* Random bits that only the cube knows, for the hashes of sketches: pcn_hash_address(pcn_monitor_seed(), ...). */
PCN_INLINE const struct pcn_hash_seed *pcn_monitor_seed(void)
{
	const struct pcn_hash_seed *seed = (const struct pcn_hash_seed *)&pcn_monitor_secret;

	/* The pointer is not to one that is volatile: the compiler would use the value that it sees, 0. */
	asm volatile("" : "+r"(seed));
	return seed;
}

/* Drops the packet; the cube counts it with the reason `monitor`. */
PCN_INLINE int pcn_monitor_drop(struct CTXTYPE *ctx, struct pcn_md *md)
{
	return pcn_pkt_drop(ctx, md, PCN_REASON_FIRST);
}

/* Internal: what becomes of the packet. A monitor drops packets, or lets them pass: anything else is no business of its. */
PCN_INLINE int pcn_monitor_verdict(struct CTXTYPE *ctx, struct pcn_md *md, int verdict)
{
	return verdict == PCN_DROP ? pcn_monitor_drop(ctx, md) : pcn_pkt_pass(ctx, md);
}

/* The program of a monitor: PCN_MONITOR { ... return pcn_pkt_pass(ctx, md); } Its arguments are ctx and md. */
#define PCN_MONITOR                                                              \
	PCN_INLINE int pcn_monitor_body(struct CTXTYPE *ctx, struct pcn_md *md); \
	PCN_PROGRAM(pcn_monitor)                                                 \
	{                                                                        \
		return pcn_monitor_verdict(ctx, md, pcn_monitor_body(ctx, md));  \
	}                                                                        \
	PCN_INLINE int pcn_monitor_body(struct CTXTYPE *ctx, struct pcn_md *md)

/* The number of buckets of a histogram. */
#define PCN_HISTOGRAM_BUCKETS 32

/* A histogram of powers of two, as the value of a map: bucket i counts the values below 2^i that are in no lower one, the last
 * one all that are left. */
struct pcn_histogram {
	__u64 count[PCN_HISTOGRAM_BUCKETS];
	__u64 sum;
};

/* Internal: the number of bits of a value, 0 for 0; without a branch. */
PCN_INLINE __u32 pcn_bits(__u64 x)
{
	__u32 bits = 0;

#pragma unroll
	for (int shift = 32; shift; shift >>= 1) {
		__u32 more = !!(x >> shift);

		bits += more * shift;
		x >>= more * shift;
	}
	return bits + (__u32)x;
}

/* Adds a value to a histogram, which may be NULL, such as what bpf_map_lookup_elem returns. Several CPUs may. */
PCN_INLINE void pcn_histogram_add(struct pcn_histogram *h, __u64 value)
{
	__u32 bucket = pcn_bits(value);

	if (!h)
		return;
	if (bucket > PCN_HISTOGRAM_BUCKETS - 1)
		bucket = PCN_HISTOGRAM_BUCKETS - 1;
	__sync_fetch_and_add(&h->count[bucket], 1);
	__sync_fetch_and_add(&h->sum, value);
}

#endif
