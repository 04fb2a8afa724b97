// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Monitors in the C of the first Polycube: `dynmon` translates tables and their methods to maps and functions, and includes
 * this header before everything else. */
#ifndef PCN_TABLES_H
#define PCN_TABLES_H

#include <pcn/monitor.h>
#include <pcn/names.h>
#include <linux/if_ether.h>
#include <linux/in.h>

/* Names of types and functions of the kernel. */
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s8 int8_t;
typedef __s16 int16_t;
typedef __s32 int32_t;
typedef __s64 int64_t;

#define memcpy __builtin_memcpy
#define memset __builtin_memset
#define lock_xadd(to, amount) ((void)__sync_fetch_and_add((to), (amount)))

#define htons bpf_htons
#define ntohs bpf_ntohs
#define htonl bpf_htonl
#define ntohl bpf_ntohl
#define cpu_to_be64 bpf_cpu_to_be64
#define be64_to_cpu bpf_be64_to_cpu

/* 0 is the ingress path, 1 the egress path. */
#define POLYCUBE_PROGRAM_TYPE PCN_MONITOR_PATH
#ifdef PCN_XDP
#define POLYCUBE_XDP 1
#endif

/* Nanoseconds since 1970. */
PCN_INLINE __u64 pcn_get_time_epoch(void)
{
	return bpf_ktime_get_tai_ns();
}

/* The number of the cube. */
#define CUBE_ID pcn_instance(md)

/* A queue or a stack: PCN_QUEUE(name, BPF_MAP_TYPE_QUEUE, __u32, 1024); */
#define PCN_QUEUE(name, kind, value_type, entries) \
	struct {                                   \
		__uint(type, kind);                \
		__uint(max_entries, entries);      \
		__uint(key_size, 0);               \
		__type(value, value_type);         \
	} name SEC(".maps")

/* Internal: table.lookup_or_init(&key, &value). */
PCN_INLINE void *pcn_table_lookup_or_init(void *table, const void *key, const void *value)
{
	void *entry = bpf_map_lookup_elem(table, key);

	if (entry)
		return entry;
	bpf_map_update_elem(table, key, value, BPF_NOEXIST);
	return bpf_map_lookup_elem(table, key);
}

/* Internal: table.increment(key, amount). */
#define pcn_table_increment(table, k, amount)                                        \
	({                                                                           \
		typeof(*(table).key) pcn_key = (k);                                  \
		typeof(*(table).value) pcn_zero = 0, *pcn_entry;                     \
		pcn_entry = pcn_table_lookup_or_init(&(table), &pcn_key, &pcn_zero); \
		if (pcn_entry)                                                       \
			__sync_fetch_and_add(pcn_entry, (amount));                   \
	})

/* Internal: the program, whose code is handle_rx. */
#define PCN_RESTRICTED_MONITOR                                           \
	PCN_PROGRAM(pcn_monitor)                                         \
	{                                                                \
		return pcn_monitor_verdict(ctx, md, handle_rx(ctx, md)); \
	}

#endif
