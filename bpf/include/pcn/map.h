// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Maps of a cube. Every instance has its own, pinned as long as the cube lives, and carried
 * over by name when the programs are reloaded. */
#ifndef PCN_MAP_H
#define PCN_MAP_H

#include <pcn/ctx.h>

/* PCN_MAP(fdb, BPF_MAP_TYPE_HASH, struct fdb_key, struct fdb_entry, 4096); */
#define PCN_MAP(name, kind, key_type, value_type, entries) \
	PCN_MAP_FLAGS(name, kind, key_type, value_type, entries, 0)

/* The same with map flags (BPF_F_NO_PREALLOC ...). */
#define PCN_MAP_FLAGS(name, kind, key_type, value_type, entries, flags) \
	struct {                                                        \
		__uint(type, kind);                                     \
		__uint(max_entries, entries);                           \
		__uint(map_flags, flags);                               \
		__type(key, key_type);                                  \
		__type(value, value_type);                              \
	} name SEC(".maps")

#endif
