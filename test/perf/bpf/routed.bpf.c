// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Generator and sink for routers and NATs: each frame is a UDP datagram of the next flow, complete
 * and with correct checksums. Flow i has source i % sources, one of its ports, and one of the
 * targets; the whole header is written each time, because pages are reused as they were left. */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <pcn/ctx.h>
#include <pcn/map.h>

#ifdef PCN_XDP
/* The flow counters, and the marker that the sink checks: it is in each datagram. */
#define PORT 4097
#define FIRST_PORT 1024
#define TARGETS 65536

struct traffic_state {
	__u64 packets;
	__u64 wrong; /* at the sink: ours, but not with the expected headers */
	__u32 next;  /* flow of the next frame */
	__u32 pad;
};

const volatile __u32 sink_source = 0; /* address that datagrams come from; 0: any */
const volatile __u8 sink_ttl = 0;     /* 0: any */

PCN_MAP(received, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct traffic_state, 1);

SEC("xdp") int sink(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&received, &zero);

	if (!st || (void *)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) ||
	    ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(PORT))
		return XDP_PASS; /* the kernel's own frames */
	if ((sink_source && ip->saddr != sink_source) || (sink_ttl && ip->ttl != sink_ttl))
		st->wrong++;
	else
		st->packets++;
	return XDP_DROP;
}

const volatile __u32 gen_ifindex = 0;
const volatile __u32 gen_sources =
	1; /* number of addresses, starting with gen_first (host order) */
const volatile __u32 gen_first = 0;
const volatile __u32 gen_ports = 1; /* number of ports per source */
const volatile __u32 gen_targets = 1;
const volatile __u32 gen_ip_sum = 0; /* sum of the words of the IP header without the addresses */
const volatile __u32 gen_udp_sum =
	0; /* the same for pseudo header, UDP header and payload, without the source port */
const volatile __u64 gen_macs[2] = {}; /* the first 12 bytes of a frame, and 4 unused ones */

PCN_MAP(sent, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct traffic_state, 1);
PCN_MAP(targets, BPF_MAP_TYPE_ARRAY, __u32, __u32, TARGETS);

PCN_INLINE __u16 folded(__u32 sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return ~sum;
}

SEC("xdp") int generator(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&sent, &zero);

	if (!st || (void *)(udp + 1) > end)
		return XDP_ABORTED;
	__u32 i = st->next, of_source = i / gen_sources, t = of_source / gen_ports;
	__u32 *target = bpf_map_lookup_elem(&targets, &t);

	if (!target)
		return XDP_ABORTED;
	__u32 from = bpf_htonl(gen_first + i % gen_sources), to = *target;
	__u16 port = bpf_htons(FIRST_PORT + of_source % gen_ports);
	__u32 both = (from >> 16) + (from & 0xffff) + (to >> 16) + (to & 0xffff);

	*(__u64 *)data = gen_macs[0];
	*(__u32 *)(data + 8) = gen_macs[1];
	eth->h_proto = bpf_htons(ETH_P_IP);
	ip->ttl = 64;
	ip->saddr = from;
	ip->daddr = to;
	ip->check = folded(gen_ip_sum + both);
	udp->source = port;
	udp->dest = bpf_htons(PORT);
	udp->check = folded(gen_udp_sum + both + port);
	st->next = i + 1 < gen_sources * gen_ports * gen_targets ? i + 1 : 0;
	st->packets++;
	return bpf_redirect(gen_ifindex, 0);
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
