// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The memory of the connection table, which Go package conntrack/table sets up, sweeps and reads. Include
 * <pcn/conntrack.h>. Nothing here depends on the size of the maps, so they may be replaced by larger ones.
 * docs/adr/0048-connection-table.md explains it. */
#ifndef PCN_CONNTRACK_TABLE_H
#define PCN_CONNTRACK_TABLE_H

#include <pcn/address.h>
#include <pcn/conntrack_state.h>
#include <pcn/map.h>

/* Internal: the entries of the table. Entry 0 is not used. */
#define PCN_CONNTRACK_ENTRIES (1 << 18)

/* What all packets of a connection have in common, in both directions: its ends, sorted. */
struct pcn_conntrack_key {
	pcn_address address[2];
	__be16 port[2];
	__u16 zone;
	__u8 protocol;
	__u8 ipv6; /* so that no IPv6 packet is one of IPv4: both have addresses of one type */
} __attribute__((aligned(8)));

/* The life of an entry. Programs find entries that are OPEN, and only these. */
enum pcn_conntrack_status {
	PCN_CONNTRACK_IS_FREE,
	PCN_CONNTRACK_IS_OPEN,
	PCN_CONNTRACK_IS_TENTATIVE, /* claimed, but not confirmed to be the only one of its key */
	PCN_CONNTRACK_IS_OUTBID,    /* it was tentative, and another of the same key ended it */
	PCN_CONNTRACK_IS_WITHDRAWN, /* it lost; the sweeper frees it */
	PCN_CONNTRACK_IS_ENDED,	    /* it was open; the sweeper removes it */
};

/* A connection. `mark`, `rule` and `user` belong to the cube that opened it, and the table does not read
 * them. A cube with more to store has an array of its own, by the number of the entry. */
struct pcn_conntrack_entry {
	struct pcn_conntrack_key key;
	__u32 status;	  /* enum pcn_conntrack_status; only the table writes it */
	__u32 generation; /* of the zone's rules when they accepted the connection */
	__u64 seen;	  /* pcn_time_coarse() of its last packet */
	__u32 mark;
	__u32 rule;
	struct pcn_ct_state state;
	__u64 user[2];
};

_Static_assert(sizeof(struct pcn_conntrack_entry) == 128, "an entry is two cache lines");

/* Internal: words of a line: the tag in the upper 8 bits, the number of an entry in the lower 24. */
#define PCN_CONNTRACK_WORDS 15
#define PCN_CONNTRACK_NUMBER 0xffffff

/* Internal: references to entries. Those that do not fit are in the next line, but not further. */
struct pcn_conntrack_line {
	__u32 word[PCN_CONNTRACK_WORDS];
	__u32 beyond; /* at least as many as are in the next line instead */
};

/* Internal: numbers that a CPU takes at a time. */
#define PCN_CONNTRACK_TAKES 16

/* Internal: a part of the ring of free numbers. */
struct pcn_conntrack_frees {
	__u32 number[PCN_CONNTRACK_TAKES];
};

/* Internal: free numbers of a CPU, the last `left` of them. */
struct pcn_conntrack_taken {
	__u32 left;
	__u32 zero[15];
	__u32 number[PCN_CONNTRACK_TAKES];
};

/* Internal: the first line does not change while programs use the table. */
struct pcn_conntrack_control {
	__u64 seed[5]; /* random, for the hash: one for each word of a key */
	__u32 lines;   /* mask of the number of a line */
	__u32 ring;    /* mask of the number of a part of the ring; 0: the table is not set up */
	__u32 zero[4];
	__u32 head; /* numbers taken from the ring, modulo 2^32 */
	__u32 zero1[15];
	__u32 tail; /* numbers put into the ring */
	__u32 zero2[15];
};

/* Internal: what the control plane sets for a zone, and the number of its connections. */
struct pcn_conntrack_zone {
	__u32 count;
	__u32 limit; /* 0: none */
	__u32 generation;
	__u32 owner; /* the control plane's; 0: none */
};

/* Internal: half-open connections, and the words of a line that refer to them. */
#define PCN_CONNTRACK_EMBRYOS (1 << 14)
#define PCN_CONNTRACK_EMBRYO_WORDS 16

/* Internal: references to half-open connections: the tag in the upper 8 bits, a ticket in the lower 24. */
struct pcn_conntrack_embryo_line {
	__u32 word[PCN_CONNTRACK_EMBRYO_WORDS];
};

/* Internal: the first line does not change while programs use the table. */
struct pcn_conntrack_embryo_ring {
	__u32 embryos; /* mask of a ticket: its entry; 0: the table is not set up */
	__u32 lines;   /* mask of the number of a line */
	__u32 zero[14];
	__u32 head; /* the next ticket, modulo 2^32 */
	__u32 zero1[15];
};

PCN_MAP_SHARED_FLAGS(conntrack, ct_embryos, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_entry,
		     PCN_CONNTRACK_EMBRYOS, BPF_F_MMAPABLE);
PCN_MAP_SHARED(conntrack, ct_embryo_lines, BPF_MAP_TYPE_ARRAY, __u32,
	       struct pcn_conntrack_embryo_line, PCN_CONNTRACK_EMBRYOS / 8);
PCN_MAP_SHARED_FLAGS(conntrack, ct_embryo_ring, BPF_MAP_TYPE_ARRAY, __u32,
		     struct pcn_conntrack_embryo_ring, 1, BPF_F_MMAPABLE);

PCN_MAP_SHARED_FLAGS(conntrack, ct_lines, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_line,
		     PCN_CONNTRACK_ENTRIES / 8, BPF_F_MMAPABLE);
PCN_MAP_SHARED_FLAGS(conntrack, ct_entries, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_entry,
		     PCN_CONNTRACK_ENTRIES, BPF_F_MMAPABLE);
PCN_MAP_SHARED_FLAGS(conntrack, ct_ring, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_frees,
		     PCN_CONNTRACK_ENTRIES / PCN_CONNTRACK_TAKES, BPF_F_MMAPABLE);
PCN_MAP_SHARED_FLAGS(conntrack, ct_control, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_control,
		     1, BPF_F_MMAPABLE);
PCN_MAP_SHARED_FLAGS(conntrack, ct_zones, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_zone,
		     1 << 16, BPF_F_MMAPABLE);
PCN_MAP_SHARED(conntrack, ct_taken, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_conntrack_taken,
	       1);

/* Internal: a word that other CPUs read and write: the compiler accesses it once, here. */
#define PCN_CONNTRACK_ONCE(word) (*(volatile __u32 *)&(word))

/* Internal: a word of a key. */
PCN_INLINE __u64 pcn_conntrack_word(const struct pcn_conntrack_key *key, int i)
{
	__u64 word;

	__builtin_memcpy(&word, __builtin_assume_aligned((const void *)key + 8 * i, 8),
			 sizeof(word));
	return word;
}

/* Internal: changes each bit of the result with a probability of one half if one bit of x changes. */
PCN_INLINE __u64 pcn_conntrack_mix(__u64 x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return x ^ x >> 32;
}

/* Internal: the hash of a key. Each word is mixed completely, by itself, so that the processor does all of
 * them at once. In Go: Table.hash. */
PCN_INLINE __u64 pcn_conntrack_hash(const struct pcn_conntrack_control *control,
				    const struct pcn_conntrack_key *key)
{
	__u64 sum = 0;

#pragma unroll
	for (int i = 0; i < 5; i++)
		sum += pcn_conntrack_mix(pcn_conntrack_word(key, i) ^ control->seed[i]);
	return pcn_conntrack_mix(sum);
}

/* Internal: the upper byte of a line's word for a hash: 1 instead of 0, which is an unused word, without a
 * branch, as the verifier would go on with each of the two. */
PCN_INLINE __u32 pcn_conntrack_tag(__u64 hash)
{
	__u64 tag = hash >> 56;

	return tag + ((tag - 1) >> 63);
}

/* Internal: the control data. */
PCN_INLINE struct pcn_conntrack_control *pcn_conntrack_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&ct_control, &zero);
}

/* Internal: the line for a hash, or the one after it. */
PCN_INLINE struct pcn_conntrack_line *
pcn_conntrack_line(const struct pcn_conntrack_control *control, __u64 hash, __u32 next)
{
	__u32 at = (hash + next) & control->lines;

	return bpf_map_lookup_elem(&ct_lines, &at);
}

/* Internal: the entry with the key to which a word of a line refers, or NULL. */
PCN_INLINE struct pcn_conntrack_entry *pcn_conntrack_match(__u32 word,
							   const struct pcn_conntrack_key *key)
{
	__u32 number = word & PCN_CONNTRACK_NUMBER;
	struct pcn_conntrack_entry *e = bpf_map_lookup_elem(&ct_entries, &number);
	__u64 differs = 0;

	if (!e)
		return NULL;
#pragma unroll
	for (int i = 0; i < 5; i++)
		differs |= pcn_conntrack_word(&e->key, i) ^ pcn_conntrack_word(key, i);
	return differs ? NULL : e;
}

#endif
