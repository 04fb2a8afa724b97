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

struct frame {
	__u64 words[SIZE / 8];
	__u32 rest;
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

const volatile __u32 gen_ifindex = 0;
__u32 gen_frames = 1; /* number of entries of the table in use */

PCN_MAP(sent, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct traffic_state, 1);
PCN_MAP(frames, BPF_MAP_TYPE_ARRAY, __u32, struct frame, FRAMES);

SEC("xdp") int generator(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&sent, &zero);

	if (!st || data + SIZE > end)
		return XDP_ABORTED;
	__u32 place = st->next < gen_frames ? st->next : 0;
	struct frame *f = bpf_map_lookup_elem(&frames, &place);

	if (!f)
		return XDP_ABORTED;
	__u64 *to = data;
	for (int i = 0; i < SIZE / 8; i++)
		to[i] = f->words[i];
	*(__u32 *)(to + SIZE / 8) = f->rest;
	st->next = place + 1;
	st->packets++;
	return bpf_redirect(gen_ifindex, 0);
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
