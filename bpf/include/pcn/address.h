// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* IPv4 and IPv6 addresses in one type, for keys and values of maps that hold both. */
#ifndef PCN_ADDRESS_H
#define PCN_ADDRESS_H

#include <linux/ipv6.h>
#include <pcn/ctx.h>

/* An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d (RFC 4291 2.5.5.2): inet.Address in Go. */
typedef __be32 pcn_address[4];

/* A network, as the key of a map of type BPF_MAP_TYPE_LPM_TRIE: inet.Network in Go. To find the longest one with an address, its
 * length is 128. */
struct pcn_network {
	__u32 length; /* of the prefix; 96 more for IPv4 */
	pcn_address prefix;
};

/* Writes an IPv4 address. */
PCN_INLINE void pcn_address_set4(pcn_address to, __be32 address)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = bpf_htonl(0xffff);
	to[3] = address;
}

/* The same for memory that is aligned to eight bytes, in words of eight bytes. A reader of such a word would have to wait
 * if it had just been written in parts. */
PCN_INLINE void pcn_address_set4_whole(pcn_address to, __be32 address)
{
	__u64 *word = (void *)to;

	word[0] = 0;
	word[1] = bpf_htonl(0xffff) | (__u64)address << 32;
}

/* Writes an IPv6 address from a packet. */
PCN_INLINE void pcn_address_set6(pcn_address to, const struct in6_addr *from)
{
	to[0] = from->in6_u.u6_addr32[0];
	to[1] = from->in6_u.u6_addr32[1];
	to[2] = from->in6_u.u6_addr32[2];
	to[3] = from->in6_u.u6_addr32[3];
}

/* Copies an address. */
PCN_INLINE void pcn_address_copy(pcn_address to, const __be32 *from)
{
	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	to[3] = from[3];
}

/* True if two addresses are equal. */
PCN_INLINE int pcn_address_same(const __be32 *a, const __be32 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

#endif
