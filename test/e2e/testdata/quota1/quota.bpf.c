// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Version 1.0 of examples/services/quota, for the test that upgrades it: it counts bytes alone. */
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

PCN_CONFIG(__u64, quota) = 1000000000;
PCN_CONFIG(__u64, period) = 86400000000000ull;

struct address {
	pcn_address words;
};

struct usage {
	__u64 bytes;
	__u64 start;
};

PCN_MAP(sources, BPF_MAP_TYPE_LRU_HASH, struct address, struct usage, 16384);

PCN_INLINE struct usage *find(const struct address *source, __u64 now)
{
	struct usage *u = bpf_map_lookup_elem(&sources, source);
	struct usage first = { .start = now };

	if (u)
		return u;
	bpf_map_update_elem(&sources, source, &first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&sources, source);
}

PCN_INGRESS
{
	struct pcn_flow f = {};
	struct address source;
	struct usage *u;
	__u64 now = pcn_time(), start;

	if (pcn_flow_read(ctx, &f))
		return pcn_pkt_drop(ctx, md, QUOTA_UNREADABLE);
	if (!(f.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	pcn_address_copy(source.words, f.source);
	u = find(&source, now);
	if (!u)
		return pcn_pkt_drop(ctx, md, QUOTA_NO_ENTRY);
	start = *(volatile __u64 *)&u->start;
	if (pcn_age(now, start) >= (__s64)period &&
	    __sync_val_compare_and_swap(&u->start, start, now) == start)
		u->bytes = 0;
	if (__sync_fetch_and_add(&u->bytes, md->packet_len) + md->packet_len <= quota)
		return pcn_pkt_pass(ctx, md);
	__sync_fetch_and_add(&u->bytes, -(__u64)md->packet_len);
	return pcn_pkt_drop(ctx, md, QUOTA_EXCEEDED);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
