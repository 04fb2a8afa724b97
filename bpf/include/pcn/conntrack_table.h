// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The memory of the connection table, which Go package conntrack/table sets up, sweeps and reads. Include
 * <pcn/conntrack.h>. The memory is in parts of one size, so a table grows while programs use it.
 * docs/adr/0048-connection-table.md explains it. */
#ifndef PCN_CONNTRACK_TABLE_H
#define PCN_CONNTRACK_TABLE_H

#include <pcn/address.h>
#include <pcn/conntrack_state.h>
#include <pcn/hash.h>
#include <pcn/map.h>

/* Internal: entries of a part, and parts of the largest table. Entry 0 is not used. */
#define PCN_CONNTRACK_PART (1 << 15)
#define PCN_CONNTRACK_PARTS 512
/* Internal: lines of a part, and parts of the ring's. There are two sets of parts of lines. */
#define PCN_CONNTRACK_PART_LINES (PCN_CONNTRACK_PART / 8)
#define PCN_CONNTRACK_PART_FREES (PCN_CONNTRACK_PART / PCN_CONNTRACK_TAKES)

/* All cubes share one table. A cube that defines PCN_CONNTRACK_OWN first has its own, whose entries have
 * `mark`, `rule`, `generation`, `state` and `user` for its own purposes, with a number of zones. */
#ifdef PCN_CONNTRACK_OWN
#define PCN_CONNTRACK_ZONES PCN_CONNTRACK_OWN
#define PCN_CONNTRACK_MAP PCN_MAP_FLAGS
#define PCN_CONNTRACK_MAP_OF_MAPS PCN_MAP_OF_MAPS
#else
#define PCN_CONNTRACK_ZONES (1 << 16)
#define PCN_CONNTRACK_MAP(...) PCN_MAP_SHARED_FLAGS(conntrack, __VA_ARGS__)
#define PCN_CONNTRACK_MAP_OF_MAPS(...) PCN_MAP_OF_MAPS_SHARED(conntrack, __VA_ARGS__)
#endif

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
	PCN_CONNTRACK_IS_OUTBID,    /* it was tentative, and another of the same key is to end it */
	PCN_CONNTRACK_IS_WITHDRAWN, /* there was no room in its lines; the sweeper frees it */
	PCN_CONNTRACK_IS_ENDED,	    /* the sweeper removes it */
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

/* Internal: a block of the ring of free numbers. */
struct pcn_conntrack_frees {
	__u32 number[PCN_CONNTRACK_TAKES];
};

/* Internal: free numbers of a CPU, the last `left` of them. */
struct pcn_conntrack_taken {
	__u32 left;
	__u32 zero[15];
	__u32 number[PCN_CONNTRACK_TAKES];
};

/* Internal: the lines in use: the mask of the number of a line, and whether they are in the second set of
 * parts. */
#define PCN_CONNTRACK_LINES_MASK 0xffffff
#define PCN_CONNTRACK_LINES_SECOND 0x80000000

/* Internal: the first line changes only with the size. */
struct pcn_conntrack_control {
	__u64 seed[5]; /* random, for the hash: one for each word of a key */
	/* The lines in which connections are looked up; in the upper half others into which they are written,
	 * too, while the table grows, or 0. Programs read both at once. */
	__u64 lines;
	__u32 ring; /* mask of the number of a block of the ring; 0: the table is not set up */
	__u32 size; /* the last entry that is used */
	__u64 zero;
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

#ifndef PCN_CONNTRACK_OWN
PCN_MAP_SHARED_FLAGS(conntrack, ct_embryos, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_entry,
		     PCN_CONNTRACK_EMBRYOS, BPF_F_MMAPABLE);
PCN_MAP_SHARED(conntrack, ct_embryo_lines, BPF_MAP_TYPE_ARRAY, __u32,
	       struct pcn_conntrack_embryo_line, PCN_CONNTRACK_EMBRYOS / 8);
PCN_MAP_SHARED_FLAGS(conntrack, ct_embryo_ring, BPF_MAP_TYPE_ARRAY, __u32,
		     struct pcn_conntrack_embryo_ring, 1, BPF_F_MMAPABLE);
#endif

/* Internal: elements of parts. Arrays, since a compiler leaves the definition of a struct that only a map in
 * a map has out of the BTF. */
typedef struct pcn_conntrack_entry pcn_conntrack_entry_element[1];
typedef struct pcn_conntrack_line pcn_conntrack_line_element[1];
typedef struct pcn_conntrack_frees pcn_conntrack_frees_element[1];

PCN_CONNTRACK_MAP_OF_MAPS(ct_entries, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, PCN_CONNTRACK_PARTS,
			  BPF_MAP_TYPE_ARRAY, __u32, pcn_conntrack_entry_element,
			  PCN_CONNTRACK_PART, BPF_F_MMAPABLE);
PCN_CONNTRACK_MAP_OF_MAPS(ct_lines, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, 2 * PCN_CONNTRACK_PARTS,
			  BPF_MAP_TYPE_ARRAY, __u32, pcn_conntrack_line_element,
			  PCN_CONNTRACK_PART_LINES, BPF_F_MMAPABLE);
PCN_CONNTRACK_MAP_OF_MAPS(ct_ring, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, PCN_CONNTRACK_PARTS,
			  BPF_MAP_TYPE_ARRAY, __u32, pcn_conntrack_frees_element,
			  PCN_CONNTRACK_PART_FREES, BPF_F_MMAPABLE);
PCN_CONNTRACK_MAP(ct_control, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_control, 1,
		  BPF_F_MMAPABLE);
PCN_CONNTRACK_MAP(ct_zones, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_zone,
		  PCN_CONNTRACK_ZONES, BPF_F_MMAPABLE);
PCN_CONNTRACK_MAP(ct_taken, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_conntrack_taken, 1, 0);

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

/* Internal: the hash of a key. Each word is mixed completely, by itself, so that the processor does all of
 * them at once. In Go: Table.hash. */
PCN_INLINE __u64 pcn_conntrack_hash(const struct pcn_conntrack_control *control,
				    const struct pcn_conntrack_key *key)
{
	__u64 sum = 0;

#pragma unroll
	for (int i = 0; i < 5; i++)
		sum += pcn_hash_mix(pcn_conntrack_word(key, i) ^ control->seed[i]);
	return pcn_hash_mix(sum);
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

/* Internal: which lines are in use: `lines` of the control data. */
PCN_INLINE __u64 pcn_conntrack_lines(const struct pcn_conntrack_control *control)
{
	return *(volatile const __u64 *)&control->lines;
}

/* Internal: the line for a hash, or the one after it, of the lines in use or of the others. */
PCN_INLINE struct pcn_conntrack_line *pcn_conntrack_line(__u32 lines, __u64 hash, __u32 next)
{
	asm volatile(
		""
		: "+r"(hash)); /* else the compiler keeps what follows on the stack until it is used again */
	__u32 at = (hash + next) & lines & PCN_CONNTRACK_LINES_MASK;
	__u32 part = at / PCN_CONNTRACK_PART_LINES + (lines >> 31) * PCN_CONNTRACK_PARTS;
	void *array = bpf_map_lookup_elem(&ct_lines, &part);

	at &= PCN_CONNTRACK_PART_LINES - 1;
	return array ? bpf_map_lookup_elem(array, &at) : NULL;
}

/* Internal: an entry by its number, NULL for one that does not exist. */
PCN_INLINE struct pcn_conntrack_entry *pcn_conntrack_at(__u32 number)
{
	__u32 part = number / PCN_CONNTRACK_PART, at = number & (PCN_CONNTRACK_PART - 1);
	void *array = bpf_map_lookup_elem(&ct_entries, &part);

	return array ? bpf_map_lookup_elem(array, &at) : NULL;
}

/* Internal: the entry with the key to which a word of a line refers, or NULL. */
PCN_INLINE struct pcn_conntrack_entry *pcn_conntrack_match(__u32 word,
							   const struct pcn_conntrack_key *key)
{
	struct pcn_conntrack_entry *e = pcn_conntrack_at(word & PCN_CONNTRACK_NUMBER);
	__u64 differs = 0;

	if (!e)
		return NULL;
#pragma unroll
	for (int i = 0; i < 5; i++)
		differs |= pcn_conntrack_word(&e->key, i) ^ pcn_conntrack_word(key, i);
	return differs ? NULL : e;
}

#endif
