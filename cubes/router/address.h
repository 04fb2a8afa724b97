// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Addresses: of stations, of the router itself, and invalid ones. */
#ifndef ROUTER_ADDRESS_H
#define ROUTER_ADDRESS_H

#include "router.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "MAC addresses are read and written as integers of a little-endian machine"
#endif

#define ROUTER_MAC_MASK 0xffffffffffffULL

/* The destination of a frame, as returned by pcn_mac. */
PCN_INLINE __u64 router_destination(const struct ethhdr *eth)
{
	return *(const __u64 *)eth & ROUTER_MAC_MASK;
}

/* The position of an address in the bits of struct router_own. */
PCN_INLINE __u32 router_own_bit(__u32 folded)
{
	return folded * 0x9e3779b1U >> 19;
}

/* Not 0 if an address, given as the xor of its words, may be the router's. */
PCN_INLINE int router_maybe_own(__u32 folded)
{
	__u32 zero = 0, bit = router_own_bit(folded);
	struct router_own *o = bpf_map_lookup_elem(&own, &zero);

	return o && (o->bits[(bit >> 6) & (ROUTER_OWN_BITS / 64 - 1)] >> (bit & 63) & 1);
}

/* Destinations that a router refuses: martians, without multicast and broadcast, which were checked
 * before. */
PCN_INLINE int router_martian_destination4(__u32 destination)
{
	return pcn_ipv4_is_martian(destination);
}

PCN_INLINE int router_link_local4(__u32 address)
{
	return address >> 16 == 0xa9fe;
}

PCN_INLINE int router_unspecified6(const struct in6_addr *a)
{
	const __be32 *w = a->in6_u.u6_addr32;

	return !(w[0] | w[1] | w[2] | w[3]);
}

PCN_INLINE __u32 router_fold6(const struct in6_addr *a)
{
	const __be32 *w = a->in6_u.u6_addr32;

	return w[0] ^ w[1] ^ w[2] ^ w[3];
}

#endif
