// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Generator and sink for programs that match any header: frames come unchanged from a table, one
 * after the other. A frame that should not be forwarded says so in its addresses, and the sink
 * counts it as wrong. */
#include "frame.h"
#include <pcn/map.h>

#ifdef PCN_XDP
#define FRAMES 1024
#define SIZE 60

struct traffic_state {
	__u64 packets;
	__u64 wrong; /* at the sink: frames that should not arrive */
	__u32 next;  /* index of the next frame */
	__u32 pad;
};

PCN_MAP(received, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct traffic_state, 1);

/* Counts frames that came from the left; with all, including those that should not arrive. */
PCN_INLINE int counted(struct xdp_md *ctx, int all)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&received, &zero);
	__u16 *w = data;

	if (!st || data + sizeof(struct ethhdr) > end || w[3] != (__u16)STATION(LEFT) ||
	    w[4] != STATION(LEFT) >> 16)
		return XDP_PASS; /* the kernel's own frames */
	if (all || is_ours(w, LEFT))
		st->packets++;
	else
		st->wrong++;
	return XDP_DROP;
}

SEC("xdp") int sink(struct xdp_md *ctx)
{
	return counted(ctx, 0);
}

/* If everything is dropped, nothing is wrong. */
SEC("xdp") int discard(struct xdp_md *ctx)
{
	return counted(ctx, 1);
}

#include "generator.h"
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
