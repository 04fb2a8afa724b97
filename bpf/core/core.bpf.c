// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The framework's functions in a linked program. The linker extracts them from this object; the
 * program at the end only keeps them in it. */
#include <pcn/cube.h>
#include "maps.h"
#include "meta.h"

#ifdef PCN_TC
#define HOOK_FLAGS 0
#define LEN(ctx) ((ctx)->len)
#else
#define HOOK_FLAGS PCN_RECORD_XDP
#define LEN(ctx) bpf_xdp_get_buff_len(ctx)
#endif

#include "up.h"

PCN_INLINE void count_tx(__u32 page, __u32 slot, __u32 len)
{
	struct pcn_page *p = bpf_map_lookup_elem(&pcn_counters, &page);

	if (!p || slot >= PCN_SLOTS)
		return;
	p->slot[slot].tx_packets++;
	p->slot[slot].tx_bytes += len;
}

PCN_INLINE int has_port(const __u64 *ports, __u32 port)
{
	if (port >= PCN_MAX_PORTS)
		return 0;
	/* Masked, because Linux 6.1 forgets the bounds of a number that is spilled to the stack. */
	asm volatile("" : "+r"(port));
	return ports[port / 64 % (PCN_MAX_PORTS / 64)] >> (port % 64) & 1;
}

/* Counts a flood with its fate and returns the number of ports to send to. */
PCN_INLINE int count_flood(struct pcn_flood *row, __u32 cube, __u32 in_port)
{
	int ports = row ? row->count + row->complex : 0;

	if (row && (has_port(row->simple_ports, in_port) || has_port(row->complex_ports, in_port)))
		ports--;
	pcn_count_fate(cube, ports ? PCN_REASON_FLOOD : PCN_REASON_NO_PEER);
	return ports;
}

/* The word of a set of ports without the port where the packet came in. */
PCN_INLINE __u64 other_ports(const __u64 *ports, __u32 word, __u32 in_port)
{
	__u64 bits = ports[word % (PCN_MAX_PORTS / 64)];

	return in_port / 64 == word ? bits & ~(1ULL << (in_port % 64)) : bits;
}

/* True for targets on the way out of a cube. */
PCN_INLINE int is_egress_target(__u32 target)
{
	target &= (1 << PCN_TARGET_SHIFT) - 1;
	return target == PCN_TO_TX || target == PCN_TO_OUT || target == PCN_TO_OUT_NEXT;
}

#ifdef PCN_TC
/* Records the destination of a packet that is sent to our own interface. */
PCN_INLINE void set_target(struct __sk_buff *ctx, struct pcn_md *md, __u32 cube, __u32 port,
			   __u32 target)
{
	ctx->cb[0] = PCN_AGAIN_MAGIC << 16 | target << 8 | (md->hops & 0xff);
	ctx->cb[1] = cube << 16 | (md->flags & 0x7f) << 9 | (port & (PCN_MAX_PORTS - 1));
	ctx->cb[2] = md->flow_hash;
	ctx->cb[3] = md->tenant;
	ctx->cb[4] = md->pass_ifindex ?: ctx->ifindex;
	ctx->mark = md->traffic_class;
}

/* Sends a copy to a port through our own interface, where it enters that port's programs. */
PCN_INLINE long recirculate(struct __sk_buff *ctx, struct pcn_md *md, __u32 cube, __u32 port,
			    __u32 tap)
{
	set_target(ctx, md, cube, port, PCN_TO_TX);
	long err = bpf_clone_redirect(ctx, tap, BPF_F_INGRESS);
	ctx->cb[0] = 0;
	return err;
}

struct flood_walk {
	struct __sk_buff *ctx;
	struct pcn_md *md;
	struct pcn_flood *row;
	__u64 bits; /* remaining bits of the word of ports that lead to programs */
	__u32 who;
	__u32 len;
	__u16 word; /* the next one */
	__u16 port; /* the last one found */
	__u16 found;
};

static long flood_one(__u32 i, struct flood_walk *w)
{
	if (i >= PCN_MAX_PORTS)
		return 1;
	struct pcn_flood_exit *e = &w->row->exit[i];
	long err;

	if (e->port == w->md->in_port)
		return 0;
	if (THROUGH_EGRESS(w->who)) {
		err = recirculate(w->ctx, w->md, CUBE(w->who), e->port, w->row->tap);
	} else {
		err = bpf_clone_redirect(w->ctx, e->ifindex, 0);
		/* Positive: the netdev's own egress dropped or consumed it. It counts as sent, like
		 * a packet that is not a copy. */
		if (err >= 0) {
			count_tx(e->page, e->slot, w->len);
			err = 0;
		}
	}
	if (err)
		pcn_count_fate(CUBE(w->who), PCN_REASON_COPY_FAILED);
	return 0;
}

/* Sends a copy to a port that leads to a program when the next one is found: the last one gets the packet
 * itself. */
static long flood_program(__u32 i, struct flood_walk *w)
{
	__u64 bits = w->bits;

	(void)i;
	if (!bits) {
		if (w->word >= PCN_MAX_PORTS / 64)
			return 1;
		w->bits = other_ports(w->row->complex_ports, w->word, w->md->in_port);
		w->word++;
		return 0;
	}
	if (w->found && recirculate(w->ctx, w->md, CUBE(w->who), w->port, w->row->tap))
		pcn_count_fate(CUBE(w->who), PCN_REASON_COPY_FAILED);
	w->found = 1;
	w->port = (w->word - 1) * 64 + lowest(bits);
	w->bits = bits & (bits - 1);
	return 0;
}

/* Sends copies to all ports of the cube except the one where the packet came in. Returns -1 if the driver
 * must send the packet itself out of md.out_port, otherwise 0. */
PCN_GLOBAL int pcn_core_flood(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	__u32 cube = CUBE(who);
	struct pcn_flood *row = bpf_map_lookup_elem(&pcn_floods, &cube);

	if (!count_flood(row, cube, md->in_port) || !row)
		return 0;
	ctx->mark = md->traffic_class;
	__u64 unknown = row->complex_ports[0];
	struct flood_walk w = { .ctx = ctx, .md = md, .row = row, .who = who, .len = ctx->len };

	w.bits = pcn_opaque(0, unknown);
	w.word = pcn_opaque(0, unknown);
	w.port = pcn_opaque(0, unknown);
	w.found = pcn_opaque(0, unknown);
	bpf_loop(row->count, flood_one, &w, 0);
	if (row->complex)
		bpf_loop(row->complex + PCN_MAX_PORTS / 64 + 1, flood_program, &w, 0);
	if (!w.found)
		return 0;
	md->out_port = w.port;
	return -1;
}

/* Sends the packet itself through our own interface to the place where it would have continued: it
 * has used all tail calls of this run. Returns the hook's verdict. */
PCN_GLOBAL int pcn_core_again(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who,
			      __u32 target, __u32 tap)
{
	__u32 port = is_egress_target(target) ? md->out_port : md->in_port;

	set_target(ctx, md, CUBE(who), port, target);
	return bpf_redirect(tap, BPF_F_INGRESS);
}
#else
struct flood_walk {
	struct pcn_flood *row;
	__u32 in_port;
	__u32 len;
};

static long flood_count(__u32 i, struct flood_walk *w)
{
	if (i >= PCN_MAX_PORTS)
		return 1;
	struct pcn_flood_exit *e = &w->row->exit[i];
	if (e->port != w->in_port)
		count_tx(e->page, e->slot, w->len);
	return 0;
}

/* True if this run began at the netdev of the port, so that the kernel can exclude that netdev from
 * a broadcast. */
PCN_INLINE int entered_from(struct xdp_md *ctx, __u32 cube, __u32 port)
{
	__u32 key = cube * PCN_MAX_PORTS + port;
	struct pcn_exit *e = bpf_map_lookup_elem(&pcn_exits, &key);

	return e && e->ifindex == ctx->ingress_ifindex;
}

/* Records what the copies on the loop are: in the metadata before the frame, which a native driver
 * queues with it, and per CPU, where generic XDP reads it within this call. */
PCN_INLINE int write_loop_header(struct xdp_md *ctx, struct pcn_md *md, __u32 cube, __u32 port,
				 __u32 what)
{
	__u32 zero = 0;
	struct pcn_loop *now = bpf_map_lookup_elem(&pcn_flooding, &zero);

	if (!now || resize_meta(ctx, sizeof(*now)))
		return -1;
	struct pcn_loop *meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > pcn_data(ctx))
		return -1;
	now->magic = PCN_LOOP_MAGIC;
	now->serial = bpf_get_smp_processor_id() << 24 | ((now->serial + 1) & 0xffffff);
	now->cube = cube;
	now->in_port = port;
	now->what = what;
	now->flags = md->flags;
	now->hops = md->hops;
	now->traffic_class = md->traffic_class;
	now->flow_hash = md->flow_hash;
	now->tenant = md->tenant;
	now->pass_ifindex = md->pass_ifindex ?: ctx->ingress_ifindex;
	*meta = *now;
	return 0;
}

/* True if the kernel can make all copies: it can only exclude the netdev where this run began, and
 * it cannot clone a frame in several buffers. The loop has an MTU. */
PCN_INLINE int can_broadcast(struct xdp_md *ctx, struct pcn_flood *row, __u32 cube, __u32 in_port)
{
	if (row->copies && LEN(ctx) > PCN_LOOP_FRAME)
		return 0;
	if (has_port(row->simple_ports, in_port) && !entered_from(ctx, cube, in_port))
		return 0;
	return LEN(ctx) == (__u64)(ctx->data_end - ctx->data);
}

/* Chooses the only port of a set except the one where the packet came in, and returns -1. */
PCN_INLINE int to_only_port(struct pcn_md *md, const __u64 *ports)
{
	__u32 in_port = md->in_port;

	for (__u32 i = 0; i < PCN_MAX_PORTS / 64; i++) {
		__u64 bits = other_ports(ports, i, in_port);
		if (bits)
			md->out_port = i * 64 + lowest(bits);
	}
	return -1;
}

/* Sends the packet to all ports of the cube except the one where it came in: in one broadcast to
 * the netdevs, and through the loop to the ports that lead to programs. If the kernel cannot copy
 * the packet, user space does. Returns the hook's verdict, or -1 if there is only one port to send
 * to and it leads to another program: the driver sends the packet itself out of md.out_port. */
PCN_GLOBAL int pcn_core_flood(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	__u32 cube = CUBE(who), in_port = md->in_port;
	struct pcn_flood *row = bpf_map_lookup_elem(&pcn_floods, &cube);

	if (!count_flood(row, cube, in_port) || !row)
		return XDP_DROP;
	int from_netdev = has_port(row->simple_ports, in_port);
	int netdevs = row->count - from_netdev;
	int others = row->complex - has_port(row->complex_ports, in_port);

	if (!netdevs && others < 2 && !(THROUGH_EGRESS(who) && others))
		return others ? to_only_port(md, row->complex_ports) : XDP_DROP;
	__u32 group = row->group;
	void *map = bpf_map_lookup_elem(&pcn_groups, &group);
	if (!map || !can_broadcast(ctx, row, cube, in_port) ||
	    (row->copies && write_loop_header(ctx, md, cube, in_port, group))) {
		if (pcn_core_put(ctx, md, who, PCN_RECORD_FLOOD))
			pcn_count_fate(cube, PCN_REASON_SLOWPATH_SHED);
		return XDP_DROP;
	}
	if (!THROUGH_EGRESS(who)) {
		struct flood_walk w = { row, in_port, LEN(ctx) };
		bpf_loop(row->count, flood_count, &w, 0);
	}
	from_netdev = from_netdev && !THROUGH_EGRESS(who);
	return bpf_redirect_map(map, 0,
				BPF_F_BROADCAST | (from_netdev ? BPF_F_EXCLUDE_INGRESS : 0));
}

/* Sends the packet through the loop to the place where it would have continued: it has used all
 * tail calls of this run. Returns the hook's verdict. */
PCN_GLOBAL int pcn_core_again(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who,
			      __u32 target, __u32 tap)
{
	__u32 cube = CUBE(who), port = is_egress_target(target) ? md->out_port : md->in_port;
	long verdict = XDP_DROP;

	(void)tap;
	if (LEN(ctx) <= PCN_LOOP_FRAME &&
	    !write_loop_header(ctx, md, cube, port, PCN_LOOP_SINGLE | target)) {
		if (GENERIC(who))
			verdict = bpf_redirect_map(&pcn_loop_back, 0, 0);
		else
			verdict = bpf_redirect_map(&pcn_loop_exit, 0, 0);
	}
	if (verdict == XDP_REDIRECT)
		return XDP_REDIRECT;
	pcn_count_fate(cube, PCN_REASON_HOP_LIMIT);
	return XDP_DROP;
}

/* Passes a packet to the stack of the netdev where it originally entered: the TC program on our own
 * interface reads the netdev from the metadata. */
PCN_GLOBAL int pcn_core_pass(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	__u32 ifindex = md->pass_ifindex;

	if (!ifindex || resize_meta(ctx, sizeof(ifindex)))
		return XDP_PASS;
	__u32 *meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) <= pcn_data(ctx))
		*meta = ifindex;
	return XDP_PASS;
}
#endif

#include "flood_set.h"
#include "span.h"
#include "mirror.h"
#include "trace.h"
#include "notify.h"

SEC(PCN_SECTION) int pcn_core(struct CTXTYPE *ctx)
{
	struct pcn_md md = {};
	struct pcn_log_args args = {};
	struct pcn_notice notice = {};
	int r = pcn_core_up(ctx, &md, 1) + pcn_core_copy_for(ctx, &md, 1, 1) +
		pcn_core_log_for(ctx, &args, 1) + pcn_core_flood(ctx, &md, 1) +
		pcn_core_again(ctx, &md, 1, 1, 1) + pcn_core_notify_for(ctx, &notice, 1) +
		pcn_core_field(ctx, 1, 1) + pcn_core_length(ctx) +
		pcn_core_trace_begin(ctx, &md, 1) + pcn_core_trace(ctx, &md, 1, 1, 1) +
		pcn_core_capture(ctx, &md, 1, 1, 1) + pcn_core_flood_set(ctx, &md, 1) +
		pcn_core_to_set_for(ctx, &md, 1, 1, 1);
#ifdef PCN_TC
	r += pcn_core_span(ctx, &md, 1) + pcn_core_mirror_for(ctx, &md, 1, 1);
#else
	r += pcn_core_pass(ctx, &md) + pcn_core_set_up(ctx, &md, 1);
#endif
	return r;
}

/* Keeps the enum in BTF, where a test compares it with the Go side. */
const volatile enum pcn_reason pcn_framework_reasons __attribute__((used)) = 0;

char _license[] SEC("license") = "Dual BSD/GPL";
