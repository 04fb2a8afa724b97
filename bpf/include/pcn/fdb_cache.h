// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Learning and lookup in the filtering database of a bridge, with a cache in front of the hash. The
 * cube declares the hash, PCN_MAP(fdb, ...), before it includes this; the control plane of both
 * maps is package fdb.
 *
 * The cache holds the port of a station for the time in which nothing but a frame from another port
 * or the control plane would change its entry: its lease, of at most refresh_ns. A packet between
 * cached stations reads no clock, calls no function and writes nothing. Aging works by the leases:
 * none outlives the entry. The control plane ends all leases by a new generation, after each change
 * that it makes to the hash. */
#ifndef PCN_FDB_CACHE_H
#define PCN_FDB_CACHE_H

#include <pcn/config.h>
#include <pcn/fdb.h>
#include <pcn/map.h>

/* How long an entry is used after its last frame; 0: forever. */
PCN_CONFIG(__u64, aging_ns) = 300000000000;
/* How old `seen` may be before it is updated, to avoid a write to shared memory for each frame. */
PCN_CONFIG(__u64, refresh_ns) = 1000000000;
/* The kernel's tick. By default the longest there is, with which leases are too short. */
PCN_CONFIG(__u64, tick_ns) = 10000000;
/* 32 less the binary logarithm of the number of sets of the cache. */
PCN_CONFIG(__u32, cache_shift) = 20;

/* Internal: the default number of sets. */
#define PCN_FDB_SETS 4096

/* A lease has, from the lowest bit: the port (10), PCN_FDB_SILENT, the jiffy of its end (37), the
 * generation (16). */
struct pcn_fdb_slot {
	__u64 check; /* the key, xor the lease: a slot that two CPUs write at once has neither's key */
	__u64 lease;
};

/* Internal: the slots of a set. */
#define PCN_FDB_WAYS 2

struct pcn_fdb_set {
	struct pcn_fdb_slot way[PCN_FDB_WAYS];
};

/* The first element holds the generation, where it is in a lease. Sets follow. */
PCN_MAP(fdb_cache, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_fdb_set, PCN_FDB_SETS + 1);

/* Internal: the parts of a lease. The longest lease is 1,000 jiffies. */
#define PCN_FDB_PORT 0x3ffull
#define PCN_FDB_SILENT 0x400ull /* the station's next frame makes its entry young */
#define PCN_FDB_JIFFY(n) (((n)&0x1fffffffffull) << 11)
#define PCN_FDB_LONGEST 1024ull

/* Internal: a word that another CPU may write meanwhile. */
#define PCN_FDB_READ(word) (*(const volatile __typeof__(word) *)&(word))

/* The generation and the time, in the form of a lease. Read it before anything else: what changes
 * later has another generation. */
PCN_INLINE __u64 pcn_fdb_now(void)
{
	__u32 first = 0;
	struct pcn_fdb_set *set = bpf_map_lookup_elem(&fdb_cache, &first);

	return (set ? PCN_FDB_READ(set->way[0].check) : 0) | PCN_FDB_JIFFY(bpf_jiffies64() + 1);
}

/* Internal: the set of a key, which may be NULL. */
PCN_INLINE struct pcn_fdb_set *pcn_fdb_set(__u64 key)
{
	__u64 hash = key * 0x9e3779b97f4a7c15ull;

	hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ull;
	__u32 i = ((__u32)(hash >> 32) >> cache_shift) + 1;

	return bpf_map_lookup_elem(&fdb_cache, &i);
}

/* Internal: true if the lease of a slot is the key's, even if it has ended. */
PCN_INLINE int pcn_fdb_is(const struct pcn_fdb_slot *slot, __u64 lease, __u64 key)
{
	return (PCN_FDB_READ(slot->check) ^ lease) == key;
}

/* Internal: true if a lease has not ended. */
PCN_INLINE int pcn_fdb_lasts(__u64 lease, __u64 now)
{
	return lease - now < PCN_FDB_LONGEST << 11;
}

/* Internal: the port of a key with a lease, perhaps with PCN_FDB_SILENT, or -1. */
PCN_INLINE int pcn_fdb_cached(__u64 key, __u64 now)
{
	struct pcn_fdb_set *set = pcn_fdb_set(key);

	if (!set)
		return -1;
	_Pragma("unroll") for (int i = 0; i < PCN_FDB_WAYS; i++)
	{
		__u64 lease = PCN_FDB_READ(set->way[i].lease);

		if (!pcn_fdb_is(&set->way[i], lease, key))
			continue;
		if (!pcn_fdb_lasts(lease, now))
			return -1;
		return lease & (PCN_FDB_PORT | PCN_FDB_SILENT);
	}
	return -1;
}

/* Internal: the slot for a lease of a key, or NULL. Ends leases of the key in other slots. */
PCN_INLINE struct pcn_fdb_slot *pcn_fdb_slot(struct pcn_fdb_set *set, __u64 key, __u64 now)
{
	struct pcn_fdb_slot *own = NULL, *free = NULL;

	_Pragma("unroll") for (int i = 0; i < PCN_FDB_WAYS; i++)
	{
		struct pcn_fdb_slot *slot = &set->way[i];
		__u64 lease = PCN_FDB_READ(slot->lease);

		if (pcn_fdb_is(slot, lease, key)) {
			if (own)
				slot->lease = 0;
			else
				own = slot;
		} else if (!free && !pcn_fdb_lasts(lease, now)) {
			free = slot;
		}
	}
	return own ?: free;
}

/* Internal: gives an entry a lease, unless its set is full of others. `seen` was read before.
 *
 * A CPU that moves a station writes the port, then looks through the set. One that gives the old
 * port a lease meanwhile writes the lease, then reads the port. Barriers in between: one of them
 * sees what the other wrote, and the old lease does not stay. */
PCN_INLINE void pcn_fdb_lease(__u64 key, const struct pcn_fdb_entry *entry, __u16 port, __u64 seen,
			      __u64 time, __u64 now)
{
	struct pcn_fdb_set *set = pcn_fdb_set(key);
	__s64 rest = refresh_ns, age = pcn_age(time, seen), left = aging_ns - age;
	__u64 lease = now + port - PCN_FDB_JIFFY(1);

	if (!set || port > PCN_FDB_PORT)
		return;
	struct pcn_fdb_slot *slot = pcn_fdb_slot(set, key, now);
	if (!slot)
		return;
	if (age > 0 && !entry->fixed) {
		if (age < rest)
			rest -= age;
		else
			lease |= PCN_FDB_SILENT;
		if (aging_ns && left < rest)
			rest = left;
	}
	__u64 ticks = rest > 0 ? (__u64)rest / tick_ns : 0;
	lease += PCN_FDB_JIFFY(ticks < PCN_FDB_LONGEST ? ticks : PCN_FDB_LONGEST - 1);
	slot->check = key ^ lease;
	/* Atomic operations that return a value are full barriers on all architectures. */
	lease = __sync_lock_test_and_set(&slot->lease, lease);
	asm volatile("" : : "r"(lease) : "memory");
	if (PCN_FDB_READ(entry->port) != port)
		slot->lease = 0;
}

/* Internal: moves a station to another port. See pcn_fdb_lease(). */
PCN_INLINE void pcn_fdb_move(struct pcn_fdb_entry *entry, __u16 port)
{
	__u64 word = 0;

	entry->port = port;
	word = __sync_fetch_and_add(&word, 1);
	asm volatile("" : : "r"(word) : "memory");
}

/* The results of pcn_fdb_learn. */
#define PCN_FDB_FULL 1	/* the table has no room for the station */
#define PCN_FDB_MOVED 2 /* the station was on another port */

/* Internal: for stations without a lease on the port. */
PCN_NOINLINE int pcn_fdb_learn_slowly(__u64 key, __u16 port, __u64 now)
{
	key = pcn_opaque(key, now); /* so that the hash is read after the generation */
	__u64 time = pcn_time_coarse();
	struct pcn_fdb_entry fresh = { .seen = time, .port = port };
	struct pcn_fdb_entry *entry = bpf_map_lookup_elem(&fdb, &key);
	int result = 0;

	if (!entry) {
		/* If that fails, the table is full, or another CPU just learned it, which is as
		 * good. */
		if (bpf_map_update_elem(&fdb, &key, &fresh, BPF_NOEXIST) &&
		    !bpf_map_lookup_elem(&fdb, &key))
			return PCN_FDB_FULL;
		return 0;
	}
	__u64 seen = entry->seen;
	if (entry->fixed) {
		if (entry->port == port)
			pcn_fdb_lease(key, entry, port, seen, time, now);
		return 0;
	}
	if (entry->port != port) {
		/* an expired entry is new, whatever its port was */
		if (!pcn_aged(time, seen, aging_ns))
			result = PCN_FDB_MOVED;
		pcn_fdb_move(entry, port);
		entry->seen = seen = time;
	} else if (pcn_refresh_due(time, seen, refresh_ns)) {
		entry->seen = seen = time;
	}
	pcn_fdb_lease(key, entry, port, seen, time, now);
	return result;
}

/* Learns that a station sends from a port, or makes its entry young: 0, PCN_FDB_FULL or
 * PCN_FDB_MOVED. now is from pcn_fdb_now(). */
PCN_INLINE int pcn_fdb_learn(__u64 key, __u16 port, __u64 now)
{
	if (pcn_fdb_cached(key, now) == port)
		return 0;
	return pcn_fdb_learn_slowly(key, port, now);
}

/* Internal: what other CPUs do between a read of the hash and the lease that follows: a test defines
 * it. */
#ifndef PCN_FDB_MEANWHILE
#define PCN_FDB_MEANWHILE(key, now)
#endif

/* Internal: for stations without a lease. */
PCN_NOINLINE int pcn_fdb_find_slowly(__u64 key, __u64 now)
{
	key = pcn_opaque(key, now);
	__u64 time = pcn_time_coarse();
	struct pcn_fdb_entry *entry = bpf_map_lookup_elem(&fdb, &key);

	if (!entry || pcn_fdb_aged(entry, time, aging_ns))
		return -1;
	__u16 port = PCN_FDB_READ(entry->port);
	PCN_FDB_MEANWHILE(key, now);
	pcn_fdb_lease(key, entry, port, entry->seen, time, now);
	return port;
}

/* The port of a station, or -1 if there is no entry for it, or only an expired one. now is from
 * pcn_fdb_now(). */
PCN_INLINE int pcn_fdb_find(__u64 key, __u64 now)
{
	int port = pcn_fdb_cached(key, now);

	if (port < 0)
		return pcn_fdb_find_slowly(key, now);
	return port & PCN_FDB_PORT;
}

#endif
