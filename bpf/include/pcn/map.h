// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Maps of a cube: private, or shared with other cubes. They are pinned as long as a cube uses them,
 * and kept by name when programs are relinked or the daemon is restarted or replaced.
 *
 * scope    macro            who can access it
 * private  PCN_MAP          one instance only
 * shared   PCN_MAP_SHARED   all cubes, of any service, whose programs name the same namespace
 * public   PCN_MAP_PUBLIC   all instances of the service that declares it, and the cubes that
 *          PCN_MAP_EXTERN   import it by the names of service and map
 *
 * Every cube with access to a shared or public map can write to it. All declarations must be
 * identical. */
#ifndef PCN_MAP_H
#define PCN_MAP_H

#include <pcn/ctx.h>

/* PCN_MAP(fdb, BPF_MAP_TYPE_HASH, struct fdb_key, struct fdb_entry, 4096); */
#define PCN_MAP(name, kind, key_type, value_type, entries) \
	PCN_MAP_FLAGS(name, kind, key_type, value_type, entries, 0)

/* The same with map flags (BPF_F_NO_PREALLOC ...). */
#define PCN_MAP_FLAGS(name, kind, key_type, value_type, entries, flags) \
	PCN_MAP_STRUCT(kind, key_type, value_type, entries, flags) name SEC(".maps")

/* PCN_MAP_SHARED(flows, sessions, BPF_MAP_TYPE_LRU_HASH, struct flow, struct session, 65536);
 * The namespace is a bare word. */
#define PCN_MAP_SHARED(namespace, name, kind, key_type, value_type, entries) \
	PCN_MAP_SHARED_FLAGS(namespace, name, kind, key_type, value_type, entries, 0)
/* The same with map flags. */
#define PCN_MAP_SHARED_FLAGS(namespace, name, kind, key_type, value_type, entries, flags) \
	PCN_MAP_STRUCT(kind, key_type, value_type, entries, flags)                        \
	name SEC(".maps") PCN_MAP_TAG("pcn_shared:" #namespace)

/* One map for all instances of the service; other services access it with PCN_MAP_EXTERN. */
#define PCN_MAP_PUBLIC(name, kind, key_type, value_type, entries) \
	PCN_MAP_PUBLIC_FLAGS(name, kind, key_type, value_type, entries, 0)
/* The same with map flags. */
#define PCN_MAP_PUBLIC_FLAGS(name, kind, key_type, value_type, entries, flags) \
	PCN_MAP_STRUCT(kind, key_type, value_type, entries, flags)             \
	name SEC(".maps") PCN_MAP_TAG("pcn_public")

/* The public map of another service; size and flags are taken from its declaration. */
#define PCN_MAP_EXTERN(service, name, kind, key_type, value_type) \
	PCN_MAP_STRUCT(kind, key_type, value_type, 1, 0)          \
	name SEC(".maps") PCN_MAP_TAG("pcn_extern:" #service)

/* An array or hash of maps: sets of entries that Go code replaces as a whole (cube.MapOf), so that
 * a packet sees either the old set or the new one, never a mixture. The inner map is a template. An
 * inner array always has inner_entries entries, unless inner_flags has BPF_F_INNER_MAP.
 *
 *	__u32 service = 0, slot = 7;
 *	void *ring = bpf_map_lookup_elem(&rings, &service);
 *	__u32 *backend = ring ? bpf_map_lookup_elem(ring, &slot) : NULL; */
#define PCN_MAP_OF_MAPS(name, kind, key_type, entries, inner_kind, inner_key, inner_value,  \
			inner_entries, inner_flags)                                         \
	PCN_MAP_OF_MAPS_STRUCT(kind, key_type, entries, inner_kind, inner_key, inner_value, \
			       inner_entries, inner_flags)                                  \
	name SEC(".maps")

/* The same, shared like PCN_MAP_SHARED: PCN_MAP_OF_MAPS_SHARED(namespace, name, ...). */
#define PCN_MAP_OF_MAPS_SHARED(namespace, name, kind, key_type, entries, inner_kind, inner_key, \
			       inner_value, inner_entries, inner_flags)                         \
	PCN_MAP_OF_MAPS_STRUCT(kind, key_type, entries, inner_kind, inner_key, inner_value,     \
			       inner_entries, inner_flags)                                      \
	name SEC(".maps") PCN_MAP_TAG("pcn_shared:" #namespace)

/* In front of a map: its entries may be dropped. If a later version declares the map with another
 * layout, or too small for them, it starts empty, and the service need not convert them.
 *
 *	PCN_DISPOSABLE PCN_MAP(cache, BPF_MAP_TYPE_LRU_HASH, __u32, struct answer, 1024); */
#define PCN_DISPOSABLE PCN_MAP_TAG("pcn_disposable")

/* Internal: a map without a name. */
#define PCN_MAP_STRUCT(kind, key_type, value_type, entries, flags) \
	struct {                                                   \
		__uint(type, kind);                                \
		__uint(max_entries, entries);                      \
		__uint(map_flags, flags);                          \
		__type(key, key_type);                             \
		__type(value, value_type);                         \
	}
/* Internal: a map of maps without a name. */
#define PCN_MAP_OF_MAPS_STRUCT(kind, key_type, entries, inner_kind, inner_key, inner_value, \
			       inner_entries, inner_flags)                                  \
	struct {                                                                            \
		__uint(type, kind);                                                         \
		__uint(max_entries, entries);                                               \
		__type(key, key_type);                                                      \
		__array(values, PCN_MAP_STRUCT(inner_kind, inner_key, inner_value, inner_entries,  \
					       inner_flags));                               \
	}
/* Internal: passes a word to the daemon. */
#define PCN_MAP_TAG(text) __attribute__((btf_decl_tag(text)))

#endif
