// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The program of the TAP through which packets from the slow path enter the fast path. The
 * destination of a frame is in shared memory, not in the frame: the daemon writes the record, then
 * the frame, and the kernel runs this program during that write. So the frame is unmodified and
 * keeps its offload state. At TC, copies for other cubes also arrive here. */
#include <pcn/vlan.h>
#include "maps.h"
#include "meta.h"

PCN_MAP_FLAGS(pcn_down, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_down, 1, BPF_F_MMAPABLE);

#ifdef PCN_TC
#define DROP 2
#else
#define DROP XDP_DROP
#endif

/* Drops a packet and counts it for a cube, or for none (0). */
PCN_INLINE int drop_counted(__u32 cube, __u32 reason)
{
	pcn_count_fate(cube < PCN_MAX_CUBES ? cube : 0, reason);
	return DROP;
}

/* Enters the cube's program at the place in the CPU's pcn_resumes, which counts as a hop. */
PCN_INLINE int enter(struct CTXTYPE *ctx, struct pcn_resume *to)
{
	__u32 cube = to->cube;

	if (to->md.hops >= PCN_MAX_HOPS)
		return drop_counted(cube, PCN_REASON_HOP_LIMIT);
	to->md.hops++;
	to->md.turns = 0;
	bpf_tail_call(ctx, &pcn_cubes, cube);
	return drop_counted(cube, PCN_REASON_NO_PROGRAM);
}

/* Sets the port of a target: where the packet leaves the cube, or came in. */
PCN_INLINE void set_port(struct pcn_resume *to, __u16 port)
{
	switch (to->target & ((1 << PCN_TARGET_SHIFT) - 1)) {
	case PCN_TO_TX:
	case PCN_TO_OUT:
	case PCN_TO_OUT_NEXT:
	case PCN_TO_SHADOW:
		to->md.out_port = port;
		break;
	default:
		to->md.in_port = port;
	}
}

SEC(PCN_SECTION) int pcn_down_in(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	struct pcn_down *down = bpf_map_lookup_elem(&pcn_down, &zero);
	struct pcn_resume *to = bpf_map_lookup_elem(&pcn_resumes, &zero);

	if (!down || !to)
		return drop_counted(0, PCN_REASON_NO_PROGRAM);
#ifdef PCN_TC
	if (ctx->cb[0] >> 16 == PCN_AGAIN_MAGIC) {
		__builtin_memset(to, 0, sizeof(*to));
		to->cube = ctx->cb[1] >> 16;
		to->target = ctx->cb[0] >> 8 & 0xff;
		set_port(to, ctx->cb[1] & (PCN_MAX_PORTS - 1));
		to->md.flags = ctx->cb[1] >> 9 & 0x7f;
		to->md.hops = ctx->cb[0] & 0xff;
		to->md.flow_hash = ctx->cb[2];
		to->md.tenant = ctx->cb[3];
		to->md.pass_ifindex = ctx->cb[4];
		to->md.packet_len = ctx->len;
		to->md.traffic_class = ctx->mark;
		ctx->cb[0] = 0;
		return enter(ctx, to);
	}
#endif
	if (down->state != 1)
		return drop_counted(0, PCN_REASON_NO_PROGRAM);
	down->state = 2;
	*to = down->resume;
#ifdef PCN_TC
	ctx->mark = to->md.traffic_class;
	to->md.packet_len = ctx->len;
#else
	to->md.packet_len = bpf_xdp_get_buff_len(ctx);
#endif
	return enter(ctx, to);
}

#ifdef PCN_TC
/* The secret that the root programs of netdevs with generic XDP know. */
const volatile __u64 pcn_secret = 0;

/* The state of the loop that makes untagged copies. */
struct untagged {
	struct __sk_buff *ctx;
	struct pcn_copies *copies;
	__u32 cube;
	__u32 in_port;
};

/* Sends an untagged copy to a netdev. */
static long untagged_copy(__u32 port, struct untagged *u)
{
	__u32 i = port / 64 % (PCN_MAX_PORTS / 64), key = u->cube * PCN_MAX_PORTS + port;
	struct pcn_exit *e;

	if (!(u->copies->tc_ports[i] & 1ULL << (port % 64)) || port == u->in_port)
		return 0;
	e = bpf_map_lookup_elem(&pcn_exits, &key);
	if (!e || !e->ifindex || bpf_clone_redirect(u->ctx, e->ifindex, 0) < 0)
		pcn_count_fate(u->cube, PCN_REASON_COPY_FAILED);
	return 0;
}

/* After the loop: makes the untagged copies of a flood to a set that XDP could not make. False for
 * any other packet. The copies are already counted. */
PCN_INLINE int untagged_copies(struct __sk_buff *ctx)
{
	struct pcn_loop *h = (void *)(long)ctx->data_meta;
	struct untagged u = { .ctx = ctx };
	__u32 group;

	if ((void *)(h + 1) > pcn_data(ctx) || h->magic != PCN_LOOP_MAGIC)
		return 0;
	u.cube = h->cube;
	u.in_port = h->in_port;
	group = h->what & PCN_LOOP_VALUE;
	u.copies = bpf_map_lookup_elem(&pcn_copies, &group);
	if (!u.copies || (h->what & PCN_LOOP_TAGGED && pcn_vlan_pop(ctx))) {
		pcn_count_fate(u.cube, PCN_REASON_COPY_FAILED);
		return 1;
	}
	bpf_loop(PCN_MAX_PORTS, untagged_copy, &u, 0);
	return 1;
}

/* At the TC ingress of the interfaces where packets re-enter XDP cubes: a packet that an XDP
 * program passed goes to the stack of the netdev where it originally entered. That netdev is in the
 * metadata or, where the kernel does not keep a TAP's metadata, in the record of the packet-out. */
SEC(PCN_SECTION) int pcn_down_pass(struct CTXTYPE *ctx)
{
	__u32 zero = 0, *meta = (void *)(long)ctx->data_meta;
	struct pcn_down *down = bpf_map_lookup_elem(&pcn_down, &zero);
	__u32 ifindex = 0;

	if (untagged_copies(ctx))
		return DROP;
	if ((void *)(meta + 1) <= pcn_data(ctx))
		ifindex = *meta;
	else if (down)
		ifindex = down->resume.md.pass_ifindex;
	if (!ifindex)
		return drop_counted(0, PCN_REASON_NO_PROGRAM);
	if (bpf_map_lookup_elem(&pcn_generic, &ifindex)) {
		struct pcn_pass header = { .secret = pcn_secret };

		if (bpf_skb_change_head(ctx, sizeof(header), 0) ||
		    bpf_skb_store_bytes(ctx, 0, &header, sizeof(header), 0))
			return drop_counted(0, PCN_REASON_NO_PROGRAM);
	}
	if (bpf_map_lookup_elem(&pcn_tc_ingress, &ifindex))
		ctx->tc_index = PCN_SKIP;
	return bpf_redirect(ifindex, BPF_F_INGRESS);
}

/* At the TC ingress of an interface in a cube's namespace: taps have seen the copies by now; they
 * are dropped before the stack, which would also answer what the cube answers. */
SEC(PCN_SECTION) int pcn_span_end(struct CTXTYPE *ctx)
{
	return ctx->tc_index == PCN_SPAN ? DROP : -1;
}
#else
/* The copies that came back on the loop, by the CPU that sent them. */
PCN_MAP(pcn_returns, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_returned, 256);

/* On egress to the loop: prepends the header to each copy. */
SEC("xdp/devmap") int pcn_loop_out(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct pcn_loop *from = (void *)(long)ctx->data_meta, *to, header;

	if ((void *)(from + 1) > pcn_data(ctx) || from->magic != PCN_LOOP_MAGIC)
		from = bpf_map_lookup_elem(&pcn_flooding, &zero);
	if (!from)
		return drop_counted(0, PCN_REASON_COPY_FAILED);
	header = *from;
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(header)))
		return drop_counted(header.cube, PCN_REASON_COPY_FAILED);
	to = pcn_data(ctx);
	if ((void *)(to + 1) > pcn_data_end(ctx))
		return drop_counted(header.cube, PCN_REASON_COPY_FAILED);
	*to = header;
	return XDP_PASS;
}

/* Returns how many copies of a flood came back before this one. */
PCN_INLINE __u32 returned(const struct pcn_loop *h)
{
	__u32 key = h->serial >> 24;
	struct pcn_returned *r = bpf_map_lookup_elem(&pcn_returns, &key);

	if (!r)
		return PCN_MAX_PORTS;
	if (r->serial != h->serial) {
		r->serial = h->serial;
		r->count = 0;
	}
	return r->count++;
}

/* Enters the cube with the values of the header. */
PCN_INLINE int enter_from_loop(struct xdp_md *ctx, struct pcn_resume *to, const struct pcn_loop *h)
{
	to->md.hops = h->hops;
	to->md.flags = h->flags;
	to->md.flow_hash = h->flow_hash;
	to->md.tenant = h->tenant;
	to->md.pass_ifindex = h->pass_ifindex;
	to->md.traffic_class = h->traffic_class;
	to->md.packet_len = bpf_xdp_get_buff_len(ctx);
	return enter(ctx, to);
}

/* Passes a copy to TC, which makes the untagged copies from it. */
PCN_INLINE int pass_to_tc(struct xdp_md *ctx, const struct pcn_loop *h)
{
	if (resize_meta(ctx, sizeof(*h)))
		return drop_counted(h->cube, PCN_REASON_COPY_FAILED);
	struct pcn_loop *meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > pcn_data(ctx))
		return drop_counted(h->cube, PCN_REASON_COPY_FAILED);
	*meta = *h;
	return XDP_PASS;
}

/* On ingress from the loop: a single packet goes to the target in the header, the n-th copy of a
 * flood to the n-th port of its group. */
SEC(PCN_SECTION) int pcn_loop_in(struct xdp_md *ctx)
{
	struct pcn_loop *header = pcn_data(ctx), h;
	__u32 zero = 0, value, n, port;

	if ((void *)(header + 1) > pcn_data_end(ctx) || header->magic != PCN_LOOP_MAGIC)
		return XDP_DROP; /* not ours: the stack sends packets on any interface */
	h = *header;
	struct pcn_resume *to = bpf_map_lookup_elem(&pcn_resumes, &zero);
	if (!to || bpf_xdp_adjust_head(ctx, sizeof(h)))
		return drop_counted(h.cube, PCN_REASON_COPY_FAILED);
	__builtin_memset(to, 0, sizeof(*to));
	to->cube = h.cube;
	value = h.what & PCN_LOOP_VALUE;
	if (h.what & PCN_LOOP_SINGLE) {
		to->target = value;
		set_port(to, h.in_port);
		return enter_from_loop(ctx, to, &h);
	}
	struct pcn_copies *copies = bpf_map_lookup_elem(&pcn_copies, &value);
	if (!copies)
		return drop_counted(h.cube, PCN_REASON_COPY_FAILED);
	n = returned(&h);
	if (n == copies->count && copies->for_tc)
		return pass_to_tc(ctx, &h);
	if (n >= copies->count || n >= PCN_MAX_PORTS)
		return drop_counted(h.cube, PCN_REASON_COPY_FAILED);
	port = copies->port[n];
	to->target = PCN_TO_TX;
	to->md.out_port = port & (PCN_MAX_PORTS - 1);
	if (to->md.out_port == h.in_port)
		return XDP_DROP; /* the copy for the port where the original came in */
	if (h.what & PCN_LOOP_TAGGED && port & PCN_COPY_UNTAGGED && pcn_vlan_pop(ctx))
		return drop_counted(h.cube, PCN_REASON_COPY_FAILED);
	return enter_from_loop(ctx, to, &h);
}

/* On egress to a netdev: removes the tag that the frame has for other members of the set. */
SEC("xdp/devmap") int pcn_untag_out(struct xdp_md *ctx)
{
	if (pcn_vlan_pop(ctx))
		return drop_counted(0, PCN_REASON_COPY_FAILED);
	return XDP_PASS;
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
