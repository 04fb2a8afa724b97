// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests: applies the helpers for map entries (ages, addresses, counters) to values that
 * the test writes to a map. */
#include <pcn/cube.h>
#include <pcn/fdb.h>

enum entries_reason {
	ENTRIES_DONE = PCN_REASON_FIRST, /* every packet */
};
PCN_REASONS(entries_reason);

enum entries_counter {
	ENTRIES_PACKETS,
	ENTRIES_SAME,
	ENTRIES_COUNTERS,
};
PCN_COUNTERS(counters, entries_counter, ENTRIES_COUNTERS);
PCN_MAP(sizes, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, 1);

struct entries_asked {
	__u64 now;
	__u64 seen;
	__u64 limit;
	__u32 fixed;
	__be32 address4;
	struct in6_addr address6;
	pcn_address other;
};
PCN_MAP(asked, BPF_MAP_TYPE_ARRAY, __u32, struct entries_asked, 1);

struct entries_answer {
	__s64 age;
	__u32 aged;
	__u32 refresh_due;
	__u32 fdb_aged;
	__u32 same; /* address6 and other */
	pcn_address from4;
	pcn_address from6;
	pcn_address copy; /* of other */
};
PCN_MAP(answer, BPF_MAP_TYPE_ARRAY, __u32, struct entries_answer, 1);

PCN_INGRESS
{
	__u32 zero = 0;
	struct entries_asked *q = bpf_map_lookup_elem(&asked, &zero);
	struct entries_answer *a = bpf_map_lookup_elem(&answer, &zero);

	if (!q || !a)
		return pcn_pkt_drop(ctx, md, ENTRIES_DONE);
	struct pcn_fdb_entry entry = { .seen = q->seen, .fixed = q->fixed };

	a->age = pcn_age(q->now, q->seen);
	a->aged = pcn_aged(q->now, q->seen, q->limit);
	a->refresh_due = pcn_refresh_due(q->now, q->seen, q->limit);
	a->fdb_aged = pcn_fdb_aged(&entry, q->now, q->limit);
	pcn_address_set4(a->from4, q->address4);
	pcn_address_set6(a->from6, &q->address6);
	pcn_address_copy(a->copy, q->other);
	a->same = pcn_address_same(a->from6, q->other);
	pcn_count(&counters, ENTRIES_PACKETS);
	if (a->same)
		pcn_count(&counters, ENTRIES_SAME);
	pcn_count_packet(&sizes, &zero, md->packet_len);
	return pcn_pkt_drop(ctx, md, ENTRIES_DONE);
}

PCN_LICENSE;
