// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Drops packets from and to listed addresses, and lists those that exceed a rate. docs/adr/0062-lists-of-a-million-addresses.md
 * explains the lists. */
#include <pcn/cube.h>
#include <pcn/flow.h>
#include <pcn/sketch.h>

enum ddosmitigator_reason {
	DDOSMITIGATOR_BLACKLIST_SRC = PCN_REASON_FIRST, /* the source is in blacklist-src */
	DDOSMITIGATOR_BLACKLIST_DST,			/* the destination is in blacklist-dst */
	DDOSMITIGATOR_DETECTED_SRC, /* the source exceeds, or exceeded, a rate */
	DDOSMITIGATOR_DETECTED_DST, /* the destination does */
};
PCN_REASONS(ddosmitigator_reason);

/* Rates per window of a sketch that list an address; 0: none. */
PCN_CONFIG(__u64, src_packets) PCN_TRY(1000) = 0;
PCN_CONFIG(__u64, src_syns) PCN_TRY(1000) = 0;
PCN_CONFIG(__u64, src_bytes) PCN_TRY(1000) = 0;
PCN_CONFIG(__u64, dst_packets) PCN_TRY(1000) = 0;
PCN_CONFIG(__u64, dst_syns) PCN_TRY(1000) = 0;
PCN_CONFIG(__u64, dst_bytes) PCN_TRY(1000) = 0;
/* For how long, in ns. */
PCN_CONFIG(__u64, auto_lifetime) = 60000000000;

/* Which address of a packet. */
enum { SOURCE, DESTINATION, ENDS };
/* The lists: those of the two ends, and addresses that are never dropped. */
enum { ALLOW = ENDS, LISTS };

/* A prefix in host byte order; IPv4 as ::ffff:a.b.c.d, with a length from 97 on. The length is in one half of the address: the
 * other half is `outer` if that is the upper one, and else 0. */
struct ddosmitigator_prefix {
	__u64 outer;
	__u64 inner;
	__u64 length;
};

/* In this order, and behind what the kernel has in front of it, a source that is dropped takes two cache lines. */
struct ddosmitigator_entry {
	__u32 lists; /* a bit for each list that has the prefix */
	__u32 zero;
	__u64 expires[LISTS]; /* pcn_time_coarse(); 0: never */
	struct pcn_count drops[ENDS];
};

/* The prefixes of all lists. The control plane alone adds and removes them, and resizes the map. */
PCN_DISPOSABLE PCN_MAP_FLAGS(entries, BPF_MAP_TYPE_HASH, struct ddosmitigator_prefix,
			     struct ddosmitigator_entry, 1024, BPF_F_NO_PREALLOC);

/* A bit for each hash that a prefix may have, so that most addresses need no lookup in the large map: the first word is the
 * mask of the number of a word. */
PCN_DISPOSABLE PCN_MAP_FLAGS(filter, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1 + 512, BPF_F_MMAPABLE);

/* The lengths of the prefixes that an address is looked up among: bit n is the length 128 - n of IPv4 and of the lower half of IPv6, or 64 - n of its upper
 * half. */
struct ddosmitigator_lengths {
	__u64 ipv4;
	__u64 lower;
	__u64 upper;
};
struct ddosmitigator_lengths_of {
	struct ddosmitigator_lengths of[ENDS];
};
PCN_MAP_FLAGS(lengths, BPF_MAP_TYPE_ARRAY, __u32, struct ddosmitigator_lengths_of, 1,
	      BPF_F_MMAPABLE);

/* All packets that the cube has dropped. */
PCN_MAP(dropped, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, 1);

/* The seed of all hashes. Only the control plane writes it, once. */
PCN_MAP_PUBLIC(seeds, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_hash_seed, 1);

/* Rates of addresses, of all cubes: sketches. */
#define COLUMNS 16384
PCN_MAP_PUBLIC_FLAGS(packet_rates, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_sketch_windows,
		     PCN_SKETCH_ROWS *COLUMNS, BPF_F_MMAPABLE);
PCN_MAP_PUBLIC_FLAGS(syn_rates, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_sketch_windows,
		     PCN_SKETCH_ROWS *COLUMNS, BPF_F_MMAPABLE);
PCN_MAP_PUBLIC_FLAGS(byte_rates, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_sketch_windows,
		     PCN_SKETCH_ROWS *COLUMNS, BPF_F_MMAPABLE);

/* Which rate was exceeded. */
enum ddosmitigator_rate { PACKETS = 1, SYNS, BYTES };

/* An address that was listed automatically, of a cube. */
struct ddosmitigator_suspect {
	__u64 high;
	__u64 low;
	__u32 cube;
	__u32 end;
};

struct ddosmitigator_listing {
	__u64 expires; /* pcn_time_coarse() */
	__u64 rate;    /* when it was listed, per window */
	struct pcn_count drops;
	__u32 exceeded; /* enum ddosmitigator_rate */
	__u32 zero;
};

PCN_MAP_PUBLIC_FLAGS(detected, BPF_MAP_TYPE_HASH, struct ddosmitigator_suspect,
		     struct ddosmitigator_listing, 65536, BPF_F_NO_PREALLOC);

/* A packet that cannot be listed, as there are too many. */
enum ddosmitigator_counter { DDOSMITIGATOR_NOT_LISTED, DDOSMITIGATOR_COUNTERS };
PCN_COUNTERS(counters, ddosmitigator_counter, DDOSMITIGATOR_COUNTERS);

/* One of a packet's addresses, in host byte order. */
PCN_INLINE void address_of(const struct pcn_flow *flow, __u32 end, __u64 *high, __u64 *low)
{
	const __be32 *a = end ? flow->destination : flow->source;

	*high = (__u64)bpf_ntohl(a[0]) << 32 | bpf_ntohl(a[1]);
	*low = (__u64)bpf_ntohl(a[2]) << 32 | bpf_ntohl(a[3]);
}

/* Adds packets of `bytes` bytes together to a counter that CPUs share. */
PCN_INLINE void add(struct pcn_count *count, __u32 packets, __u32 bytes)
{
	__sync_fetch_and_add(&count->packets, packets);
	__sync_fetch_and_add(&count->bytes, bytes);
}

/* The result of a search: an address that is allowed, or else the length of its prefix in the blacklist, 0 for none, with COUNTED if
 * the packet has been counted for it. */
#define ALLOWED (-1)
#define COUNTED 256

/* Packets and their bytes in one number, so that a function takes it beside others. */
#define COUNTS(packets, bytes) ((__u64)(packets) << 32 | (bytes))

/* Looks a prefix up, and counts packets if the blacklist has it; not inlined, so that the kernel verifies it once. */
PCN_GLOBAL int ddosmitigator_match(__u64 outer, __u64 inner, __u64 length, __u32 end, __u64 counts)
{
	struct ddosmitigator_prefix prefix = { .outer = outer, .inner = inner, .length = length };
	struct ddosmitigator_entry *e = bpf_map_lookup_elem(&entries, &prefix);
	__u64 now;

	if (!e)
		return 0;
	now = pcn_time_coarse();
	if (e->lists & 1 << ALLOW && (!e->expires[ALLOW] || now < e->expires[ALLOW]))
		return ALLOWED;
	if (!(e->lists >> (end & 1) & 1) || (e->expires[end & 1] && now >= e->expires[end & 1]))
		return 0;
	if (!counts)
		return length;
	add(end ? &e->drops[DESTINATION] : &e->drops[SOURCE], counts >> 32, counts);
	return length | COUNTED;
}

/* The half of an address that the length of a prefix is in, and the other one, as in a prefix. */
PCN_INLINE void halves(const struct pcn_flow *flow, __u32 end, __u32 upper, __u64 *outer,
		       __u64 *inner)
{
	__u64 high, low;

	address_of(flow, end, &high, &low);
	*outer = upper ? 0 : high;
	*inner = upper ? high : low;
}

/* A search: the lengths that are left, the address, and what was found. */
struct ddosmitigator_search {
	__u64 of;
	__u64 outer;
	__u64 inner;
	__u64 longest; /* length of the first bit of `of` */
	__u64 end;
	__u64 counts; /* what the last prefix counts if no other one was found; 0: nothing */
	__s64 found;
};

/* Looks up among the prefixes with the longest length that is left. 1: the search is over. */
PCN_INLINE long step(struct ddosmitigator_search *s)
{
	__u32 zero = 0;
	const struct pcn_hash_seed *seed = bpf_map_lookup_elem(&seeds, &zero);
	const __u64 *mask = bpf_map_lookup_elem(&filter, &zero);
	__u64 of = s->of;

	if (!seed || !mask || !of)
		return 1;
	__u64 host = pcn_trailing_zeros(of);
	__u64 inner = s->inner & ~0ull << host, length = s->longest - host;
	__u64 hash = pcn_hash_words(seed, s->outer, inner, length);
	__u32 at = 1 + ((hash >> 6) & *mask);
	const __u64 *word = bpf_map_lookup_elem(&filter, &at);
	s->of = of & (of - 1);
	if (word && !(*word >> (hash & 63) & 1))
		return 0;
	__s64 found = ddosmitigator_match(s->outer, inner, length, s->end,
					  s->of || s->found ? 0 : s->counts);
	if (found == ALLOWED) {
		s->found = found;
		return 1;
	}
	if (!s->found)
		s->found = found; /* the longest prefix counts */
	return 0;
}

static long step_on(__u32 i, struct ddosmitigator_search *s)
{
	(void)i;
	return step(s);
}

/* Lengths that are looked up without the cost of a loop, and the others. */
#define FEW 3
#define MANY (64 - FEW)

/* Looks an address of a packet up among the prefixes with some lengths, the longest first. `upper` is 1 for those of the upper
 * half of IPv6. `counts` is counted if only the last length has a prefix; not if another one may still allow the address. */
PCN_GLOBAL int ddosmitigator_search(const struct pcn_flow *flow PCN_NONNULL, __u64 of, __u32 end,
				    __u32 upper, __u64 counts)
{
	struct ddosmitigator_search s;
	__u64 outer, inner;

	halves(flow, end, upper, &outer, &inner);
	s.of = of;
	s.outer = pcn_opaque(outer, of);
	s.inner = pcn_opaque(inner, of);
	s.longest = pcn_opaque(128 - upper * 64, of);
	s.end = pcn_opaque(end, of);
	s.counts = pcn_opaque(counts, of);
	s.found = pcn_opaque(0, of);
#pragma unroll
	for (int i = 0; i < FEW; i++) {
		if (step(&s))
			return s.found;
	}
	if (s.of)
		bpf_loop(MANY, step_on, &s, 0);
	return s.found;
}

/* Whether there are prefixes that an address of the packet may have. */
PCN_INLINE int any(const struct pcn_flow *flow, const struct ddosmitigator_lengths *has)
{
	return !!(flow->has & PCN_FLOW_IPV6 ? has->lower | has->upper : has->ipv4);
}

/* Looks an address of a packet up among all prefixes. `counts` is counted at once if nothing else is to be looked up for it;
 * that saves another lookup. */
PCN_INLINE int find(const struct pcn_flow *flow, const struct ddosmitigator_lengths *has,
		    const __u32 end, __u64 counts)
{
	int lower = 0, upper = 0;

	if (!(flow->has & PCN_FLOW_IPV6))
		return has->ipv4 ? ddosmitigator_search(flow, has->ipv4, end, 0, counts) : 0;
	if (has->lower)
		lower = ddosmitigator_search(flow, has->lower, end, 0, has->upper ? 0 : counts);
	if (has->upper && lower != ALLOWED)
		upper = ddosmitigator_search(flow, has->upper, end, 1, lower ? 0 : counts);
	return upper == ALLOWED || !lower ? upper : lower;
}

/* Counts packets for the prefix of one of their addresses. */
PCN_GLOBAL int ddosmitigator_count(const struct pcn_flow *flow PCN_NONNULL, __u32 end, __u32 length,
				   __u32 packets, __u32 bytes)
{
	struct ddosmitigator_prefix prefix = { .length = length };
	__u32 upper = length <= 64;

	halves(flow, end, upper, &prefix.outer, &prefix.inner);
	prefix.inner &= ~0ull << ((128 - upper * 64 - length) & 63);
	struct ddosmitigator_entry *e = bpf_map_lookup_elem(&entries, &prefix);
	if (e)
		add(end ? &e->drops[DESTINATION] : &e->drops[SOURCE], packets, bytes);
	return 0;
}

/* An address of a packet, as a key of automatic entries. */
PCN_INLINE void suspect_of(const struct pcn_flow *flow, __u32 cube, __u32 end,
			   struct ddosmitigator_suspect *suspect)
{
	address_of(flow, end, &suspect->high, &suspect->low);
	suspect->cube = cube;
	suspect->end = end;
}

/* Whether an address of a packet is listed automatically. Counts the packet if so. These three functions are not inlined, so
 * that they use the same stack one after the other. */
PCN_GLOBAL int ddosmitigator_listed(const struct pcn_flow *flow PCN_NONNULL, __u32 cube, __u32 end,
				    __u32 packets, __u32 bytes)
{
	struct ddosmitigator_suspect suspect;

	suspect_of(flow, cube, end, &suspect);
	struct ddosmitigator_listing *listed = bpf_map_lookup_elem(&detected, &suspect);
	if (!listed || (__s64)(listed->expires - pcn_time_coarse()) <= 0)
		return 0;
	add(&listed->drops, packets, bytes);
	return 1;
}

/* A rate that was exceeded, and which one in the lowest bits; 0 for none. */
#define EXCEEDED(rate, which) ((rate) << 2 | (which))

/* Adds a packet to the rates of one of its addresses. Returns the one that it exceeds. */
PCN_INLINE __u64 exceeds(const struct pcn_flow *flow, __u32 cube, const __u32 end, __u32 packets,
			 __u32 bytes)
{
	const __u64 most_packets = end ? dst_packets : src_packets;
	const __u64 most_syns = end ? dst_syns : src_syns;
	const __u64 most_bytes = end ? dst_bytes : src_bytes;
	__u64 high, low, hash, rate, now = pcn_time_coarse();
	__u32 zero = 0;
	const struct pcn_hash_seed *seed = bpf_map_lookup_elem(&seeds, &zero);

	if (!seed)
		return 0; /* never */
	address_of(flow, end, &high, &low);
	hash = pcn_hash_words(seed, high, low, (__u64)cube << 32 | end);
	if (most_syns && flow->has & PCN_FLOW_TCP && (flow->tcp_flags & 0x12) == 0x02) {
		rate = pcn_sketch_rate(&syn_rates, hash, packets, now);
		if (rate > most_syns)
			return EXCEEDED(rate, SYNS);
	}
	if (most_packets) {
		rate = pcn_sketch_rate(&packet_rates, hash, packets, now);
		if (rate > most_packets)
			return EXCEEDED(rate, PACKETS);
	}
	if (most_bytes) {
		rate = pcn_sketch_rate(&byte_rates, hash, bytes, now);
		if (rate > most_bytes)
			return EXCEEDED(rate, BYTES);
	}
	return 0;
}

PCN_GLOBAL __u64 ddosmitigator_exceeds_src(const struct pcn_flow *flow PCN_NONNULL, __u32 cube,
					   __u32 packets, __u32 bytes)
{
	return exceeds(flow, cube, SOURCE, packets, bytes);
}

PCN_GLOBAL __u64 ddosmitigator_exceeds_dst(const struct pcn_flow *flow PCN_NONNULL, __u32 cube,
					   __u32 packets, __u32 bytes)
{
	return exceeds(flow, cube, DESTINATION, packets, bytes);
}

/* Lists an address of a packet automatically. 0: there is no room. */
PCN_GLOBAL int ddosmitigator_list(const struct pcn_flow *flow PCN_NONNULL, __u32 cube, __u32 end,
				  __u64 exceeded, __u32 packets)
{
	struct ddosmitigator_suspect suspect;
	struct ddosmitigator_listing fresh = { .drops.packets = packets };

	suspect_of(flow, cube, end, &suspect);
	fresh.expires = pcn_time_coarse() + auto_lifetime;
	fresh.rate = exceeded >> 2;
	fresh.exceeded = exceeded & 3;
	if (!bpf_map_update_elem(&detected, &suspect, &fresh, BPF_ANY))
		return 1;
	pcn_count(&counters, DDOSMITIGATOR_NOT_LISTED);
	return 0;
}

/* Whether an address of a packet is listed automatically, or is to be listed now. */
PCN_INLINE int judge(const struct pcn_flow *flow, const struct pcn_md *md, const __u32 end,
		     __u32 packets)
{
	__u32 cube = pcn_instance(md), bytes = md->packet_len;
	__u64 exceeded;

	if (end ? !(dst_packets || dst_syns || dst_bytes) : !(src_packets || src_syns || src_bytes))
		return 0;
	if (ddosmitigator_listed(flow, cube, end, packets, bytes))
		return 1;
	exceeded = end ? ddosmitigator_exceeds_dst(flow, cube, packets, bytes)
		       : ddosmitigator_exceeds_src(flow, cube, packets, bytes);
	return exceeded && ddosmitigator_list(flow, cube, end, exceeded, packets) &&
	       ddosmitigator_listed(flow, cube, end, 0, bytes);
}

PCN_INLINE int drop(struct CTXTYPE *ctx, struct pcn_md *md, __u32 packets, __u16 reason)
{
	__u32 zero = 0;

	pcn_count_packets(&dropped, &zero, packets, md->packet_len);
	return pcn_pkt_drop(ctx, md, reason);
}

PCN_INGRESS
{
	struct pcn_flow flow = {};
	__u32 zero = 0, packets = 1;
	const struct ddosmitigator_lengths_of *has = bpf_map_lookup_elem(&lengths, &zero);

	if (!has || pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
#ifdef PCN_TC
	packets = ctx->gso_segs > 1 ? ctx->gso_segs : 1;
#endif
	if (pcn_is_neighbour_discovery(ctx, &flow))
		return pcn_pkt_pass(ctx, md);
	__u64 counts = COUNTS(packets, md->packet_len);
	int src = find(&flow, &has->of[SOURCE], SOURCE,
		       any(&flow, &has->of[DESTINATION]) ? 0 : counts);
	if (src == ALLOWED)
		return pcn_pkt_pass(ctx, md);
	int dst = find(&flow, &has->of[DESTINATION], DESTINATION, src ? 0 : counts);
	if (dst == ALLOWED)
		return pcn_pkt_pass(ctx, md);
	if (src) {
		if (!(src & COUNTED))
			ddosmitigator_count(&flow, SOURCE, src, packets, md->packet_len);
		return drop(ctx, md, packets, DDOSMITIGATOR_BLACKLIST_SRC);
	}
	if (dst) {
		if (!(dst & COUNTED))
			ddosmitigator_count(&flow, DESTINATION, dst, packets, md->packet_len);
		return drop(ctx, md, packets, DDOSMITIGATOR_BLACKLIST_DST);
	}
	if (judge(&flow, md, SOURCE, packets))
		return drop(ctx, md, packets, DDOSMITIGATOR_DETECTED_SRC);
	if (judge(&flow, md, DESTINATION, packets))
		return drop(ctx, md, packets, DDOSMITIGATOR_DETECTED_DST);
	return pcn_pkt_pass(ctx, md);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
