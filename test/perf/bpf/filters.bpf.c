// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Generator and sink for filters between two networks. Frames come unchanged from a table, or are
 * TCP segments of many connections whose headers are written here; the sink counts all of IPv4 that
 * arrives. */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <pcn/ctx.h>
#include <pcn/map.h>
#include "datagrams.h"

#ifdef PCN_XDP
#define FRAMES 16384
#define SIZE 60

struct traffic_state {
	__u64 packets;
	__u32 next; /* number of the next frame or flow */
	__u32 random;
};

#include "generator.h"

PCN_MAP(received, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct traffic_state, 1);

/* The last frames that arrived, while sink_keep says so. */
#define KEPT 256
PCN_MAP(kept, BPF_MAP_TYPE_ARRAY, __u32, struct frame, KEPT);
__u32 sink_keep = 0;

PCN_INLINE void keep(void *data, void *end, __u32 place)
{
	struct frame *f = bpf_map_lookup_elem(&kept, &place);
	__u64 *from = data;

	if (!f || data + SIZE > end)
		return;
	for (int i = 0; i < SIZE / 8; i++)
		f->words[i] = from[i];
	f->rest = *(__u32 *)(from + SIZE / 8);
}

SEC("xdp") int sink(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	struct ethhdr *eth = data;
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&received, &zero);

	if (!st || (void *)(eth + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS; /* the kernel's own frames */
	if (sink_keep)
		keep(data, end, st->packets % KEPT);
	st->packets++;
	return XDP_DROP;
}

/* The same at TC, behind what sockets of AF_PACKET see. */
SEC("tc") int sink_tc(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&received, &zero);

	if (!st || skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_UNSPEC;
	st->packets++;
	return TC_ACT_SHOT;
}

__u32 discard_first = 0; /* a network, in network order */
__u32 discard_mask = 0;

/* The least that a filter of sources can cost: it drops those of one network. */
SEC("xdp") int discard(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) ||
	    (ip->saddr & discard_mask) != discard_first)
		return XDP_PASS;
	return XDP_DROP;
}

/* Connections: flow i has one of the clients' addresses, of which each uses PORTS ports. What is the
 * same in all segments comes from frame 0, whose addresses of the client and checksums are 0. */
__u32 gen_random = 0; /* whether flows come in random order */
__u32 gen_back = 0;   /* whether the segments are the servers' */

PCN_INLINE __u32 next_flow(struct traffic_state *st)
{
	if (gen_random) {
		st->random = st->random * 1664525 + 1013904223;
		return (__u64)st->random * gen_flows >> 32;
	}
	__u32 i = st->next < gen_flows ? st->next : 0;

	st->next = i + 1;
	return i;
}

SEC("xdp") int segments(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct tcphdr *tcp = (void *)(ip + 1);
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&sent, &zero);
	struct frame *f = bpf_map_lookup_elem(&frames, &zero);

	if (!st || !f || data + SIZE > end)
		return XDP_ABORTED;
	write_frame(data, f);

	__u32 i = next_flow(st), client = bpf_htonl(gen_first + i / PORTS);
	__u32 both = halves(client);
	__u16 port = bpf_htons(FIRST_PORT + i % PORTS);

	if (gen_back) {
		ip->daddr = client;
		tcp->dest = port;
	} else {
		ip->saddr = client;
		tcp->source = port;
	}
	ip->check = folded(gen_ip_sum + both);
	tcp->check = folded(gen_l4_sum + both + port);
	st->packets++;
	return bpf_redirect(gen_ifindex, 0);
}

SEC("xdp") int datagrams(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&sent, &zero);
	struct frame *f = bpf_map_lookup_elem(&frames, &zero);

	if (!st || !f || data + SIZE > end)
		return XDP_ABORTED;
	write_frame(data, f);
	write_datagram(data + sizeof(struct ethhdr), next_flow(st));
	st->packets++;
	return bpf_redirect(gen_ifindex, 0);
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
