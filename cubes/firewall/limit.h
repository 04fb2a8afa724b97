// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Limits of rules: of all packets that a rule accepts, or of those from each source address. */
#ifndef FIREWALL_LIMIT_H
#define FIREWALL_LIMIT_H

#include <pcn/bucket.h>
#include <pcn/cube.h>
#include <pcn/classify_key.h>

struct firewall_limit {
	struct pcn_bucket_limit of;
	__u64 by_source;
};

/* The limits of rules, by the rule's counter, and the buckets of rules: the control plane adds and removes both. Counters
 * are those of all cubes. */
PCN_MAP_PUBLIC_FLAGS(limits, BPF_MAP_TYPE_HASH, __u32, struct firewall_limit, 262144,
		     BPF_F_NO_PREALLOC);
PCN_MAP_PUBLIC_FLAGS(rule_buckets, BPF_MAP_TYPE_HASH, __u32, __u64, 262144, BPF_F_NO_PREALLOC);

/* A source of packets to a rule: its address, as in a key. */
struct firewall_source {
	__u64 address[2];
	__u32 counter;
	__u32 ipv6;
};

/* Those that sent most recently have a bucket. */
#define FIREWALL_SOURCES 65536
PCN_MAP_PUBLIC(source_buckets, BPF_MAP_TYPE_LRU_HASH, struct firewall_source, __u64,
	       FIREWALL_SOURCES);

/* The bucket of a packet's source; NULL if there is no memory. */
PCN_INLINE __u64 *firewall_source_bucket(const struct pcn_classify_key *key, __u32 counter)
{
	struct firewall_source source = {
		.address = { key->word[PCN_CLASSIFY_SRC], key->word[PCN_CLASSIFY_SRC_LOW] },
		.counter = counter,
		.ipv6 = !!(key->word[PCN_CLASSIFY_LINK] & PCN_FLOW_IPV6),
	};
	__u64 full = 0, *bucket;

	bucket = bpf_map_lookup_elem(&source_buckets, &source);
	if (bucket)
		return bucket;
	bpf_map_update_elem(&source_buckets, &source, &full, BPF_NOEXIST);
	return bpf_map_lookup_elem(&source_buckets, &source);
}

/* Takes the packet of a key into account. 0 if it is above the limit of the rule. */
PCN_GLOBAL int firewall_within(const struct pcn_classify_key *key PCN_NONNULL, __u32 counter)
{
	const struct firewall_limit *limit = bpf_map_lookup_elem(&limits, &counter);
	__u64 *bucket;

	if (!limit)
		return 1; /* it was removed just now */
	bucket = limit->by_source ? firewall_source_bucket(key, counter)
				  : bpf_map_lookup_elem(&rule_buckets, &counter);
	return bucket && pcn_bucket_take(bucket, &limit->of, 1, pcn_time());
}

#endif
