// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The fast path of quotas: bytes by source address. A source has the quota from its first packet on for one
 * period, then again from the next packet on. */
#include <pcn/cube.h>
#include <pcn/flow.h>

enum quota_reason {
	/* its source has used up the quota of this period */
	QUOTA_EXCEEDED = PCN_REASON_FIRST,
	/* truncated or malformed headers */
	QUOTA_UNREADABLE,
	/* the map of sources had no entry for a new one */
	QUOTA_NO_ENTRY,
};
PCN_REASONS(quota_reason);

/* The model's leaves `bytes` and `period`, the latter in nanoseconds. */
PCN_CONFIG(__u64, quota) = 1000000000;
PCN_CONFIG(__u64, period) = 86400000000000ull;

/* The kind of the message that a source has used up its quota; it contains the address. */
#define EXCEEDED 1

struct address {
	pcn_address words;
};

/* Since `start`, pcn_time() of the first packet of the period. */
struct usage {
	__u64 start;
	__u64 bytes;
	__u64 packets;
	__u64 dropped;
};

PCN_MAP(sources, BPF_MAP_TYPE_LRU_HASH, struct address, struct usage, 16384);

/* Returns the usage of a source, which may be new. NULL if there is no entry for it. */
PCN_INLINE struct usage *find(const struct address *source, __u64 now)
{
	struct usage *u = bpf_map_lookup_elem(&sources, source);
	struct usage first = { .start = now };

	if (u)
		return u;
	/* Another CPU may have added it. */
	bpf_map_update_elem(&sources, source, &first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&sources, source);
}

/* Begins another period if the last one is over; one CPU does. */
PCN_INLINE void renew(struct usage *u, __u64 now)
{
	__u64 start = *(volatile __u64 *)&u->start;

	if (pcn_age(now, start) < (__s64)period ||
	    __sync_val_compare_and_swap(&u->start, start, now) != start)
		return;
	u->bytes = 0;
	u->packets = 0;
	u->dropped = 0;
}

/* Adds a packet, unless it does not fit the quota: then it returns 0. Exact on several CPUs. */
PCN_INLINE int take(struct usage *u, __u64 bytes)
{
	if (__sync_fetch_and_add(&u->bytes, bytes) + bytes <= quota) {
		__sync_fetch_and_add(&u->packets, 1);
		return 1;
	}
	__sync_fetch_and_add(&u->bytes, -bytes);
	return 0;
}

PCN_INGRESS
{
	struct pcn_flow f = {};
	struct address source;
	struct usage *u;
	__u64 now = pcn_time();

	if (pcn_flow_read(ctx, &f))
		return pcn_pkt_drop(ctx, md, QUOTA_UNREADABLE);
	if (!(f.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	pcn_address_copy(source.words, f.source);
	u = find(&source, now);
	if (!u)
		return pcn_pkt_drop(ctx, md, QUOTA_NO_ENTRY);
	renew(u, now);
	if (take(u, md->packet_len))
		return pcn_pkt_pass(ctx, md);
	if (__sync_fetch_and_add(&u->dropped, 1) == 0)
		pcn_notify(ctx, md, EXCEEDED, &source, sizeof(source));
	return pcn_pkt_drop(ctx, md, QUOTA_EXCEEDED);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
