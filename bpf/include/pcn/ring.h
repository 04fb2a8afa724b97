// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A ring of a cube's own: copies of packets go straight into the memory of the process that reads
 * it, at rate, without the daemon. docs/reference/ring.md describes the reader's side.
 *
 * Include it yourself. */
#ifndef PCN_RING_H
#define PCN_RING_H

#include <pcn/map.h>
#include <pcn/md.h>
#include <pcn/packet.h>
#include <pcn/time.h>

/* Internal: what the reader writes. It may contain anything: it decides only how soon the reader is
 * woken. */
struct pcn_ring_reader {
	__u32 sleeping; /* the reader sleeps and must be woken */
	__u32 pad;
	__u64 owner; /* the one of several readers that reads */
};

/* Internal: what programs count, by CPU. The reader cannot write here. */
struct pcn_ring_counts {
	__u64 written;
	__u64 lost;
	__u64 woken; /* when the reader was last woken, monotonic ns */
};

/* PCN_RING(copies, 1 << 20); declares a ring of a cube: its size in bytes is a power of two, at
 * least a page. It survives what maps survive: relinks, restarts and updates. */
#define PCN_RING(name, bytes)                                                    \
	struct {                                                                 \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                              \
		__uint(max_entries, bytes);                                      \
	} name SEC(".maps");                                                     \
	PCN_DISPOSABLE PCN_MAP_FLAGS(name##_reader, BPF_MAP_TYPE_ARRAY, __u32,   \
				     struct pcn_ring_reader, 1, BPF_F_MMAPABLE); \
	PCN_DISPOSABLE PCN_MAP(name##_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32,  \
			       struct pcn_ring_counts, 1)

/* Flags of a record: vlan_proto and vlan_tci are valid; a program at XDP wrote it. */
#define PCN_RING_VLAN 1
#define PCN_RING_XDP 2

/* A record of the ring: 56 bytes, followed by the first `caplen` bytes of the frame. */
struct pcn_ring_record {
	__u64 time; /* monotonic ns */
	__u32 len;  /* of the frame; of a superframe as a whole */
	__u32 caplen;
	__u16 kind; /* chosen by the program */
	__u16 flags;
	__u16 in_port;
	__u16 out_port;
	__u16 vlan_proto; /* network byte order; the tag that TC keeps outside the frame */
	__u16 vlan_tci;
	__u16 gso_size;
	__u16 gso_segs;
	__u32 ifindex; /* where the packet entered */
	__u32 flow_hash;
	__u32 words[4]; /* md->md */
	__u8 data[];
};

_Static_assert(sizeof(struct pcn_ring_record) == 56, "header of a record");

/* Internal: the reader is woken at most this often by one CPU, in nanoseconds: a reader that always
 * says that it sleeps costs packets next to nothing. Readers sleep at least twice as long after
 * they were woken. */
#define PCN_RING_WAKE_NS 50000

/* Internal: size classes of captured bytes: a reservation needs a constant size. */
#define PCN_RING_CLASS_1 128
#define PCN_RING_CLASS_2 512
#define PCN_RING_CLASS_3 2048
#define PCN_RING_CLASS_4 (65536 + 4096)

/* Internal: the flag of bpf_ringbuf_submit(). Reservation and check must not change places, or a
 * reader that goes to sleep now is not woken; the atomic addition before orders them. */
PCN_INLINE __u64 pcn_ring_wakeup(struct pcn_ring_reader *reader, struct pcn_ring_counts *counts,
				 __u64 now)
{
	if (!*(volatile __u32 *)&reader->sleeping || now - counts->woken < PCN_RING_WAKE_NS)
		return BPF_RB_NO_WAKEUP;
	if (!__sync_lock_test_and_set(&reader->sleeping, 0))
		return BPF_RB_NO_WAKEUP;
	counts->woken = now;
	return BPF_RB_FORCE_WAKEUP;
}

/* Internal: fills the header of a record. */
PCN_INLINE void pcn_ring_head(struct CTXTYPE *ctx, const struct pcn_md *md,
			      struct pcn_ring_record *r, __u32 len, __u16 kind)
{
	r->len = len;
	r->kind = kind;
	r->in_port = md->in_port;
	r->out_port = md->out_port;
	r->flow_hash = md->flow_hash;
	r->words[0] = md->md[0];
	r->words[1] = md->md[1];
	r->words[2] = md->md[2];
	r->words[3] = md->md[3];
#ifdef PCN_TC
	r->flags = ctx->vlan_present ? PCN_RING_VLAN : 0;
	r->vlan_proto = ctx->vlan_proto;
	r->vlan_tci = ctx->vlan_tci;
	r->gso_size = ctx->gso_size;
	r->gso_segs = ctx->gso_segs;
	r->ifindex = md->pass_ifindex ?: ctx->ifindex;
#else
	r->flags = PCN_RING_XDP;
	r->vlan_proto = 0;
	r->vlan_tci = 0;
	r->gso_size = 0;
	r->gso_segs = 0;
	r->ifindex = md->pass_ifindex ?: ctx->ingress_ifindex;
#endif
}

/* Internal: writes a record of one size class. 0, or -1 if there was no room. */
PCN_INLINE int pcn_ring_put(void *ring, struct pcn_ring_reader *reader,
			    struct pcn_ring_counts *counts, struct CTXTYPE *ctx,
			    const struct pcn_md *md, __u32 len, __u32 n, __u16 kind, int later,
			    const __u32 class)
{
	struct pcn_ring_record *r = bpf_ringbuf_reserve(ring, sizeof(*r) + class, 0);
	__u64 order;

	if (!r)
		return -1;
	order = __sync_fetch_and_add(&counts->written, 1);
	asm volatile("" : : "r"(order));
	r->time = pcn_time();
	pcn_ring_head(ctx, md, r, len, kind);
	r->caplen = pcn_load_first(ctx, r->data, n, class) ? 0 : n;
	bpf_ringbuf_submit(r, later ? BPF_RB_NO_WAKEUP : pcn_ring_wakeup(reader, counts, r->time));
	return 0;
}

/* Internal: use pcn_ring_packet(). */
PCN_INLINE int pcn_ring_write(void *ring, void *readers, void *all_counts, struct CTXTYPE *ctx,
			      const struct pcn_md *md, __u32 snap, __u16 kind, int later)
{
	__u32 zero = 0, len = pcn_frame_len(ctx), n = len < snap ? len : snap;
	struct pcn_ring_reader *reader = bpf_map_lookup_elem(readers, &zero);
	struct pcn_ring_counts *counts = bpf_map_lookup_elem(all_counts, &zero);
	int lost;

	if (!reader || !counts)
		return -1;
	if (n <= PCN_RING_CLASS_1)
		lost = pcn_ring_put(ring, reader, counts, ctx, md, len, n, kind, later,
				    PCN_RING_CLASS_1);
	else if (n <= PCN_RING_CLASS_2)
		lost = pcn_ring_put(ring, reader, counts, ctx, md, len, n, kind, later,
				    PCN_RING_CLASS_2);
	else if (n <= PCN_RING_CLASS_3)
		lost = pcn_ring_put(ring, reader, counts, ctx, md, len, n, kind, later,
				    PCN_RING_CLASS_3);
	else
		lost = pcn_ring_put(ring, reader, counts, ctx, md, len,
				    n < PCN_RING_CLASS_4 ? n : PCN_RING_CLASS_4, kind, later,
				    PCN_RING_CLASS_4);
	if (lost)
		counts->lost++;
	return lost;
}

/* Copies the first `snap` bytes of the packet, with its metadata, to a ring of PCN_RING; processing
 * of the packet continues. `kind` is a number for the reader. A constant `snap` of at most 128 costs
 * least: code for longer packets is then left out. Returns 0, or -1 if the ring was full, which is
 * counted as lost. */
#define pcn_ring_packet(name, ctx, md, snap, kind) \
	pcn_ring_packet_later(name, ctx, md, snap, kind, 0)

/* The same, but if `later` is not 0, a reader that sleeps is not woken: it reads the packet with the next one, or when its
 * process wakes it. For packets that can wait, each of which would cost the process more than to read it. */
#define pcn_ring_packet_later(name, ctx, md, snap, kind, later) \
	pcn_ring_write(&name, &name##_reader, &name##_counts, ctx, md, snap, kind, later)

#endif
