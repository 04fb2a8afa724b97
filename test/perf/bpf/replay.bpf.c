// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Times a program on many packets. The kernel repeats a program on the result of the last run; this
 * harness writes the next frame of a table and tail-calls the program under test. Its own cost,
 * measured with a program that does nothing, is subtracted. */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <pcn/ctx.h>
#include <pcn/map.h>
#include "datagrams.h"

#define FRAMES 16384
#define SIZE 60

struct frame {
	__u64 words[SIZE / 8];
	__u32 rest;
	__u32 pad;
};
PCN_MAP(frames, BPF_MAP_TYPE_ARRAY, __u32, struct frame, FRAMES);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} replay_program SEC(".maps");

__u32 replay_frames = 1; /* number of entries of the table in use */
__u32 replay_next = 0;

SEC(PCN_SECTION) int replay(struct CTXTYPE *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__u32 place = replay_next < replay_frames ? replay_next : 0;
	struct frame *f = bpf_map_lookup_elem(&frames, &place);

	if (!f || data + SIZE > end)
		return 0;
	__u64 *to = data;
	for (int i = 0; i < SIZE / 8; i++)
		to[i] = f->words[i];
	*(__u32 *)(to + SIZE / 8) = f->rest;
	replay_next = place + 1;
	bpf_tail_call(ctx, &replay_program, 0);
	return 0;
}

/* The same for datagrams of many flows, which need no table that drives the program's maps out of the processor's caches. */
SEC(PCN_SECTION) int replay_datagrams(struct CTXTYPE *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__u32 zero = 0, i = replay_next < gen_flows ? replay_next : 0;
	struct frame *f = bpf_map_lookup_elem(&frames, &zero);

	if (!f || data + SIZE > end)
		return 0;
	__u64 *to = data;
	for (int j = 0; j < SIZE / 8; j++)
		to[j] = f->words[j];
	*(__u32 *)(to + SIZE / 8) = f->rest;
	write_datagram(data + sizeof(struct ethhdr), i);
	replay_next = i + 1;
	bpf_tail_call(ctx, &replay_program, 0);
	return 0;
}

SEC(PCN_SECTION) int nothing(struct CTXTYPE *ctx)
{
	(void)ctx;
	return 1;
}

/* The unit: a lookup in an empty hash map of the kernel, by what identifies a flow. */
struct flow_key {
	__u32 src, dst, ports, protocol;
};
PCN_MAP(empty, BPF_MAP_TYPE_HASH, struct flow_key, __u64, 1024);

SEC(PCN_SECTION) int lookup(struct CTXTYPE *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	struct iphdr *ip = data + sizeof(struct ethhdr);

	if ((void *)(ip + 1) + 4 > end)
		return 0;
	struct flow_key key = { ip->saddr, ip->daddr, *(__u32 *)(ip + 1), ip->protocol };

	return bpf_map_lookup_elem(&empty, &key) ? 0 : 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
