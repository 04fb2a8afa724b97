// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A token bucket per sender. */
#include <pcn/cube.h>
#include <pcn/bucket.h>

enum ratelimit_reason {
	/* the sender exceeds its rate */
	RATELIMIT_OVER_RATE = PCN_REASON_FIRST,
	/* the map of senders had no entry for a new one */
	RATELIMIT_NO_ENTRY,
};
PCN_REASONS(ratelimit_reason);

/* The model's rate and burst. */
PCN_CONFIG(struct pcn_bucket_limit, limit) = {};

/* The minimum interval between messages about one sender, in nanoseconds. */
#define QUIET 10000000000ull
/* The kind of the message that a sender exceeds its rate; it contains its address. */
#define OVER 1

struct sender {
	__u64 bucket;
	__u64 packets;
	__u64 dropped;
	__u64 told;
};

PCN_MAP(sender_buckets, BPF_MAP_TYPE_LRU_HASH, __u64, struct sender, 4096);

/* Returns a sender, which may be new. NULL if there is no entry for it. */
PCN_INLINE struct sender *find(__u64 address)
{
	struct sender *s = bpf_map_lookup_elem(&sender_buckets, &address), first = {};

	if (s)
		return s;
	/* Another CPU may have added it. */
	bpf_map_update_elem(&sender_buckets, &address, &first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&sender_buckets, &address);
}

PCN_INGRESS
{
	struct pcn_cursor c;
	struct sender *s;
	__u64 sender, now = pcn_time(), told;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, PCN_REASON_MALFORMED);
	sender = pcn_mac(eth->h_source);
	s = find(sender);
	if (!s)
		return pcn_pkt_drop(ctx, md, RATELIMIT_NO_ENTRY);
	__sync_fetch_and_add(&s->packets, 1);
	if (pcn_bucket_take(&s->bucket, &limit, 1, now))
		return pcn_pkt_pass(ctx, md);
	__sync_fetch_and_add(&s->dropped, 1);
	told = *(volatile __u64 *)&s->told;
	if ((!told || pcn_age(now, told) > (__s64)QUIET) &&
	    __sync_val_compare_and_swap(&s->told, told, now) == told)
		pcn_notify(ctx, md, OVER, &sender, sizeof(sender));
	return pcn_pkt_drop(ctx, md, RATELIMIT_OVER_RATE);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
