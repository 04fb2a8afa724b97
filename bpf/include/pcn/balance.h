// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Chooses the server of a packet: the service that it is for, and of its pool the server that Maglev's table has for the
 * flow's hash (Eisenbud et al., NSDI 2016), or, in small pools of some cubes, the one that comes first for the hash (highest random
 * weight: Thaler and Ravishankar, 1998). Go package balance writes the tables; the same configuration leads to the same
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

/* Internal: the memory of the tables consists of parts with this many bytes, each the only element of an array. Tables with slots
 * begin at a multiple of 2 KB, those without at a multiple of 128 bytes. Go package balance has the same numbers. */
#define PCN_BALANCE_PART (1 << 18)
#define PCN_BALANCE_PARTS 4096
typedef __u64 pcn_balance_words[PCN_BALANCE_PART / 8];

/* Internal: the slots of a table, prime numbers, and the bytes in front of its list of servers, whose last two are the
 * length of the list. A slot is a place in the list: one byte, in a wide table two. */
#define PCN_BALANCE_SMALL_SLOTS 1021
#define PCN_BALANCE_SMALL_LIST 1024
#define PCN_BALANCE_LARGE_SLOTS 64499
#define PCN_BALANCE_LARGE_LIST 64512
#define PCN_BALANCE_WIDE_LIST 129008

/* Internal: a table in struct pcn_service: its part in the upper half, then where it begins, as above, and its kind. */
enum pcn_balance_kind {
	PCN_BALANCE_SMALL = 1,
	PCN_BALANCE_LARGE,
	PCN_BALANCE_WIDE,
	PCN_BALANCE_RENDEZVOUS, /* without slots */
};

/* Internal: a table without slots. The list of servers begins behind the length; then, from a multiple of 8 on, a seed of each
 * server (8 bytes), and, if their weights differ, the inverse of each one's (4 bytes): 24 bits and, above, by how many the product is
 * shifted. Go package balance writes it. */
#define PCN_BALANCE_DIFFER 0 /* a byte: weights differ */
#define PCN_BALANCE_RENDEZVOUS_LIST 8
#define PCN_BALANCE_RENDEZVOUS_MEMBERS 32
#define PCN_BALANCE_RENDEZVOUS_SPACE \
	640 /* of 32 members; no table begins with less up to the end of its part */

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
	struct pcn_balance_table t = { .kind = pool & 0xff };

	t.memory = bpf_map_lookup_elem(&balance_memory, &part);
	t.memory = t.memory ? bpf_map_lookup_elem((void *)t.memory, &zero) : NULL;
	t.at = (__u32)pool >> 8 << (t.kind == PCN_BALANCE_RENDEZVOUS ? 7 : 11);
	t.list = PCN_BALANCE_LARGE_LIST;
	t.slots = PCN_BALANCE_LARGE_SLOTS;
	if (t.kind == PCN_BALANCE_SMALL) {
		t.slots = PCN_BALANCE_SMALL_SLOTS;
		t.list = PCN_BALANCE_SMALL_LIST;
	} else if (t.kind == PCN_BALANCE_WIDE) {
		t.list = PCN_BALANCE_WIDE_LIST;
	} else if (t.kind == PCN_BALANCE_RENDEZVOUS) {
		t.list = PCN_BALANCE_RENDEZVOUS_LIST;
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

/* The length of the list of servers of a table whose memory is not NULL; pcn_balance_number reads the list. */
PCN_INLINE __u32 pcn_balance_members(const struct pcn_balance_table *t)
{
	return *(const __u16 *)(t->memory + ((t->at + t->list - 2) & (PCN_BALANCE_PART - 2)));
}

/* Internal: -log2(1 - x) for x from 0 to 1 in steps of 1/128, in units of 2^-28, to be interpolated: less by as much as the
 * straight lines between the points are above the curve. The last one gives the last step its mean. */
static const __u32 pcn_balance_logs[129] = {
	0x00000000, 0x002e5126, 0x005d07c9, 0x008c1db6, 0x00bb9473, 0x00eb6d94, 0x011baab2,
	0x014c4d74, 0x017d5788, 0x01aecaab, 0x01e0a8a1, 0x0212f33c, 0x0245ac5a, 0x0278d5e4,
	0x02ac71d2, 0x02e08227, 0x031508f5, 0x034a085b, 0x037f828a, 0x03b579be, 0x03ebf046,
	0x0422e881, 0x045a64dd, 0x049267dc, 0x04caf411, 0x05040c24, 0x053db2cf, 0x0577eae1,
	0x05b2b73f, 0x05ee1ae4, 0x062a18e2, 0x0666b465, 0x06a3f0af, 0x06e1d11e, 0x0720592c,
	0x075f8c6f, 0x079f6e9b, 0x07e00381, 0x08214f16, 0x0863556d, 0x08a61ac1, 0x08e9a36d,
	0x092df3f7, 0x0973110b, 0x09b8ff80, 0x09ffc45b, 0x0a4764cd, 0x0a8fe63b, 0x0ad94e3a,
	0x0b23a299, 0x0b6ee95d, 0x0bbb28c6, 0x0c086756, 0x0c56abcd, 0x0ca5fd35, 0x0cf662de,
	0x0d47e467, 0x0d9a89c2, 0x0dee5b34, 0x0e436161, 0x0e99a54d, 0x0ef13061, 0x0f4a0c74,
	0x0fa443cf, 0x0fffe139, 0x105ceff7, 0x10bb7bdb, 0x111b9149, 0x117d3d45, 0x11e08d78,
	0x1245903f, 0x12ac54b8, 0x1314eace, 0x137f6348, 0x13ebcfda, 0x145a4334, 0x14cad11a,
	0x153d8e75, 0x15b2916d, 0x1629f181, 0x16a3c7a5, 0x17202e5f, 0x179f41ec, 0x18212065,
	0x18a5e9ea, 0x192dc0d4, 0x19b8c9e7, 0x1a472c8e, 0x1ad91323, 0x1b6eab33, 0x1c0825db,
	0x1ca5b824, 0x1d479b73, 0x1dee0e05, 0x1e995383, 0x1f49b5a1, 0x1fff84e4, 0x20bb1978,
	0x217cd437, 0x22451fd2, 0x23147235, 0x23eb4e28, 0x24ca453c, 0x25b1fa26, 0x26a32380,
	0x279e8f31, 0x28a52691, 0x29b7f381, 0x2ad826c4, 0x2c071ff3, 0x2d4677a2, 0x2e980c5b,
	0x2ffe138f, 0x317b3000, 0x33128fd2, 0x34c815c7, 0x36a092ea, 0x38a2192d, 0x3ad47548,
	0x3d41e85e, 0x3ff84e3e, 0x430b0642, 0x46965091, 0x4ac5af57, 0x4fe138f6, 0x566d472e,
	0x5f84e3d9, 0x6e138f62, 0xa016ff68,
};

/* Internal: a random number of a server for a hash. Its upper half is used. */
PCN_INLINE __u64 pcn_balance_draw(__u64 hash, __u64 seed)
{
	__u64 x = (hash ^ seed) * 0xd6e8feb86659fd93ULL;

	return (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
}

/* Internal: how far behind a server is, by its random number: -log2 of it, divided by its weight. The smallest of several is that of a
 * server as often as its weight says. */
PCN_INLINE __u64 pcn_balance_behind(__u32 random, __u32 inverse)
{
	__u64 from = pcn_balance_logs[random >> 25], to = pcn_balance_logs[(random >> 25) + 1];

	from += (to - from) * (random & 0x1ffffff) >> 25;
	return from * (inverse & 0xffffff) >> (inverse >> 24 & 31);
}

/* Internal: the smaller one of two numbers below 2^63, without a branch, which would be guessed wrong. */
PCN_INLINE __u64 pcn_balance_smaller(__u64 a, __u64 b)
{
	__s64 less = b - a, mask = less >> 63;

	asm volatile("" : "+r"(mask)); /* the compiler would make it a branch */
	return a + (less & mask);
}

/* Internal: the number of the server in a table without slots for a hash: the one that is least behind. What the others are does
 * not matter to the order of two, so no flow moves between them when servers come and go. */
PCN_GLOBAL int pcn_balance_rendezvous(__u64 pool, __u64 hash)
{
	__u32 part = pool >> 32, at = (__u32)pool >> 8 << 7, zero = 0;
	const __u8 *memory = bpf_map_lookup_elem(&balance_memory, &part);

	memory = memory ? bpf_map_lookup_elem((void *)memory, &zero) : NULL;
	if (!memory || at > PCN_BALANCE_PART - PCN_BALANCE_RENDEZVOUS_SPACE)
		return 0;
	memory += at;
	__u32 members = *(const __u16 *)(memory + PCN_BALANCE_RENDEZVOUS_LIST - 2);
	__u64 best = ~0ULL >> 1;

	if (members > PCN_BALANCE_RENDEZVOUS_MEMBERS)
		return 0;
	const __u32 *list = (const void *)(memory + PCN_BALANCE_RENDEZVOUS_LIST);
	const __u64 *seeds = (const void *)(list + ((members + 1) & ~1U));
	const __u32 *inverses = (const void *)(seeds + members);

	if (!memory[PCN_BALANCE_DIFFER]) {
		for (__u32 i = 0; i < PCN_BALANCE_RENDEZVOUS_MEMBERS && i < members; i++)
			best = pcn_balance_smaller(
				best, (pcn_balance_draw(hash, seeds[i]) >> 1 & ~31ULL) | i);
	} else {
		for (__u32 i = 0; i < PCN_BALANCE_RENDEZVOUS_MEMBERS && i < members; i++)
			best = pcn_balance_smaller(
				best, pcn_balance_behind(pcn_balance_draw(hash, seeds[i]) >> 32,
							 inverses[i])
						      << 5 |
					      i);
	}
	return list[best & 31];
}

/* The same as pcn_balance_server, for cubes whose tables all have slots (balance.Large). */
PCN_INLINE __u32 pcn_balance_slotted(__u64 pool, __u64 hash)
{
	struct pcn_balance_table t = pcn_balance_open(pool);

	if (!t.memory || !t.kind)
		return 0;
	return pcn_balance_slot(&t, (hash >> 32) * t.slots >> 32);
}

/* The number of the server in the table `pool` of a service for a hash; 0: the pool has none. */
PCN_INLINE __u32 pcn_balance_server(__u64 pool, __u64 hash)
{
	if ((pool & 0xff) == PCN_BALANCE_RENDEZVOUS)
		return pcn_balance_rendezvous(pool, hash);
	return pcn_balance_slotted(pool, hash);
}

/* The same for the next flow of a service whose servers take turns (balance.Turns): `turn` counts its flows. */
PCN_INLINE __u32 pcn_balance_turn(__u64 pool, __u32 turn)
{
	struct pcn_balance_table t = pcn_balance_open(pool);

	if (!t.memory || !t.kind)
		return 0;
	if (t.kind == PCN_BALANCE_RENDEZVOUS) { /* until the service has its new table */
		t.slots = pcn_balance_members(&t);
		return pcn_balance_number(&t, turn % (t.slots ?: 1));
	}
	return pcn_balance_slot(&t, turn % t.slots);
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
