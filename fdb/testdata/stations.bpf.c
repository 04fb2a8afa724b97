// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: learning and lookup of a key and a port that the frame contains. The verdict is the
 * result. */
#include <linux/if_ether.h>
#include <pcn/ctx.h>
#include <pcn/fdb.h>
#include <pcn/map.h>

PCN_MAP(fdb, BPF_MAP_TYPE_HASH, __u64, struct pcn_fdb_entry, 64);

/* What another CPU does while a station is looked up. */
enum stations_event {
	STATIONS_NOTHING,
	STATIONS_MOVE,	/* receives a frame of the station from port 9 */
	STATIONS_FLUSH, /* deletes the entry and ends all leases */
};
const volatile enum stations_event event = STATIONS_NOTHING;

PCN_INLINE void meanwhile(__u64 key, __u64 now);
#define PCN_FDB_MEANWHILE(key, now) meanwhile(key, now)
#include <pcn/fdb_cache.h>

PCN_INLINE void meanwhile(__u64 key, __u64 now)
{
	__u32 first = 0;
	struct pcn_fdb_set *set = bpf_map_lookup_elem(&fdb_cache, &first);

	if (event == STATIONS_MOVE)
		pcn_fdb_learn_slowly(key, 9, now);
	if (event != STATIONS_FLUSH || !set)
		return;
	bpf_map_delete_elem(&fdb, &key);
	set->way[0].check += 1ull << 48;
}

struct stations_asked {
	__u16 port;
	__u64 key;
} __attribute__((packed));

PCN_INLINE struct stations_asked *asked(struct CTXTYPE *ctx)
{
	struct stations_asked *a = pcn_data(ctx) + sizeof(struct ethhdr);

	return (void *)(a + 1) > pcn_data_end(ctx) ? NULL : a;
}

SEC(PCN_SECTION) int learn(struct CTXTYPE *ctx)
{
	__u64 now = pcn_fdb_now();
	struct stations_asked *a = asked(ctx);

	return a ? pcn_fdb_learn(a->key, a->port, now) : -2;
}

SEC(PCN_SECTION) int find(struct CTXTYPE *ctx)
{
	__u64 now = pcn_fdb_now();
	struct stations_asked *a = asked(ctx);

	return a ? pcn_fdb_find(a->key, now) : -2;
}

PCN_LICENSE;
