// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What detectors of DDoS attacks look at, for the time since the last reading: totals by protocol and flags, how many
 * different sources, destinations and ports there are, and the load on each destination. */
#include <pcn/monitor.h>
#include <pcn/flow.h>
#include <pcn/sketch.h>

#define DESTINATIONS 4096
/* Frames up to this size carry no or little data. */
#define SMALL 100

/* The flags of TCP. */
#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10
#define URG 0x20

struct features {
	__u64 packets;
	__u64 bytes;
	__u64 small_packets;
	__u64 ipv4;
	__u64 ipv6;
	__u64 not_ip; /* also malformed IP */
	__u64 fragments;
	__u64 tcp;
	__u64 udp;
	__u64 icmp;
	__u64 other_protocols;
	__u64 tcp_syn; /* without ACK */
	__u64 tcp_syn_ack;
	__u64 tcp_ack; /* only ACK */
	__u64 tcp_rst;
	__u64 tcp_fin;
	__u64 tcp_bad_flags; /* none, SYN with FIN or RST, or FIN without ACK */
	__u64 udp_amplifiers; /* from the ports of protocols whose answers are larger than questions */
};

struct load {
	__u64 packets;
	__u64 bytes;
	__u64 tcp_syn;
	__u64 udp;
	__u64 icmp;
	__u64 fragments;
};

struct victim {
	pcn_address destination;
};

PCN_MAP(features, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct features, 1);
PCN_MAP(loads, BPF_MAP_TYPE_LRU_HASH, struct victim, struct load, DESTINATIONS);
PCN_SKETCH_DISTINCT(sources);
PCN_SKETCH_DISTINCT(destinations);
PCN_SKETCH_DISTINCT(ports);

PCN_INLINE int is_icmp(const struct pcn_flow *flow)
{
	return flow->protocol == (flow->has & PCN_FLOW_IPV6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
}

/* Ports of chargen, DNS, NTP, SNMP, CLDAP, SSDP, WS-Discovery and memcached. */
PCN_INLINE int is_amplifier(__u16 port)
{
	switch (port) {
	case 19:
	case 53:
	case 123:
	case 161:
	case 389:
	case 1900:
	case 3702:
	case 11211:
		return 1;
	}
	return 0;
}

PCN_INLINE void count_flags(struct features *f, __u8 flags)
{
	__u8 begin = flags & (SYN | ACK);

	f->tcp_syn += begin == SYN;
	f->tcp_syn_ack += begin == (SYN | ACK);
	f->tcp_ack += (flags & (FIN | SYN | RST | PSH | ACK | URG)) == ACK;
	f->tcp_rst += !!(flags & RST);
	f->tcp_fin += !!(flags & FIN);
	f->tcp_bad_flags +=
		!flags || (flags & SYN && flags & (FIN | RST)) || (flags & (FIN | ACK)) == FIN;
}

PCN_INLINE void count_load(const struct pcn_flow *flow, __u32 bytes, int is_syn)
{
	struct load none = {};
	struct victim key = {};
	struct load *l;

	pcn_address_copy(key.destination, flow->destination);
	l = bpf_map_lookup_elem(&loads, &key);
	if (!l) {
		bpf_map_update_elem(&loads, &key, &none, BPF_NOEXIST);
		l = bpf_map_lookup_elem(&loads, &key);
	}
	if (!l)
		return;
	__sync_fetch_and_add(&l->packets, 1);
	__sync_fetch_and_add(&l->bytes, bytes);
	if (is_syn)
		__sync_fetch_and_add(&l->tcp_syn, 1);
	if (flow->protocol == IPPROTO_UDP)
		__sync_fetch_and_add(&l->udp, 1);
	if (is_icmp(flow))
		__sync_fetch_and_add(&l->icmp, 1);
	if (flow->fragment != PCN_FRAGMENT_NONE)
		__sync_fetch_and_add(&l->fragments, 1);
}

PCN_INLINE void count_ip(struct features *f, const struct pcn_flow *flow)
{
	int tcp = flow->protocol == IPPROTO_TCP, udp = flow->protocol == IPPROTO_UDP;

	if (flow->has & PCN_FLOW_IPV6)
		f->ipv6++;
	else
		f->ipv4++;
	f->fragments += flow->fragment != PCN_FRAGMENT_NONE;
	f->tcp += tcp;
	f->udp += udp;
	f->icmp += is_icmp(flow);
	f->other_protocols += !tcp && !udp && !is_icmp(flow);
	if (flow->has & PCN_FLOW_TCP)
		count_flags(f, flow->tcp_flags);
	if (udp && flow->has & PCN_FLOW_PORTS)
		f->udp_amplifiers += is_amplifier(bpf_ntohs(flow->source_port));
}

PCN_MONITOR
{
	const struct pcn_hash_seed *seed = pcn_monitor_seed();
	struct pcn_flow flow = {};
	struct features *f;
	__u32 zero = 0;

	f = bpf_map_lookup_elem(&features, &zero);
	if (!f)
		return pcn_pkt_pass(ctx, md); /* never */
	f->packets++;
	f->bytes += md->packet_len;
	f->small_packets += md->packet_len <= SMALL;
	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP)) {
		f->not_ip++;
		return pcn_pkt_pass(ctx, md);
	}
	count_ip(f, &flow);
	count_load(&flow, md->packet_len,
		   flow.has & PCN_FLOW_TCP && (flow.tcp_flags & (SYN | ACK)) == SYN);
	pcn_sketch_distinct_add(&sources, pcn_hash_address(seed, flow.source, 0));
	pcn_sketch_distinct_add(&destinations, pcn_hash_address(seed, flow.destination, 0));
	if (flow.has & PCN_FLOW_PORTS && flow.protocol != IPPROTO_ICMP)
		pcn_sketch_distinct_add(&ports, pcn_hash_words(seed, flow.destination_port, 0, 0));
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
