// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The sizes of frames, in buckets of powers of two, by network and transport protocol. Bytes are those on the wire without
 * the checksum of the frame. */
#include <pcn/monitor.h>
#include <pcn/flow.h>

enum network { OTHER, IPV4, IPV6 };
enum transport {
	NONE = 0,
	ICMP = 1,
	TCP = 6,
	UDP = 17,
	GRE = 47,
	ESP = 50,
	ICMPV6 = 58,
	SCTP = 132,
	ELSE = 255
};

struct kind {
	enum network network;
	enum transport transport;
};

/* There are no more kinds than these: 3 x 9. */
PCN_MAP(sizes, BPF_MAP_TYPE_HASH, struct kind, struct pcn_histogram, 32);
/* A histogram of zeros, which is too large for the stack. */
PCN_MAP(none, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_histogram, 1);

PCN_INLINE enum transport transport_of(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_ICMP:
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_GRE:
	case IPPROTO_ESP:
	case IPPROTO_ICMPV6:
	case IPPROTO_SCTP:
		return (enum transport)protocol;
	}
	return ELSE;
}

PCN_MONITOR
{
	struct pcn_histogram *sum;
	struct pcn_flow flow = {};
	struct kind key = {};
	__u32 zero = 0;

	if (!pcn_flow_read(ctx, &flow) && flow.has & PCN_FLOW_IP) {
		key.network = flow.has & PCN_FLOW_IPV6 ? IPV6 : IPV4;
		key.transport = transport_of(flow.protocol);
	}
	sum = bpf_map_lookup_elem(&sizes, &key);
	if (!sum) {
		sum = bpf_map_lookup_elem(&none, &zero);
		if (!sum)
			return pcn_pkt_pass(ctx, md); /* never */
		bpf_map_update_elem(&sizes, &key, sum, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&sizes, &key);
	}
	pcn_histogram_add(sum, md->packet_len);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
