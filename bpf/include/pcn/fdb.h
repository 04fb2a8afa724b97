// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The filtering database of a bridge: the port of each station. The control plane of the map, which
 * must be called fdb, is package fdb. */
#ifndef PCN_FDB_H
#define PCN_FDB_H

#include <pcn/time.h>

/* A station's entry. Programs that learn only change port and seen, and only of learned entries. */
struct pcn_fdb_entry {
	__u64 seen; /* coarse monotonic ns of approximately the last frame */
	__u16 port;
	__u8 fixed; /* configured: not learned, does not age */
	__u8 pad[5];
};

/* True if an entry has expired: its station was silent for longer than aging_ns; 0 means never. */
PCN_INLINE int pcn_fdb_aged(const struct pcn_fdb_entry *entry, __u64 now, __u64 aging_ns)
{
	return pcn_aged(now, entry->seen, aging_ns) && !entry->fixed;
}

#endif
