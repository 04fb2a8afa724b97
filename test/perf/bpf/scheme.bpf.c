// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* How the first Polycube connected cubes, reimplemented from its paper ("A Framework for eBPF-Based
 * Network Functions in an Era of Microservices", section V): every cube is a program. Code before
 * the cube's own copies the packet's metadata from a per-CPU map; code after it looks up the next
 * port in the cube's forward chain, copies the metadata back and tail-calls through the program
 * array of all cubes, the patch panel, with the index that it found. A program at each netdev is
 * the entry and the exit. */
#include <pcn/ctx.h>
#include <pcn/map.h>
#include "swap.h"

#define MODULES 128
#define PORTS 2
#define OUT 1 /* the port where a trivial cube sends packets */

struct scheme_md {
	__u16 module;
	__u16 port;
	__u32 packet_len;
	__u32 traffic_class;
	__u16 reason;
	__u16 reserved;
	__u32 md[3];
};

struct scheme_next {
	__u16 module; /* 0: no peer */
	__u16 port;
};

PCN_MAP(scheme_metadata, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct scheme_md, 1);
/* One per cube: the module and port connected to a port. */
PCN_MAP(scheme_forward, BPF_MAP_TYPE_ARRAY, __u32, struct scheme_next, PORTS);
#ifdef PCN_XDP
PCN_MAP(scheme_devices, BPF_MAP_TYPE_DEVMAP, __u32, __u32, 1);
#endif

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MODULES);
	__type(key, __u32);
	__type(value, __u32);
} scheme_panel SEC(".maps");

/* Known when a program is loaded: where a netdev's packets go, and where they leave. */
const volatile __u32 scheme_module = 1;
const volatile __u32 scheme_port = 0;
const volatile __u32 scheme_ifindex = 0;

#ifdef PCN_TC
#define DROP 2 /* TC_ACT_SHOT */
#define LEN(ctx) ((ctx)->len)
#else
#define DROP XDP_DROP
#define LEN(ctx) ((__u32)((ctx)->data_end - (ctx)->data))
#endif

/* At a netdev: its packets enter at one port of one cube. */
SEC(PCN_SECTION) int scheme_input(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	struct scheme_md *shared = bpf_map_lookup_elem(&scheme_metadata, &zero);

	if (!shared)
		return DROP;
	shared->module = scheme_module;
	shared->port = scheme_port;
	shared->packet_len = LEN(ctx);
	shared->traffic_class = 0;
	bpf_tail_call(ctx, &scheme_panel, scheme_module);
	return DROP;
}

/* A trivial cube with the code around it. */
SEC(PCN_SECTION) int scheme_cube(struct CTXTYPE *ctx)
{
	__u32 zero = 0, port = OUT;
	struct scheme_md *shared = bpf_map_lookup_elem(&scheme_metadata, &zero);
	struct scheme_next *next;
	struct scheme_md md;

	if (!shared)
		return DROP;
	md = *shared;
	if (swap_macs(ctx))
		return DROP;
	next = bpf_map_lookup_elem(&scheme_forward, &port);
	if (!next || !next->module)
		return DROP;
	md.module = next->module;
	md.port = next->port;
	*shared = md;
	bpf_tail_call(ctx, &scheme_panel, next->module);
	return DROP;
}

/* At a netdev: packets that leave. */
SEC(PCN_SECTION) int scheme_output(struct CTXTYPE *ctx)
{
	(void)ctx;
#ifdef PCN_TC
	return bpf_redirect(scheme_ifindex, 0);
#else
	return bpf_redirect_map(&scheme_devices, 0, XDP_DROP);
#endif
}

char _license[] SEC("license") = "Dual BSD/GPL";
