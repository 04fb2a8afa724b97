// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Conditions that count packets: rates, and every nth packet. */
#ifndef IPTABLES_RATE_H
#define IPTABLES_RATE_H

#include <pcn/bucket.h>
#include <pcn/cube.h>
#include <pcn/flow.h>

#include "rule.h"

/* What conditions have counted, by the rule's counter and the condition's place: the control plane adds and removes
 * them. */
struct iptables_counted {
	__u32 counter;
	__u32 place;
};
PCN_MAP_FLAGS(counted, BPF_MAP_TYPE_HASH, struct iptables_counted, __u64, 131072,
	      BPF_F_NO_PREALLOC);

/* Takes the packet into account. 0 if it is above the rate. */
PCN_INLINE int iptables_within(const struct iptables_test *t, __u32 counter, __u32 place)
{
	struct iptables_counted which = { counter, place };
	__u64 *bucket = bpf_map_lookup_elem(&counted, &which);

	return bucket && pcn_bucket_take(bucket, &t->limit, 1, pcn_time());
}

/* Of word[0] packets the one behind word[1] others. */
PCN_INLINE int iptables_is_nth(const struct iptables_test *t, __u32 counter, __u32 place)
{
	struct iptables_counted which = { counter, place };
	__u64 *count = bpf_map_lookup_elem(&counted, &which);

	if (!count || !t->word[0])
		return 0;
	return __sync_fetch_and_add(count, 1) % t->word[0] == t->word[1];
}

/* What makes a group of packets. */
enum iptables_by {
	IPTABLES_BY_SOURCE = 1,
	IPTABLES_BY_SOURCE_PORT = 2,
	IPTABLES_BY_DESTINATION = 4,
	IPTABLES_BY_DESTINATION_PORT = 8,
	IPTABLES_BYTES = 16, /* the rate is in bytes */
};

struct iptables_group {
	struct iptables_counted rule;
	pcn_address source;
	pcn_address destination;
	__be16 source_port;
	__be16 destination_port;
	__u32 serial; /* of the condition: a rule of which the counter was another's has no groups of that */
};

/* The groups that have sent most recently. */
PCN_MAP(groups, BPF_MAP_TYPE_LRU_HASH, struct iptables_group, __u64, 65536);
PCN_MAP(group_keys, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct iptables_group, 1);

/* Copies the first bits of an address. IPv4 addresses are in the last word. */
PCN_INLINE void iptables_prefix(__be32 *to, const __be32 *from, __u32 bits, __u32 ipv6)
{
	__u32 skip = ipv6 ? 0 : 96;

#pragma unroll
	for (__u32 i = 0; i < 4; i++) {
		__s32 left = (__s32)(bits + skip) - (__s32)i * 32;
		__u32 mask = left >= 32 ? ~0U : left <= 0 ? 0 : ~0U << ((32 - left) & 31);

		to[i] = from[i] & bpf_htonl(mask);
	}
}

/* The same for each group of packets. */
PCN_GLOBAL int iptables_group_within(const struct pcn_flow *flow PCN_NONNULL,
				     const struct iptables_test *t PCN_NONNULL, __u32 counter,
				     __u32 place, __u32 length)
{
	__u32 only = 0, by = t->number, ipv6 = flow->has & PCN_FLOW_IPV6;
	struct iptables_group *g = bpf_map_lookup_elem(&group_keys, &only);
	__u64 full = 0, *bucket;

	if (!g)
		return 0;
	__builtin_memset(g, 0, sizeof(*g));
	g->rule.counter = counter;
	g->rule.place = place;
	g->serial = t->serial;
	if (by & IPTABLES_BY_SOURCE)
		iptables_prefix(g->source, flow->source, t->value & 0xff, ipv6);
	if (by & IPTABLES_BY_DESTINATION)
		iptables_prefix(g->destination, flow->destination, t->value >> 8 & 0xff, ipv6);
	if (!(flow->has & PCN_FLOW_PORTS))
		by &= ~(IPTABLES_BY_SOURCE_PORT | IPTABLES_BY_DESTINATION_PORT);
	if (by & IPTABLES_BY_SOURCE_PORT)
		g->source_port = flow->source_port;
	if (by & IPTABLES_BY_DESTINATION_PORT)
		g->destination_port = flow->destination_port;
	bucket = bpf_map_lookup_elem(&groups, g);
	if (!bucket) {
		bpf_map_update_elem(&groups, g, &full, BPF_NOEXIST);
		bucket = bpf_map_lookup_elem(&groups, g);
	}
	return bucket &&
	       pcn_bucket_take(bucket, &t->limit, by & IPTABLES_BYTES ? length : 1, pcn_time());
}

#endif
