// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What an address is to the host: one of its own, of a group, of all stations, or another one. Go package hostaddr has the
 * content of the map `addresses`, which the cube keeps up to date. */
#ifndef PCN_HOSTADDR_H
#define PCN_HOSTADDR_H

#include <pcn/address.h>
#include <pcn/map.h>

/* The types of addresses: bits. */
enum pcn_address_type {
	PCN_ADDRESS_UNICAST = 1,
	PCN_ADDRESS_LOCAL = 2,
	PCN_ADDRESS_BROADCAST = 4,
	PCN_ADDRESS_MULTICAST = 8,
};

/* The addresses of the host, and those of all stations of its links: PCN_ADDRESS_LOCAL or PCN_ADDRESS_BROADCAST. */
PCN_MAP_FLAGS(addresses, BPF_MAP_TYPE_HASH, pcn_address, __u32, 16384, BPF_F_NO_PREALLOC);

/* The type of an address that is not in the map: of no netdev of the host. v6 is not 0 for IPv6. */
PCN_INLINE __u32 pcn_address_kind(const __be32 *address, __u32 v6)
{
	__u32 first = bpf_ntohl(v6 ? address[0] : address[3]);

	if (v6 ? first >> 24 == 0xff : first >> 28 == 0xe)
		return PCN_ADDRESS_MULTICAST;
	if (!v6 && first == 0xffffffff)
		return PCN_ADDRESS_BROADCAST;
	if (!v6 && first >> 24 == 127)
		return PCN_ADDRESS_LOCAL;
	return PCN_ADDRESS_UNICAST;
}

/* The type of an address as the host sees it: enum pcn_address_type. v6 is not 0 for IPv6. */
PCN_INLINE __u32 pcn_address_type_of(const __be32 *address, __u32 v6)
{
	pcn_address key; /* Linux 6.1 takes no other memory as a key */
	pcn_address_copy(key, address);
	__u32 *known = bpf_map_lookup_elem(&addresses, key);

	return known ? *known : pcn_address_kind(address, v6);
}

#endif
