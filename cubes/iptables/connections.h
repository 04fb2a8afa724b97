// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Conditions about how many connections there are from an address, or to it. A connection counts for each such rule that it
 * has met, from when it is accepted until it ends, which the control plane finds out: connections.go. */
#ifndef IPTABLES_CONNECTIONS_H
#define IPTABLES_CONNECTIONS_H

#include <pcn/conntrack_packet.h>
#include <pcn/cube.h>

#include "rate.h"
#include "rule.h"

/* The connections that count together: of one condition, with an address, or the first bits of one. */
struct iptables_crowd {
	struct iptables_counted rule;
	__u32 serial; /* of the condition */
	__u32 zero;
	pcn_address address;
};

/* A connection that counts. */
struct iptables_link {
	struct iptables_crowd crowd;
	struct pcn_conntrack_key connection;
};
PCN_MAP_FLAGS(links, BPF_MAP_TYPE_HASH, struct iptables_link, __u32, 131072, BPF_F_NO_PREALLOC);

/* How many connections of a crowd were counted ever, by programs, and how many of them have ended, by the control plane: so
 * each map has one writer. Both numbers may wrap; it is their difference that counts. */
PCN_MAP_FLAGS(arrived, BPF_MAP_TYPE_HASH, struct iptables_crowd, __u32, 131072, BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(departed, BPF_MAP_TYPE_HASH, struct iptables_crowd, __u32, 131072, BPF_F_NO_PREALLOC);

/* For how many conditions of this kind a packet's connection may begin to count. */
#define IPTABLES_LINKS 4

struct iptables_links {
	struct iptables_link link[IPTABLES_LINKS];
	__u32 count;
	__u32 failed; /* there was no room for one */
};
PCN_MAP(linking, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct iptables_links, 1);

PCN_INLINE struct iptables_links *iptables_links(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&linking, &zero);
}

/* Whether there are more connections than the value of the condition, with that of the packet. A packet without connection is
 * none. */
PCN_GLOBAL int iptables_is_crowded(const struct pcn_flow *flow PCN_NONNULL,
				   const struct iptables_test *t PCN_NONNULL, __u32 counter,
				   __u32 place)
{
	__u32 zero = 0, by = t->number, ipv6 = flow->has & PCN_FLOW_IPV6, count = 0;
	struct pcn_conntrack_work *w = bpf_map_lookup_elem(&ct_work, &zero);
	struct iptables_links *all = iptables_links();

	if (!w || !all || w->class == PCN_CT_INVALID || w->class == PCN_CT_UNTRACKED)
		return 0;
	__u32 at = all->count;

	if (at >= IPTABLES_LINKS)
		return 0;
	struct iptables_link *link = &all->link[at];

	__builtin_memset(link, 0, sizeof(*link));
	link->crowd.rule.counter = counter;
	link->crowd.rule.place = place;
	link->crowd.serial = t->serial;
	iptables_prefix(link->crowd.address, by >> 8 ? flow->destination : flow->source, by & 0xff,
			ipv6);
	link->connection = w->fresh.key;
	__u32 *arrived_ever = bpf_map_lookup_elem(&arrived, &link->crowd);
	__u32 *departed_ever = bpf_map_lookup_elem(&departed, &link->crowd);

	if (arrived_ever)
		count += *arrived_ever;
	if (departed_ever)
		count -= *departed_ever;
	if (!bpf_map_lookup_elem(&links, link)) {
		all->count = at + 1;
		count++;
	}
	return (__s32)count > 0 && count > t->value;
}

/* Internal: counts a connection of a crowd. */
static long iptables_link(__u32 i, struct iptables_links **of)
{
	struct iptables_links *all = *of;
	struct iptables_link *link = &all->link[i & (IPTABLES_LINKS - 1)];
	__u32 zero = 0;

	bpf_map_update_elem(&arrived, &link->crowd, &zero, BPF_NOEXIST);
	__u32 *count = bpf_map_lookup_elem(&arrived, &link->crowd);
	long failed = count ? bpf_map_update_elem(&links, link, &zero, BPF_NOEXIST) : -1;

	if (!failed)
		__sync_fetch_and_add(count, 1);
	else if (failed != -17) /* EEXIST: another CPU was first */
		all->failed = 1;
	return 0;
}

/* Counts the connection of a packet, which was accepted, where rules want that. -1 if there is no room for it. */
PCN_GLOBAL int iptables_link_all(struct CTXTYPE *ctx)
{
	struct iptables_links *all = iptables_links();

	(void)ctx;
	if (!all || !all->count)
		return 0;
	all->failed = 0;
	bpf_loop(all->count, iptables_link, &all, 0);
	all->count = 0;
	return all->failed ? -1 : 0;
}

#endif
