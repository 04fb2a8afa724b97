// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The memory of the elements of named sets: pcn/elements.h. Programs that only keep it for others include this alone. */
#ifndef PCN_ELEMENTS_MEMORY_H
#define PCN_ELEMENTS_MEMORY_H

#include <pcn/address.h>
#include <pcn/classify_memory.h>
#include <pcn/map.h>

/* What the elements of a slot consist of. */
enum pcn_elements_kind {
	PCN_ELEMENTS_IP = 1,	 /* prefixes, also of hash:ip */
	PCN_ELEMENTS_IP_PORT,	 /* prefix, protocol, port */
	PCN_ELEMENTS_IP_PORT_IP, /* the same, and an address */
	PCN_ELEMENTS_MAC,
	PCN_ELEMENTS_PORT, /* of TCP or UDP */
	PCN_ELEMENTS_SETS, /* the members are other sets */
};

/* Internal: the number of slots; the first is not used. */
#define PCN_ELEMENTS_SLOTS 1024
/* Internal: the number of sets in a set of sets. */
#define PCN_ELEMENTS_MEMBERS 64
/* Internal: flags of a slot: its addresses are IPv6. */
#define PCN_ELEMENTS_IPV6 1
/* Internal: its elements count packets. */
#define PCN_ELEMENTS_COUNT 2
/* Internal: its elements may expire. */
#define PCN_ELEMENTS_EXPIRE 4

struct pcn_elements_slot {
	__u64 owner; /* which set the elements were made for; for the control plane */
	__u64 count;
	__u64 refused; /* packets that a rule would have added, but there was no room */
	__u64 ended;   /* not 0: programs have ended elements since the control plane set it to 0 */
	__u64 lengths
		[2]; /* bit n of the first: there are prefixes of length 128 - n; of the second: 64 - n */
	__u32 kind;
	__u32 flags;
	__u32 timeout; /* of elements that programs add, in seconds; 0: for ever */
	__u32 most;    /* elements */
	__u32 first;   /* ports */
	__u32 last;
	__u16 member
		[PCN_ELEMENTS_MEMBERS]; /* numbers of sets, in their order; 0 after the last one */
};

/* IPv4 addresses are those of a flow, with prefixes longer than 96; a MAC address is in the first six bytes. */
struct pcn_element_key {
	__u32 slot;
	pcn_address address;
	pcn_address second;
	__u16 port; /* in host byte order; of ICMP, the type times 256 plus the code */
	__u8 protocol;
	__u8 length; /* of the prefix */
};

/* Internal: flags of an element: it is an exception from shorter prefixes. */
#define PCN_ELEMENT_NOMATCH 1
/* Internal: a program has added it. */
#define PCN_ELEMENT_ADDED 2

struct pcn_element {
	__u64 expires; /* pcn_time_coarse(); 0: never */
	__u64 packets;
	__u64 bytes;
	__u32 flags;
	__u32 zero;
};

/* In the slot of a set: its members are other sets. */
#define PCN_ELEMENTS_OF_SETS (1ULL << 32)

/* The slot of each set by its number; 0: its prefixes are in a trie. */
PCN_MAP_SHARED_FLAGS(elements, elements_of, BPF_MAP_TYPE_ARRAY, __u32, __u64,
		     PCN_CLASSIFY_ADDRESSES, BPF_F_MMAPABLE);
PCN_MAP_SHARED_FLAGS(elements, elements_slots, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_elements_slot,
		     PCN_ELEMENTS_SLOTS, BPF_F_MMAPABLE);
PCN_MAP_SHARED_FLAGS(elements, elements, BPF_MAP_TYPE_HASH, struct pcn_element_key,
		     struct pcn_element, 262144, BPF_F_NO_PREALLOC);

#endif
