// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The round-trip times of TCP: from a segment that passes one way until its acknowledgement passes the other way. One
 * segment of each direction of a connection is timed at once, the handshake included. A segment that is sent again is not
 * timed, since its acknowledgement may be of either (Karn's algorithm).
 *
 * The acknowledgements that pass on a path make its histogram: those on ingress are the round-trip times to the network,
 * those on egress the ones to the host. */
#include <pcn/monitor.h>
#include <pcn/flow.h>

#define CONNECTIONS 16384

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
	__u64 sent;    /* when the timed segment passed; 0: none is timed */
	__u32 awaited; /* the number that acknowledges it */
	__u32 next;    /* the number after the newest segment */
};

_Static_assert(sizeof(struct direction) == __builtin_offsetof(struct pcn_flow, ethertype),
	       "a flow is a key");

PCN_BOTH_PATHS PCN_MAP(directions, BPF_MAP_TYPE_LRU_HASH, struct direction, struct progress,
		       CONNECTIONS);
PCN_MAP(times, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_histogram, 1);

/* What is read of a TCP header, from byte 4. */
struct segment {
	__be32 seq;
	__be32 ack;
	__u8 offset;
	__u8 flags;
	__u16 window;
};

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10

/* The sequence numbers that a segment takes: its bytes, and one each for SYN and FIN. */
PCN_INLINE __u32 length_of(struct CTXTYPE *ctx, const struct pcn_flow *flow,
			   const struct segment *tcp)
{
	__u32 fixed = flow->has & PCN_FLOW_IPV6 ? sizeof(struct ipv6hdr) : 0;
	__u32 headers = flow->l4 - flow->l3 + (tcp->offset >> 4) * 4, packet;
	__be16 length = 0;

	if (pcn_load_bytes(ctx, flow->l3 + (fixed ? 4 : 2), &length, sizeof(length)))
		return 0;
	/* A superframe of the kernel may be too long for the field. */
	packet = length ? bpf_ntohs(length) + fixed : pcn_frame_len(ctx) - flow->l3;
	return (packet > headers ? packet - headers : 0) + !!(tcp->flags & SYN) +
	       !!(tcp->flags & FIN);
}

/* Turns a flow into that of the other direction. */
PCN_INLINE void reverse(struct pcn_flow *flow)
{
	__be16 port = flow->source_port;

	for (int i = 0; i < 4; i++) {
		__be32 word = flow->source[i];

		flow->source[i] = flow->destination[i];
		flow->destination[i] = word;
	}
	flow->source_port = flow->destination_port;
	flow->destination_port = port;
}

/* An acknowledgement: ends the time of the segment that it acknowledges, of the other direction. */
PCN_INLINE void acknowledged(const struct pcn_flow *other, __u32 number, __u64 now)
{
	struct progress *p = bpf_map_lookup_elem(&directions, other);
	__u32 zero = 0;
	__u64 sent;

	if (!p)
		return;
	sent = *(volatile __u64 *)&p->sent;
	if (!sent || (__s32)(number - p->awaited) < 0)
		return;
	/* Of several CPUs with acknowledgements of one segment, one counts it. */
	if (__sync_val_compare_and_swap(&p->sent, sent, 0) == sent)
		pcn_histogram_add(bpf_map_lookup_elem(&times, &zero), now - sent);
}

/* A segment: begins a time, unless another segment is timed or this one is sent again. */
PCN_INLINE void passed(const struct pcn_flow *flow, const struct segment *tcp, __u32 length,
		       __u64 now)
{
	__u32 begin = bpf_ntohl(tcp->seq), end = begin + length;
	struct progress *p = bpf_map_lookup_elem(&directions, flow);

	if (!p || (tcp->flags & SYN && p->next != end)) {
		struct progress first = { .sent = now, .awaited = end, .next = end };

		bpf_map_update_elem(&directions, flow, &first, BPF_ANY);
		return;
	}
	if ((__s32)(begin - p->next) < 0) { /* again */
		p->sent = 0;
		return;
	}
	p->next = end;
	if (p->sent)
		return;
	p->awaited = end;
	p->sent = now;
}

PCN_MONITOR
{
	struct pcn_flow flow = {};
	__u64 now = pcn_time();
	struct segment tcp;
	__u32 length;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_TCP) ||
	    flow.fragment != PCN_FRAGMENT_NONE ||
	    pcn_load_bytes(ctx, flow.l4 + 4, &tcp, sizeof(tcp)))
		return pcn_pkt_pass(ctx, md);
	length = length_of(ctx, &flow, &tcp);
	if (length && !(tcp.flags & RST))
		passed(&flow, &tcp, length, now);
	if (tcp.flags & ACK) {
		reverse(&flow);
		acknowledged(&flow, bpf_ntohl(tcp.ack), now);
	}
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
