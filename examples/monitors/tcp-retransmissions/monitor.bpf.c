// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The segments of TCP that are sent again: how many there are, how long after newer data, and to whom. A segment is sent
 * again if its sequence numbers were seen before, also in part. A segment that was overtaken on its way here counts as
 * well: it cannot be told from one that was lost before. */
#include <linux/tcp.h>
#include <pcn/monitor.h>
#include <pcn/flow.h>

#define CONNECTIONS 16384
#define PEERS 4096

/* One direction of a connection: how struct pcn_flow begins, so that a flow is a key. */
struct direction {
	pcn_address source;
	pcn_address destination;
	__be16 source_port;
	__be16 destination_port;
	__u16 vlan;
	__u16 protocol;
};

struct progress {
	__u64 newest; /* when the newest segment passed */
	__u32 next;   /* the number after it */
	__u32 zero;
};

struct totals {
	__u64 segments; /* with data, SYN or FIN */
	__u64 bytes;
	__u64 retransmitted_segments;
	__u64 retransmitted_bytes;
	__u64 retransmitted_syns;
	__u64 resets;
};

struct peer {
	pcn_address destination;
};

_Static_assert(sizeof(struct direction) == __builtin_offsetof(struct pcn_flow, ethertype),
	       "a flow is a key");

PCN_MAP(directions, BPF_MAP_TYPE_LRU_HASH, struct direction, struct progress, CONNECTIONS);
PCN_MAP(totals, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct totals, 1);
PCN_MAP(delays, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_histogram, 1);
PCN_MAP(peers, BPF_MAP_TYPE_LRU_HASH, struct peer, __u64, PEERS);

/* The bytes of a segment. */
PCN_INLINE __u32 bytes_of(struct CTXTYPE *ctx, const struct pcn_flow *flow,
			  const struct tcphdr *tcp)
{
	__u32 fixed = flow->has & PCN_FLOW_IPV6 ? sizeof(struct ipv6hdr) : 0;
	__u32 headers = flow->l4 - flow->l3 + tcp->doff * 4, packet;
	__be16 length = 0;

	if (pcn_load_bytes(ctx, flow->l3 + (fixed ? 4 : 2), &length, sizeof(length)))
		return 0;
	/* A superframe of the kernel may be too long for the field. */
	packet = length ? bpf_ntohs(length) + fixed : pcn_frame_len(ctx) - flow->l3;
	return packet > headers ? packet - headers : 0;
}

PCN_INLINE void count_peer(const struct pcn_flow *flow)
{
	struct peer key = {};
	__u64 none = 0, *count;

	pcn_address_copy(key.destination, flow->destination);
	count = bpf_map_lookup_elem(&peers, &key);
	if (!count) {
		bpf_map_update_elem(&peers, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&peers, &key);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
}

/* Returns whether a segment is sent again, and notes it if not. */
PCN_INLINE int is_again(const struct pcn_flow *flow, const struct tcphdr *tcp, __u32 bytes,
			__u64 now)
{
	__u32 begin = bpf_ntohl(tcp->seq), end = begin + bytes + tcp->syn + tcp->fin, zero = 0;
	struct progress *p = bpf_map_lookup_elem(&directions, flow);

	if (!p || (tcp->syn && p->next != end)) {
		struct progress first = { .newest = now, .next = end };

		bpf_map_update_elem(&directions, flow, &first, BPF_ANY);
		return 0;
	}
	if ((__s32)(begin - p->next) >= 0) {
		p->next = end;
		p->newest = now;
		return 0;
	}
	if (bytes <= 1 && begin + 1 == p->next && !tcp->syn && !tcp->fin)
		return 0; /* a probe that keeps the connection alive repeats one byte */
	pcn_histogram_add(bpf_map_lookup_elem(&delays, &zero),
			  pcn_age(now, p->newest) > 0 ? now - p->newest : 0);
	if ((__s32)(end - p->next) > 0)
		p->next = end;
	return 1;
}

PCN_MONITOR
{
	struct pcn_flow flow = {};
	struct totals *sum;
	__u32 bytes, zero = 0;
	struct tcphdr tcp;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_TCP) ||
	    flow.fragment != PCN_FRAGMENT_NONE || pcn_load_bytes(ctx, flow.l4, &tcp, sizeof(tcp)))
		return pcn_pkt_pass(ctx, md);
	sum = bpf_map_lookup_elem(&totals, &zero);
	if (!sum)
		return pcn_pkt_pass(ctx, md); /* never */
	if (tcp.rst) {
		sum->resets++;
		return pcn_pkt_pass(ctx, md);
	}
	bytes = bytes_of(ctx, &flow, &tcp);
	if (!bytes && !tcp.syn && !tcp.fin)
		return pcn_pkt_pass(ctx, md); /* acknowledges only */
	sum->segments++;
	sum->bytes += bytes;
	if (is_again(&flow, &tcp, bytes, pcn_time())) {
		sum->retransmitted_segments++;
		sum->retransmitted_bytes += bytes;
		sum->retransmitted_syns += tcp.syn;
		count_peer(&flow);
	}
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
