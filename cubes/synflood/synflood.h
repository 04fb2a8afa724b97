// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the parts of the service share: the configuration in maps, the packet that is looked at, and
 * the memory for its answer. */
#ifndef SYNFLOOD_H
#define SYNFLOOD_H

#include <linux/tcp.h>

#include <pcn/cube.h>
#include <pcn/bucket.h>

/* What the kernel lets connections have that are made of cookies: bits of synflood_settings.options. */
#define SYNFLOOD_TIMESTAMPS 1 /* and so the others, which are kept in the timestamp */
#define SYNFLOOD_SACK 2
#define SYNFLOOD_SCALING 4

/* The configuration of the cube and of the kernel, as the control plane writes it. */
struct synflood_settings {
	struct pcn_bucket_limit forward; /* SYNs to other hosts; a burst of 0: no limit */
	__u64 mac;			 /* of the netdev, as pcn_mac; 0: the cube is on none */
	__u64 hold;			 /* how long protection lasts after the last flood, in ns */
	__u32 threshold;		 /* SYNs per second above which it begins */
	__u16 mss4;
	__u16 mss6;
	__u16 window;
	__u8 window_scale;
	__u8 ttl;
	__u8 options;
	__u8 available; /* the kernel accepts cookies */
	__u8 zero[2];
};
PCN_MAP(settings, BPF_MAP_TYPE_ARRAY, __u32, struct synflood_settings, 1);

/* Protected ports, a bit each. */
#define SYNFLOOD_PORT_WORDS 1024
PCN_MAP(ports, BPF_MAP_TYPE_ARRAY, __u32, __u64, SYNFLOOD_PORT_WORDS);

/* Addresses of this host. */
struct synflood_address {
	pcn_address address;
};
/* 1: of this host, 2: and protected */
PCN_MAP_FLAGS(addresses, BPF_MAP_TYPE_HASH, struct synflood_address, __u8, 1024, BPF_F_NO_PREALLOC);

enum synflood_counter {
	SYNFLOOD_SYNS,
	SYNFLOOD_COOKIES_SENT,
	SYNFLOOD_COOKIES_VALID,
	SYNFLOOD_COOKIES_INVALID,
	SYNFLOOD_PASSED,
	SYNFLOOD_UNAVAILABLE,
	SYNFLOOD_FORWARD_DROPPED,
	SYNFLOOD_COUNTERS,
};
PCN_COUNTERS(counters, synflood_counter, SYNFLOOD_COUNTERS);

/* The length of a TCP header without options, and at most. */
#define SYNFLOOD_TCP 20
#define SYNFLOOD_TCP_MAX 60
/* The most options of an answer: MSS, SACK permitted and timestamps, window scale. */
#define SYNFLOOD_ANSWER_MAX (SYNFLOOD_TCP + 4 + 12 + 4)

/* The headers of an answer, Ethernet first. Those of IPv4 begin 20 bytes later, so that TCP is
 * always in the same place. */
struct synflood_frame {
	struct ethhdr eth;
	__u8 ip[sizeof(struct ipv6hdr)];
	__u8 tcp[SYNFLOOD_ANSWER_MAX];
} __attribute__((packed));
#define SYNFLOOD_IPV4_AT (sizeof(struct ipv6hdr) - sizeof(struct iphdr))

/* Memory of this CPU for one packet, which would take too much stack. */
struct synflood_work {
	__u8 ip[sizeof(struct ipv6hdr)]; /* its IP header */
	__u8 tcp[SYNFLOOD_TCP_MAX +
		 20]; /* its TCP header, and what options that are cut off may read */
	/* what the options say */
	__be32 timestamp;
	__u32 at; /* the next one, from the start of the TCP header */
	__u8 has_timestamp;
	__u8 sack;
	__u8 scale; /* SYNFLOOD_NO_SCALE: none */
	__u8 zero[3];
	/* the answer */
	struct synflood_frame frame;
	__u8 end[2];
	__be32 pseudo[10];
};
PCN_MAP(work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct synflood_work, 1);

/* A TCP segment in one piece, in an IP packet without options and extension headers. */
struct synflood_packet {
	struct bpf_sock_tuple tuple;
	struct synflood_address to;
	__u64 mac;    /* the receiver's */
	__u16 l4;     /* offset of the TCP header */
	__u16 header; /* its length */
	__u8 flags;
	__u8 ipv6;
};

/* Flags of TCP. */
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* Reads a packet: 0, or -1 if it is not such a segment. Those are left to the stack. */
PCN_INLINE int synflood_read(struct CTXTYPE *ctx, struct synflood_packet *p)
{
	struct pcn_cursor c;
	__u32 length;

#ifdef PCN_TC
	if (ctx->vlan_present)
		return -1;
#endif
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct iphdr) + SYNFLOOD_TCP);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return -1;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = pcn_parse_ipv4(&c);

		if (!ip || ip->ihl != 5 || ip->protocol != IPPROTO_TCP ||
		    pcn_ipv4_fragment(ip) != PCN_FRAGMENT_NONE || ip->saddr == ip->daddr)
			return -1;
		length = bpf_ntohs(ip->tot_len) + sizeof(*eth);
		p->l4 = sizeof(*eth) + sizeof(*ip);
		p->tuple.ipv4.saddr = ip->saddr;
		p->tuple.ipv4.daddr = ip->daddr;
		pcn_address_set4(p->to.address, ip->daddr);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		pcn_cursor_open(&c, ctx,
				sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + SYNFLOOD_TCP);
		eth = pcn_parse_eth(&c);
		struct ipv6hdr *ip = eth ? pcn_parse_ipv6(&c) : NULL;

		if (!ip || ip->nexthdr != IPPROTO_TCP)
			return -1;
		length = bpf_ntohs(ip->payload_len) + sizeof(*eth) + sizeof(*ip);
		p->ipv6 = 1;
		p->l4 = sizeof(*eth) + sizeof(*ip);
		pcn_address_set6(p->tuple.ipv6.saddr, &ip->saddr);
		pcn_address_set6(p->tuple.ipv6.daddr, &ip->daddr);
		pcn_address_set6(p->to.address, &ip->daddr);
	} else {
		return -1;
	}
	p->mac = pcn_mac(eth->h_dest);
	struct tcphdr *tcp = pcn_cursor_take(&c, sizeof(*tcp));
	if (!tcp || tcp->doff < SYNFLOOD_TCP / 4)
		return -1;
	p->header = tcp->doff * 4;
	p->flags = ((__u8 *)tcp)[13];
	if (p->ipv6) {
		p->tuple.ipv6.sport = tcp->source;
		p->tuple.ipv6.dport = tcp->dest;
	} else {
		p->tuple.ipv4.sport = tcp->source;
		p->tuple.ipv4.dport = tcp->dest;
	}
	return length < (__u32)p->l4 + p->header || length > pcn_frame_len(ctx) ? -1 : 0;
}

/* The memory of this CPU. */
PCN_INLINE struct synflood_work *synflood_memory(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&work, &zero);
}

/* Finds the socket that gets a packet: a connection, one that is being opened or has just ended, or
 * a listener. The caller releases it. */
PCN_INLINE struct bpf_sock *synflood_socket(struct CTXTYPE *ctx, struct synflood_packet *p)
{
	return p->ipv6 ? bpf_skc_lookup_tcp(ctx, &p->tuple, sizeof(p->tuple.ipv6),
					    BPF_F_CURRENT_NETNS, 0)
		       : bpf_skc_lookup_tcp(ctx, &p->tuple, sizeof(p->tuple.ipv4),
					    BPF_F_CURRENT_NETNS, 0);
}

#endif
