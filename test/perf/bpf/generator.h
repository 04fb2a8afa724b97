// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A program that sends frames of a table, one after the other. The including file defines SIZE, the bytes of a frame, FRAMES,
 * the size of the table, and struct traffic_state with `next` and `packets`. */
#ifndef PERF_GENERATOR_H
#define PERF_GENERATOR_H

struct frame {
	__u64 words[SIZE / 8];
	__u32 rest;
	__u32 pad;
};

const volatile __u32 gen_ifindex = 0;
__u32 gen_frames = 1; /* number of entries of the table in use */

PCN_MAP(sent, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct traffic_state, 1);
PCN_MAP(frames, BPF_MAP_TYPE_ARRAY, __u32, struct frame, FRAMES);

/* Writes a frame of the table; there must be room for it. */
PCN_INLINE void write_frame(void *data, const struct frame *f)
{
	__u64 *to = data;

	for (int i = 0; i < SIZE / 8; i++)
		to[i] = f->words[i];
	*(__u32 *)(to + SIZE / 8) = f->rest;
}

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
	write_frame(data, f);
	st->next = place + 1;
	st->packets++;
	return bpf_redirect(gen_ifindex, 0);
}

#endif
