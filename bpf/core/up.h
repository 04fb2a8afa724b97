// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* To user space: packets for the slow path of a cube and lines for its log, through the ring that
 * all cubes share. */
#ifndef PCN_UP_H
#define PCN_UP_H

/* Fields of `who`, the identity of the calling cube: the linker sets it, so a cube cannot forge it.
 * */
#define CUBE(who) ((who)&0xffff)
#define EGRESS(who) ((who)&0x10000)
#define THROUGH_EGRESS(who) ((who)&0x20000) /* copies must run the cube's egress program */
#define GENERIC(who) ((who)&0x40000)	    /* the cube is of type XDP_SKB */

/* Who called a function that cubes call. In programs that several cubes run, `who` has no cube: it is
 * the one that the driver entered. */
PCN_INLINE __u32 caller(__u32 who)
{
	__u32 zero = 0, *running;

	if (CUBE(who))
		return who;
	running = bpf_map_lookup_elem(&pcn_running, &zero);
	return running ? who | (*running & 0xffff) : who;
}

/* True if the cube may add `size` bytes to the ring: three times its usage must not exceed the free
 * space. One noisy cube can use at most a quarter of the ring, and one with little usage always
 * finds room (Choudhury and Hahne, dynamic queue length thresholds, 1998). */
PCN_INLINE int admit(struct pcn_share *s, __u32 size)
{
	__u64 used = bpf_ringbuf_query(&pcn_ring, BPF_RB_AVAIL_DATA);
	__u64 mine = s->produced - *(volatile __u64 *)&s->consumed;

	return 3 * (mine + size) + used <= PCN_RING_SIZE;
}

/* Wakes the reader only if it sleeps. The exchange orders our reservation before the check. */
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
	r->flags = HOOK_FLAGS | (EGRESS(who) ? PCN_RECORD_EGRESS : 0) |
		   (__u32)(md->flags & ~PCN_MD_TRACE) << PCN_RECORD_MD;
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

/* Size classes of packets in the ring: a reservation needs a constant size. */
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

PCN_INLINE long load_class(struct CTXTYPE *ctx, struct pcn_record *r, __u32 n, __u32 class)
{
	switch (class) {
	case CLASS_1:
		return pcn_load_first(ctx, r->data, n, CLASS_1);
	case CLASS_2:
		return pcn_load_first(ctx, r->data, n, CLASS_2);
	case CLASS_3:
		return pcn_load_first(ctx, r->data, n, CLASS_3);
	default:
		return pcn_load_first(ctx, r->data, n, CLASS_4);
	}
}

/* Writes the packet to the ring: 0, or -1 if there was no room. */
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

/* Sends the packet to the slow path of the cube. */
PCN_GLOBAL int pcn_core_up(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	int shed = pcn_core_put(ctx, md, who, PCN_RECORD_PACKET);

	pcn_count_fate(CUBE(who), shed ? PCN_REASON_SLOWPATH_SHED : PCN_REASON_SLOWPATH);
	return 0;
}

/* Sends a copy to the slow path of the cube; the packet itself is forwarded. */
PCN_GLOBAL int pcn_core_copy_for(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 reason,
				 __u32 who)
{
	__u16 was = md->reason;

	md->reason = reason;
	int shed = pcn_core_put(ctx, md, caller(who), PCN_RECORD_PACKET);
	md->reason = was;
	return shed;
}

/* Writes a line to the cube's log. */
PCN_GLOBAL int pcn_core_log_for(struct CTXTYPE *ctx, const struct pcn_log_args *args PCN_NONNULL,
				__u32 who)
{
	__u32 cube = CUBE(caller(who));
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

#endif
