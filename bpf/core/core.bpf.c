// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The framework's functions in a fused program. The linker takes them out of this object; the
 * program at the end only keeps them together. */
#include <pcn/cube.h>
#include "maps.h"

#ifdef PCN_TC
#define HOOK_FLAGS 0
#define LEN(ctx) ((ctx)->len)
#else
#define HOOK_FLAGS PCN_RECORD_XDP
#define LEN(ctx) bpf_xdp_get_buff_len(ctx)
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, PCN_MAX_CUBES);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
		__uint(max_entries, PCN_MAX_PORTS);
		__uint(key_size, sizeof(__u32));
		__uint(value_size, sizeof(struct bpf_devmap_val));
	});
} pcn_broadcasts SEC(".maps");
#endif

/* What a call for a cube is about: the linker fills it in, so a cube cannot forge it. */
#define CUBE(who) ((who)&0xffff)
#define EGRESS(who) ((who)&0x10000)
#define THROUGH_EGRESS(who) ((who)&0x20000) /* copies must run the cube's egress program */

/* True if the cube may put size more bytes into the ring: three times what it has there must not
 * exceed what is free. One noisy cube gets a quarter of the ring at most, and one that has little
 * there always finds room (Choudhury and Hahne, dynamic queue length thresholds, 1998). */
PCN_INLINE int admit(struct pcn_share *s, __u32 size)
{
	__u64 used = bpf_ringbuf_query(&pcn_ring, BPF_RB_AVAIL_DATA);
	__u64 mine = s->produced - *(volatile __u64 *)&s->consumed;

	return 3 * (mine + size) + used <= PCN_RING_SIZE;
}

/* Wakes the reader only if it sleeps. The exchange orders our reservation before the look. */
PCN_INLINE __u64 wakeup(void)
{
	__u32 zero = 0;
	struct pcn_control *c = bpf_map_lookup_elem(&pcn_control, &zero);

	if (c && __sync_lock_test_and_set(&c->sleeping, 0))
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

PCN_INLINE void fill(struct CTXTYPE *ctx, struct pcn_md *md, struct pcn_record *r, __u32 who)
{
	r->cube = CUBE(who);
	r->port = EGRESS(who) ? md->out_port : md->in_port;
	r->reason = md->reason;
	r->flags = HOOK_FLAGS | (EGRESS(who) ? PCN_RECORD_EGRESS : 0);
	r->traffic_class = md->traffic_class;
	r->hops = md->hops;
	r->flow_hash = md->flow_hash;
	r->tenant = md->tenant;
	r->md[0] = md->md[0];
	r->md[1] = md->md[1];
	r->md[2] = md->md[2];
	r->md[3] = md->md[3];
#ifdef PCN_TC
	r->ifindex = md->pass_ifindex ?: ctx->ifindex;
	r->gso_size = ctx->gso_size;
	r->gso_segs = ctx->gso_segs;
	r->vlan_proto = ctx->vlan_proto;
	r->vlan_tci = ctx->vlan_tci;
	if (ctx->vlan_present)
		r->flags |= PCN_RECORD_VLAN;
#else
	r->ifindex = md->pass_ifindex ?: ctx->ingress_ifindex;
	r->gso_size = 0;
	r->gso_segs = 0;
	r->vlan_proto = 0;
	r->vlan_tci = 0;
#endif
}

/* Size classes of the packets in the ring: a reservation needs a constant size. */
#define CLASS_1 192
#define CLASS_2 2048
#define CLASS_3 16384
#define CLASS_4 (65536 + 4096)

/* The record's size for n bytes of a packet. */
#define RECORD(n) (sizeof(struct pcn_record) + (n))

PCN_INLINE struct pcn_record *reserve(__u32 class)
{
	switch (class) {
	case CLASS_1:
		return bpf_ringbuf_reserve(&pcn_ring, RECORD(CLASS_1), 0);
	case CLASS_2:
		return bpf_ringbuf_reserve(&pcn_ring, RECORD(CLASS_2), 0);
	case CLASS_3:
		return bpf_ringbuf_reserve(&pcn_ring, RECORD(CLASS_3), 0);
	default:
		return bpf_ringbuf_reserve(&pcn_ring, RECORD(CLASS_4), 0);
	}
}

/* Copies n bytes of the packet to a record that has room for max. */
PCN_INLINE long load(struct CTXTYPE *ctx, struct pcn_record *r, __s64 n, const __s64 max)
{
	/* Each bound in a comparison of its own, on the 64 bits that are passed: the compiler would
	 * make one of both, n - 1 < max, and the verifier of Linux 6.12 does not carry what that says
	 * about n - 1 over to n. Signed, since that of 6.1 learns nothing from n != 0. */
	asm volatile("" : "+r"(n));
	if (n < 1)
		return -1;
	asm volatile("" : "+r"(n));
	if (n > max)
		return -1;
#ifdef PCN_TC
	return bpf_skb_load_bytes(ctx, 0, r->data, n);
#else
	return bpf_xdp_load_bytes(ctx, 0, r->data, n);
#endif
}

PCN_INLINE long load_class(struct CTXTYPE *ctx, struct pcn_record *r, __u32 n, __u32 class)
{
	switch (class) {
	case CLASS_1:
		return load(ctx, r, n, CLASS_1);
	case CLASS_2:
		return load(ctx, r, n, CLASS_2);
	case CLASS_3:
		return load(ctx, r, n, CLASS_3);
	default:
		return load(ctx, r, n, CLASS_4);
	}
}

/* Puts the packet into the ring: 0, or -1 if there was no room. */
PCN_GLOBAL int pcn_core_put(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who,
			    __u32 kind)
{
	__u32 len = LEN(ctx), cube = CUBE(who);
	struct pcn_share *share = bpf_map_lookup_elem(&pcn_shares, &cube);
	__u32 class = len <= CLASS_1   ? CLASS_1
		      : len <= CLASS_2 ? CLASS_2
		      : len <= CLASS_3 ? CLASS_3
				       : CLASS_4;

	if (!share || !admit(share, RECORD(class)))
		return -1;
	struct pcn_record *r = reserve(class);
	if (!r)
		return -1;
	__sync_fetch_and_add(&share->produced, RECORD(class));
	r->kind = kind;
	r->len = len;
	r->size = RECORD(class);
	fill(ctx, md, r, who);
	if (len > class)
		len = class;
	r->caplen = load_class(ctx, r, len, class) ? 0 : len;
	bpf_ringbuf_submit(r, wakeup());
	return 0;
}

/* To the slow path of the cube; the packet ends here. */
PCN_GLOBAL int pcn_core_up(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	int shed = pcn_core_put(ctx, md, who, PCN_RECORD_PACKET);

	pcn_count_fate(CUBE(who), shed ? PCN_REASON_SLOWPATH_SHED : PCN_REASON_SLOWPATH);
	return 0;
}

/* A copy to the slow path of the cube; the packet goes on. */
PCN_GLOBAL int pcn_core_copy_for(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 reason,
				 __u32 who)
{
	__u16 was = md->reason;

	md->reason = reason;
	int shed = pcn_core_put(ctx, md, who, PCN_RECORD_PACKET);
	md->reason = was;
	return shed;
}

/* A line for the cube's log. */
PCN_GLOBAL int pcn_core_log_for(struct CTXTYPE *ctx, const struct pcn_log_args *args PCN_NONNULL,
				__u32 who)
{
	__u32 cube = CUBE(who);
	struct pcn_share *share = bpf_map_lookup_elem(&pcn_shares, &cube);
	struct pcn_record *r;
	const __u32 size = sizeof(*r) + sizeof(*args);

	(void)ctx;
	if (!share || !admit(share, size))
		return -1;
	r = bpf_ringbuf_reserve(&pcn_ring, size, 0);
	if (!r)
		return -1;
	__sync_fetch_and_add(&share->produced, size);
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = PCN_RECORD_LOG;
	r->cube = cube;
	r->size = size;
	r->caplen = sizeof(*args);
	__builtin_memcpy(r->data, args, sizeof(*args));
	bpf_ringbuf_submit(r, wakeup());
	return 0;
}

PCN_INLINE void count_tx(__u32 page, __u32 slot, __u32 len)
{
	struct pcn_page *p = bpf_map_lookup_elem(&pcn_counters, &page);

	if (!p || slot >= PCN_SLOTS)
		return;
	p->slot[slot].tx_packets++;
	p->slot[slot].tx_bytes += len;
}

PCN_INLINE int has(const __u64 *ports, __u32 port)
{
	if (port >= PCN_MAX_PORTS)
		return 0;
	/* Masked, since Linux 6.1 forgets the bound of a number that is spilled to the stack. */
	asm volatile("" : "+r"(port));
	return ports[port / 64 % (PCN_MAX_PORTS / 64)] >> (port % 64) & 1;
}

/* Counts a flood under its fate and tells whether there is any port to send to. */
PCN_INLINE int flood_begins(struct pcn_flood *row, __u32 cube, __u32 in_port)
{
	int ports = row ? row->count + row->complex : 0;

	if (row && (has(row->simple_ports, in_port) || has(row->complex_ports, in_port)))
		ports--;
	pcn_count_fate(cube, ports ? PCN_REASON_FLOOD : PCN_REASON_NO_PEER);
	return ports;
}

/* True for targets on the way out of a cube. */
PCN_INLINE int leaves(__u32 target)
{
	target &= (1 << PCN_TARGET_SHIFT) - 1;
	return target == PCN_TO_TX || target == PCN_TO_OUT || target == PCN_TO_OUT_NEXT;
}

#ifdef PCN_TC
/* Says where a packet goes that our own interface gets. */
PCN_INLINE void address(struct __sk_buff *ctx, struct pcn_md *md, __u32 cube, __u32 port,
			__u32 target)
{
	ctx->cb[0] = PCN_AGAIN_MAGIC << 16 | target << 8 | (md->hops & 0xff);
	ctx->cb[1] = cube << 16 | (md->flags & 0x7f) << 9 | (port & (PCN_MAX_PORTS - 1));
	ctx->cb[2] = md->flow_hash;
	ctx->cb[3] = md->tenant;
	ctx->cb[4] = md->pass_ifindex ?: ctx->ifindex;
	ctx->mark = md->traffic_class;
}

/* Sends a copy to a port by way of our own interface, where it enters that port's programs. */
PCN_INLINE long recirculate(struct __sk_buff *ctx, struct pcn_md *md, __u32 cube, __u32 port,
			    __u32 tap)
{
	address(ctx, md, cube, port, PCN_TO_TX);
	long err = bpf_clone_redirect(ctx, tap, BPF_F_INGRESS);
	ctx->cb[0] = 0;
	return err;
}

struct flood_walk {
	struct __sk_buff *ctx;
	struct pcn_md *md;
	struct pcn_flood *row;
	__u32 who;
	__u32 len;
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
		/* Positive: the netdev's own egress dropped it, or took it. It was sent there, as
		 * one that is not a copy is. */
		if (err >= 0) {
			count_tx(e->page, e->slot, w->len);
			err = 0;
		}
	}
	if (err)
		pcn_count_fate(CUBE(w->who), PCN_REASON_COPY_FAILED);
	return 0;
}

/* Sends copies to all netdev ports of the cube but the one where the packet came in. The
 * packet itself stays. Always 0: the driver goes on to the ports that lead to cubes. */
PCN_GLOBAL int pcn_core_flood(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	__u32 cube = CUBE(who);
	struct pcn_flood *row = bpf_map_lookup_elem(&pcn_floods, &cube);

	if (!flood_begins(row, cube, md->in_port) || !row)
		return 0;
	ctx->mark = md->traffic_class;
	struct flood_walk w = { ctx, md, row, who, ctx->len };
	bpf_loop(row->count, flood_one, &w, 0);
	return 0;
}

/* Sends a copy to a port that leads to another program. tap is our own interface. */
PCN_GLOBAL int pcn_core_recirculate(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who,
				    __u32 port, __u32 tap)
{
	if (recirculate(ctx, md, CUBE(who), port, tap))
		pcn_count_fate(CUBE(who), PCN_REASON_COPY_FAILED);
	return 0;
}
/* Sends the packet itself by way of our own interface to where it would have turned: it has
 * taken as many tail calls as one run may. Returns the hook's verdict. */
PCN_GLOBAL int pcn_core_again(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 cube,
			      __u32 target, __u32 tap)
{
	__u32 port = leaves(target) ? md->out_port : md->in_port;

	address(ctx, md, cube, port, target);
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

/* True if the packet is just in from the netdev of the port, so that the kernel can leave that
 * netdev out of a broadcast. */
PCN_INLINE int came_from(struct xdp_md *ctx, __u32 cube, __u32 port)
{
	__u32 key = cube * PCN_MAX_PORTS + port;
	struct pcn_exit *e = bpf_map_lookup_elem(&pcn_exits, &key);

	return e && e->ifindex == ctx->ingress_ifindex;
}

/* Says what the copies on the loop are: in the metadata before the frame, which a native driver
 * carries along to the queue, and per CPU, where generic XDP looks within this call. */
PCN_INLINE int announce(struct xdp_md *ctx, struct pcn_md *md, __u32 cube, __u32 port, __u32 single,
			__u32 set)
{
	__u32 zero = 0;
	struct pcn_loop *now = bpf_map_lookup_elem(&pcn_flooding, &zero);

	if (!now || bpf_xdp_adjust_meta(ctx, -(int)sizeof(*now)))
		return -1;
	struct pcn_loop *meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > pcn_data(ctx))
		return -1;
	now->magic = PCN_LOOP_MAGIC;
	now->serial = bpf_get_smp_processor_id() << 24 | ((now->serial + 1) & 0xffffff);
	now->cube = cube;
	now->in_port = port;
	now->single = single;
	now->set = set;
	now->flags = md->flags;
	now->hops = md->hops;
	now->traffic_class = md->traffic_class;
	now->flow_hash = md->flow_hash;
	now->tenant = md->tenant;
	now->pass_ifindex = md->pass_ifindex ?: ctx->ingress_ifindex;
	*meta = *now;
	return 0;
}

/* True if the kernel can make all copies: it can leave out the netdev that the packet is just
 * in from but no other, and it cannot clone a frame of several buffers. */
PCN_INLINE int can_broadcast(struct xdp_md *ctx, struct pcn_flood *row, __u32 cube, __u32 in_port)
{
	if (row->copies && !row->tap)
		return 0;
	if (has(row->simple_ports, in_port) && !came_from(ctx, cube, in_port))
		return 0;
	return LEN(ctx) == (__u64)(ctx->data_end - ctx->data);
}

/* Sends the packet to all ports of the cube but the one where it came in: one broadcast to the
 * netdevs, and by the loop to the ports that lead to programs. What the kernel cannot copy goes
 * to user space. Returns the hook's verdict, or -1 if there is just one port to send to and it
 * leads to another program, to which the driver then goes. */
PCN_GLOBAL int pcn_core_flood(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	__u32 cube = CUBE(who), in_port = md->in_port;
	struct pcn_flood *row = bpf_map_lookup_elem(&pcn_floods, &cube);

	if (!flood_begins(row, cube, in_port) || !row)
		return XDP_DROP;
	int from_netdev = has(row->simple_ports, in_port);
	int netdevs = row->count - from_netdev;
	int others = row->complex - has(row->complex_ports, in_port);

	if (!netdevs && others < 2 && !(THROUGH_EGRESS(who) && others))
		return others ? -1 : XDP_DROP;
	void *map = bpf_map_lookup_elem(&pcn_broadcasts, &cube);
	if (!map || !can_broadcast(ctx, row, cube, in_port) ||
	    (row->copies && announce(ctx, md, cube, in_port, 0, 0))) {
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

/* Sends the packet by the loop to where it would have turned: it has taken as many tail calls
 * as one run may. Returns the hook's verdict. */
PCN_GLOBAL int pcn_core_again(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 cube,
			      __u32 target, __u32 tap)
{
	__u32 port = leaves(target) ? md->out_port : md->in_port;

	(void)tap;
	if (LEN(ctx) > PCN_LOOP_FRAME ||
	    announce(ctx, md, cube, port, PCN_LOOP_SINGLE | target, 0) ||
	    bpf_redirect_map(&pcn_loop_exit, 0, 0) != XDP_REDIRECT) {
		pcn_count_fate(CUBE(cube), PCN_REASON_HOP_LIMIT);
		return XDP_DROP;
	}
	return XDP_REDIRECT;
}

/* Lets a packet pass to the stack of the netdev where it once entered: the program behind XDP
 * on our own interface finds the netdev in the metadata. */
PCN_GLOBAL int pcn_core_pass(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
{
	__u32 ifindex = md->pass_ifindex;

	if (!ifindex || bpf_xdp_adjust_meta(ctx, -(int)sizeof(ifindex)))
		return XDP_PASS;
	__u32 *meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) <= pcn_data(ctx))
		*meta = ifindex;
	return XDP_PASS;
}
#endif

#include "flood_set.h"
#include "span.h"
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
	r += pcn_core_recirculate(ctx, &md, 1, 1, 1) + pcn_core_span(ctx, &md, 1);
#else
	r += pcn_core_pass(ctx, &md) + pcn_core_set_up(ctx, &md, 1);
#endif
	return r;
}

/* Keeps the enum in the type information, where a test compares it with the Go side. */
const volatile enum pcn_reason pcn_framework_reasons __attribute__((used)) = 0;

char _license[] SEC("license") = "Dual BSD/GPL";
