// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The baselines for a chain of trivial cubes: the same work written by hand as one program, and as
 * one program per step with direct tail calls (constant index, which the JIT turns into jumps). All
 * do the same work at the ends as our driver: look up the port by interface, count the packet in,
 * look up the exit, count it out, redirect. */
#include <pcn/ctx.h>
#include <pcn/map.h>
#include "swap.h"

#define ENTRIES 65536
#define PORTS 1024

struct chain_entry {
	__u16 step;
	__u16 port; /* 0: no port */
};

struct chain_count {
	__u64 rx_packets, rx_bytes, tx_packets, tx_bytes;
};

struct chain_page {
	struct chain_count port[PORTS];
};

PCN_MAP(chain_entries, BPF_MAP_TYPE_ARRAY, __u32, struct chain_entry, ENTRIES);
PCN_MAP(chain_exits, BPF_MAP_TYPE_ARRAY, __u32, __u32, PORTS);
PCN_MAP(chain_pages, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct chain_page, 1);
#ifdef PCN_XDP
PCN_MAP(chain_devices, BPF_MAP_TYPE_DEVMAP, __u32, __u32, PORTS);
#endif

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} chain_steps SEC(".maps");

/* The number of steps in the single program, or the next step: frozen before the program is loaded,
 * so the index of the tail call is a constant. */
const volatile __u32 chain_length = 1;
const volatile __u32 chain_next = 1;
/* Whether a step counts the packet on the way to the next one, as our driver does at a crossing. */
const volatile __u32 chain_counts = 0;

#ifdef PCN_TC
#define DROP 2 /* TC_ACT_SHOT */
#define LEN(ctx) ((ctx)->len)
#define IFINDEX(ctx) ((ctx)->ifindex)
#else
#define DROP XDP_DROP
#define LEN(ctx) ((__u32)((ctx)->data_end - (ctx)->data))
#define IFINDEX(ctx) ((ctx)->ingress_ifindex)
#endif

#define OUT 1 /* the port where the chain ends */

/* Processes ingress: 0, or -1 if the packet came from an interface that has no port. */
PCN_INLINE int enter(struct CTXTYPE *ctx)
{
	__u32 key = IFINDEX(ctx), zero = 0;
	struct chain_entry *e = bpf_map_lookup_elem(&chain_entries, &key);
	struct chain_page *page = bpf_map_lookup_elem(&chain_pages, &zero);

	if (!e || !page || !e->port || e->port >= PORTS)
		return -1;
	page->port[e->port].rx_packets++;
	page->port[e->port].rx_bytes += LEN(ctx);
	return 0;
}

PCN_INLINE int leave(struct CTXTYPE *ctx, __u32 port)
{
	__u32 zero = 0;
	__u32 *ifindex = bpf_map_lookup_elem(&chain_exits, &port);
	struct chain_page *page = bpf_map_lookup_elem(&chain_pages, &zero);

	if (!ifindex || !page || !*ifindex || port >= PORTS)
		return DROP;
	page->port[port].tx_packets++;
	page->port[port].tx_bytes += LEN(ctx);
#ifdef PCN_TC
	return bpf_redirect(*ifindex, 0);
#else
	return bpf_redirect_map(&chain_devices, port, XDP_DROP);
#endif
}

/* Counts the packet on the port that leads to the next step. */
PCN_INLINE void cross(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	struct chain_page *page = bpf_map_lookup_elem(&chain_pages, &zero);

	if (!page || chain_next >= PORTS)
		return;
	page->port[chain_next].tx_packets++;
	page->port[chain_next].tx_bytes += LEN(ctx);
}

/* Prevents the compiler from merging two steps into none. */
#define STEP(ctx)                                          \
	do {                                               \
		asm volatile("" : "+r"(ctx) : : "memory"); \
		if (swap_macs(ctx))                        \
			return DROP;                       \
		asm volatile("" : : : "memory");           \
	} while (0)

SEC(PCN_SECTION) int chain_empty(struct CTXTYPE *ctx)
{
	(void)ctx;
	return DROP;
}

/* Only the ends. */
SEC(PCN_SECTION) int chain_ends(struct CTXTYPE *ctx)
{
	if (enter(ctx))
		return DROP;
	return leave(ctx, OUT);
}

SEC(PCN_SECTION) int chain_single(struct CTXTYPE *ctx)
{
	int length = chain_length; /* read once: the verifier decides branches that depend on it */

	if (enter(ctx))
		return DROP;
#pragma unroll
	for (int i = 0; i < 100; i++) {
		if (i < length)
			STEP(ctx);
	}
	return leave(ctx, OUT);
}

SEC(PCN_SECTION) int chain_first(struct CTXTYPE *ctx)
{
	if (enter(ctx))
		return DROP;
	STEP(ctx);
	if (chain_counts)
		cross(ctx);
	bpf_tail_call(ctx, &chain_steps, chain_next);
	return DROP;
}

SEC(PCN_SECTION) int chain_middle(struct CTXTYPE *ctx)
{
	STEP(ctx);
	if (chain_counts)
		cross(ctx);
	bpf_tail_call(ctx, &chain_steps, chain_next);
	return DROP;
}

SEC(PCN_SECTION) int chain_last(struct CTXTYPE *ctx)
{
	STEP(ctx);
	return leave(ctx, OUT);
}

char _license[] SEC("license") = "Dual BSD/GPL";
