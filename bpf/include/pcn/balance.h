// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Chooses the server of a packet: the service that it is for, and of its pool the server that Maglev's table has for the
 * flow's hash (Eisenbud et al., NSDI 2016). Go package balance writes the tables; the same configuration leads to the same
 * servers on every machine. <pcn/balance_pins.h> keeps flows where they are when a pool changes. */
#ifndef PCN_BALANCE_H
#define PCN_BALANCE_H

#include <pcn/flow.h>
#include <pcn/hash.h>
#include <pcn/map.h>

/* What packets of a service have in common. */
struct pcn_service_key {
	pcn_address address;
	__be16 port;   /* 0: all that are not of another service */
	__u8 protocol; /* 0: all, with port 0 */
	__u8 zero;
};

/* How the flows of a service are told apart: what the hash is of, in bits. */
enum pcn_balance_by {
	PCN_BALANCE_BY_SOURCE = 0,	  /* source address */
	PCN_BALANCE_WITH_DESTINATION = 1, /* and destination address and protocol */
	PCN_BALANCE_WITH_PORTS = 2,	  /* and ports */
	PCN_BALANCE_BY_QUIC = 4, /* the server ID in QUIC's connection ID, where it has one */
};

struct pcn_service {
	__u64 pool;   /* where its table is; 0: no server */
	__u32 id;     /* 1 to PCN_BALANCE_SERVICES - 1 */
	__u8 by;      /* enum pcn_balance_by */
	__u8 timeout; /* of pins, in their units */
	__u16 flags;  /* the cube's own */
};

/* Internal: pins have so many bits for each number. */
#define PCN_BALANCE_SERVICES (1 << 20)
#define PCN_BALANCE_SERVERS (1 << 20)

PCN_MAP_FLAGS(services, BPF_MAP_TYPE_HASH, struct pcn_service_key, struct pcn_service, 32768,
	      BPF_F_NO_PREALLOC);

/* Internal: which server has which number; 0 is none. For the control plane: balance.Numbers. */
struct pcn_server_key {
	__u64 key[3];
	__u64 used;
};
PCN_MAP_FLAGS(server_keys, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_server_key, 64, BPF_F_MMAPABLE);

/* Internal: the memory of the tables consists of parts with this many bytes, each the only element of an array, and
 * tables begin at a multiple of a unit. Go package balance has the same numbers. */
#define PCN_BALANCE_PART (1 << 18)
#define PCN_BALANCE_UNIT (1 << 11)
#define PCN_BALANCE_PARTS 4096
typedef __u64 pcn_balance_words[PCN_BALANCE_PART / 8];

/* Internal: the slots of a table, prime numbers, and the bytes in front of its list of servers, whose last two are the
 * length of the list. A slot is a place in the list: one byte, in a wide table two. */
#define PCN_BALANCE_SMALL_SLOTS 1021
#define PCN_BALANCE_SMALL_LIST 1024
#define PCN_BALANCE_LARGE_SLOTS 64499
#define PCN_BALANCE_LARGE_LIST 64512
#define PCN_BALANCE_WIDE_LIST 129008

/* Internal: a table in struct pcn_service: its part in the upper half, then the unit, and its kind. */
enum pcn_balance_kind { PCN_BALANCE_SMALL = 1, PCN_BALANCE_LARGE, PCN_BALANCE_WIDE };

PCN_MAP_OF_MAPS(balance_memory, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, PCN_BALANCE_PARTS,
		BPF_MAP_TYPE_ARRAY, __u32, pcn_balance_words, 1, BPF_F_MMAPABLE);

/* The service of a flow: that of its port, else that of its address; NULL if there is none. A flow without a port, such
 * as a later fragment, is only of the service of an address. */
PCN_INLINE struct pcn_service *pcn_balance_service(const struct pcn_flow *flow)
{
	struct pcn_service_key key;
	__u32 *rest =
		(void *)&key.port; /* written at once, as the kernel's hash reads it at once */
	struct pcn_service *service;

	pcn_address_copy(key.address, flow->destination);
	if (flow->has & PCN_FLOW_PORTS) {
		*rest = flow->destination_port | (__u32)flow->protocol << 16;
		service = bpf_map_lookup_elem(&services, &key);
		if (service)
			return service;
	}
	*rest = 0;
	return bpf_map_lookup_elem(&services, &key);
}

/* The hash of a flow as a service tells flows apart (enum pcn_balance_by). Its seed is fixed, because all machines with
 * the same services must choose the same servers. */
PCN_INLINE __u64 pcn_balance_hash(const struct pcn_flow *flow, __u32 by)
{
	const struct pcn_hash_seed seed = { { 0x9e3779b97f4a7c15ULL, 0xc2b2ae3d27d4eb4fULL,
					      0x165667b19e3779f9ULL } };
	__u64 from = (__u64)flow->source[2] << 32 | flow->source[3];
	__u64 to = (__u64)flow->destination[2] << 32 | flow->destination[3];
	__u64 ports = (__u64)flow->protocol << 32;

	from ^= ((__u64)flow->source[0] << 32 | flow->source[1]) * 0x9e3779b97f4a7c15ULL;
	to ^= ((__u64)flow->destination[0] << 32 | flow->destination[1]) * 0xc2b2ae3d27d4eb4fULL;
	ports |= (__u32)flow->source_port << 16 | flow->destination_port;
	if ((by & 3) != 3) {
		/* Masks, so that there is one path. For most services there is none of this, and the
		 * processor need not wait for the service: it begins with the hash, and with what is
		 * found by it, while the service is looked up. */
		__u64 destination = -(__u64)(by & PCN_BALANCE_WITH_DESTINATION);
		__u64 with_ports = -(__u64)(by >> 1 & 1);

		asm volatile("" : "+r"(destination), "+r"(with_ports));
		to &= destination;
		ports &= (destination & ~0xffffffffULL) | (with_ports & 0xffffffff);
	}
	return pcn_hash_words(&seed, from, to, ports);
}

/* A table that is read. `memory` is NULL if there is none. */
struct pcn_balance_table {
	const __u8 *memory;
	__u32 at, list, slots, kind;
};

/* Returns the table `pool` of a service, for the functions below. */
PCN_INLINE struct pcn_balance_table pcn_balance_open(__u64 pool)
{
	__u32 part = pool >> 32, zero = 0;
	struct pcn_balance_table t = { .at = (__u32)pool >> 8 << 11, .kind = pool & 0xff };

	t.memory = bpf_map_lookup_elem(&balance_memory, &part);
	t.memory = t.memory ? bpf_map_lookup_elem((void *)t.memory, &zero) : NULL;
	t.list = PCN_BALANCE_LARGE_LIST;
	t.slots = PCN_BALANCE_LARGE_SLOTS;
	if (t.kind == PCN_BALANCE_SMALL) {
		t.slots = PCN_BALANCE_SMALL_SLOTS;
		t.list = PCN_BALANCE_SMALL_LIST;
	} else if (t.kind == PCN_BALANCE_WIDE) {
		t.list = PCN_BALANCE_WIDE_LIST;
	}
	return t;
}

/* The number of the server at a place in the list of a table whose memory is not NULL. */
PCN_INLINE __u32 pcn_balance_number(const struct pcn_balance_table *t, __u32 rank)
{
	return *(const __u32 *)(t->memory +
				((t->at + t->list + 4 * rank) & (PCN_BALANCE_PART - 4)));
}

/* Internal: the number of the server in a slot. */
PCN_INLINE __u32 pcn_balance_slot(const struct pcn_balance_table *t, __u32 slot)
{
	__u32 rank;

	/* So that the processor fetches the list with the slot, not after it: with many services, neither is in a cache. */
	(void)*(const volatile __u32 *)(t->memory + ((t->at + t->list) & (PCN_BALANCE_PART - 4)));
	if (t->kind == PCN_BALANCE_WIDE)
		rank = *(const __u16 *)(t->memory + ((t->at + 2 * slot) & (PCN_BALANCE_PART - 2)));
	else
		rank = t->memory[(t->at + slot) & (PCN_BALANCE_PART - 1)];
	return pcn_balance_number(t, rank);
}

/* The number of the server in the table `pool` of a service for a hash; 0: the pool has none. */
PCN_INLINE __u32 pcn_balance_server(__u64 pool, __u64 hash)
{
	struct pcn_balance_table t = pcn_balance_open(pool);

	if (!t.memory || !t.kind)
		return 0;
	return pcn_balance_slot(&t, (hash >> 32) * t.slots >> 32);
}

/* The same for the next flow of a service whose servers take turns (balance.Turns): `turn` counts its flows. */
PCN_INLINE __u32 pcn_balance_turn(__u64 pool, __u32 turn)
{
	struct pcn_balance_table t = pcn_balance_open(pool);

	if (!t.memory || !t.kind)
		return 0;
	return pcn_balance_slot(&t, turn % t.slots);
}

/* The length of the list of servers of a table whose memory is not NULL; pcn_balance_number reads the list. */
PCN_INLINE __u32 pcn_balance_members(const struct pcn_balance_table *t)
{
	return *(const __u16 *)(t->memory + ((t->at + t->list - 2) & (PCN_BALANCE_PART - 2)));
}

/* Internal: how many servers are compared at most: with more, the comparison begins at a random one. */
#define PCN_BALANCE_COMPARED 64

/* The number of the server in the table `pool` of a service that comes first by `better`, which returns the better one of two
 * numbers, of which the first may be 0; 0: the pool has none. Equal ones come first as often as each other. */
PCN_INLINE __u32 pcn_balance_least(__u64 pool, int (*better)(__u32 best, __u32 number))
{
	struct pcn_balance_table t = pcn_balance_open(pool);

	if (!t.memory || !t.kind)
		return 0;
	t.list = pcn_opaque(t.list, pool); /* one path for all kinds of table */
	t.at = pcn_opaque(t.at, pool);
	__u64 members = pcn_balance_members(&t), rank = bpf_get_prandom_u32();
	__u32 best = 0;

	if (!members)
		return 0;
	rank %= members;
	for (__u32 i = 0; i < PCN_BALANCE_COMPARED; i++) {
		if (i >= members)
			break;
		best = better(best, pcn_balance_number(&t, rank));
		rank++;
		rank &= -((rank - members) >> 63); /* 0 after the last one */
	}
	return best;
}

#endif
