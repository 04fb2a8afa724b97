// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the router's programs and its control plane have in common: reasons, maps and what is in
 * them. An address of either family is four words in network order, IPv4 as ::ffff:a.b.c.d. */
#ifndef ROUTER_H
#define ROUTER_H

#include <pcn/cube.h>

enum router_reason {
	ROUTER_TRUNCATED = PCN_REASON_FIRST, /* a header is not whole */
	ROUTER_TAGGED,			     /* a VLAN tag: the router's links have none */
	ROUTER_NOT_FOR_US,		     /* a frame for another station */
	ROUTER_PROTOCOL,		     /* neither IP nor ARP */
	ROUTER_BAD_HEADER,		     /* version or lengths that cannot be */
	ROUTER_BAD_CHECKSUM,		     /* of the IPv4 header */
	ROUTER_MARTIAN_SOURCE,		     /* a source that no station can have */
	ROUTER_MARTIAN_DESTINATION,	     /* loopback, unspecified or reserved */
	ROUTER_SPOOFED,			     /* the source is an address of the router */
	ROUTER_REVERSE_PATH,		     /* rp-filter: the source is not behind the port */
	ROUTER_SOURCE_ROUTE,		     /* the sender wants to choose the way */
	ROUTER_GROUP_FRAME,		     /* a packet for a station in a frame for many */
	ROUTER_MULTICAST,		     /* multicast is not forwarded */
	ROUTER_BROADCAST,		     /* nor are packets to a broadcast address */
	ROUTER_BLACKHOLE,		     /* a blackhole route */
	ROUTER_NO_ADDRESS,		     /* the port has no address of the family */
	ROUTER_ARP_NOT_FOR_US,		     /* ARP or neighbour discovery about others */
	ROUTER_NEIGHBOUR_QUEUE,		     /* too many packets wait for a neighbour */
	ROUTER_NEIGHBOUR_LIMIT,		     /* too many packets ask for unknown neighbours */
	ROUTER_ICMP_LIMIT,		     /* the limit of ICMP errors */
	ROUTER_LOCAL_LIMIT,		     /* too many packets for the router itself */
	ROUTER_CONTROL_LIMIT,		     /* too much ARP or neighbour discovery to look at */
	ROUTER_NOT_READY,		     /* the tables are not filled yet */
	ROUTER_LINK_LOCAL,		     /* link-local addresses are not forwarded */
	ROUTER_TENTATIVE,		     /* for an address that may be somebody else's */
	ROUTER_NO_NETDEV, /* the host's routes decide, and the port leads to no netdev of it */
};
PCN_REASONS(router_reason);

/* Why packets go to the control plane; words of the metadata: the port where they would leave, and
 * the index of the next hop or an MTU. The packet is as it came in. */
enum router_slowpath_reason {
	ROUTER_UNRESOLVED = PCN_REASON_FIRST, /* the neighbour is not known: port, next hop */
	ROUTER_HOST_FAILED,		      /* the neighbour does not answer: port, next hop */
	ROUTER_TTL_EXCEEDED,		      /* the hop limit is used up */
	ROUTER_NO_ROUTE,		      /* no route */
	ROUTER_UNREACHABLE_ROUTE,	      /* an unreachable route */
	ROUTER_PROHIBIT_ROUTE,		      /* a prohibit route */
	ROUTER_TOO_BIG,	     /* longer than the link takes, not to be fragmented: port, MTU */
	ROUTER_FRAGMENT,     /* longer than the link takes, to be fragmented: port, MTU */
	ROUTER_BEYOND_SCOPE, /* the source is not valid on the next link */
	ROUTER_LOCAL,	     /* for an address of the router */
	ROUTER_ARP,	     /* ARP to look at */
	ROUTER_ND,	     /* neighbour discovery to look at */
};
PCN_SLOWPATH_REASONS(router_slowpath_reason);

/* Messages to the control plane. */
enum router_notice {
	ROUTER_NOTIFY_STALE = 1, /* a stale neighbour is used: struct router_address_key */
};

enum router_rp_filter {
	ROUTER_RP_OFF = 0,
	ROUTER_RP_STRICT,
	ROUTER_RP_LOOSE,
};

/* A port, by its index. */
struct router_port {
	__u64 mac; /* as pcn_mac gives it; 0: there is no such port */
	__u32 mtu; /* of IP packets */
	__u8 rp_filter;
	__u8 has_ip4; /* it has an address of the family */
	__u8 has_ip6;
	__u8 pad;
	__be32 address4; /* primary IPv4 address, 0: none */
	__u32 pad2;
	pcn_address address6; /* first global IPv6 address, zero: none */
};
PCN_MAP(ports, BPF_MAP_TYPE_ARRAY, __u32, struct router_port, 512);

/* An address on a port's link: of the router or a neighbour. */
struct router_address_key {
	pcn_address address;
	__u16 port;
	__u16 pad;
};

/* An address of the router. */
struct router_address {
	__u8 tentative; /* not used: it is, or may be, another station's */
	__u8 length;	/* of the link's prefix */
	__u8 pad[2];
};
PCN_MAP(addresses, BPF_MAP_TYPE_HASH, struct router_address_key, struct router_address, 16384);

/* The port that has an address of the router, link-local ones left out. */
struct router_owner_key {
	pcn_address address;
};
PCN_MAP_FLAGS(owners, BPF_MAP_TYPE_HASH, struct router_owner_key, __u32, 16384, BPF_F_NO_PREALLOC);

/* What may be an address of the router, so that a source that is none costs no lookup: a set bit
 * for each, by router_own_bit(). */
#define ROUTER_OWN_BITS 8192
struct router_own {
	__u64 bits[ROUTER_OWN_BITS / 64];
};
PCN_MAP(own, BPF_MAP_TYPE_ARRAY, __u32, struct router_own, 1);

enum router_neighbour_state {
	ROUTER_INCOMPLETE = 1, /* asked for */
	ROUTER_REACHABLE,
	ROUTER_STALE, /* used on, and asked when that happens */
	ROUTER_PROBE, /* asked, used on */
	ROUTER_FAILED,
	ROUTER_PERMANENT, /* configured */
};

/* A neighbour. The control plane alone adds, changes and removes them; programs write `confirmed`
 * and `queued`, and make STALE ones PROBE. */
struct router_neighbour {
	__u64 confirmed; /* coarse monotonic ns of when it was last heard of */
	__u64 mac;	 /* as pcn_mac gives it */
	__u8 state;	 /* enum router_neighbour_state */
	__u8 queued;	 /* packets that wait for it */
	__u8 pad[6];
};
PCN_MAP(neighbours, BPF_MAP_TYPE_HASH, struct router_address_key, struct router_neighbour, 16384);

/* What a route does. */
enum router_kind {
	ROUTER_KIND_NONE = 0,
	ROUTER_KIND_UNICAST,   /* to the gateway, or the destination itself if there is none */
	ROUTER_KIND_LOCAL,     /* an address of the router */
	ROUTER_KIND_BROADCAST, /* the broadcast address of a link */
	ROUTER_KIND_BLACKHOLE,
	ROUTER_KIND_UNREACHABLE,
	ROUTER_KIND_PROHIBIT,
	ROUTER_KIND_MULTIPATH, /* one of the members of a group */
};

/* A next hop: all that it takes to send. An entry that routes lead to changes in `to`, `from` and
 * `mtu` only; others are written before routes lead to them. */
struct router_next_hop {
	__u64 to; /* MAC address of the gateway as pcn_mac gives it, 0: not known, or no gateway */
	__u64 from;	     /* MAC address of the port */
	pcn_address gateway; /* zero: none, the destination is on the link */
	__u32 mtu;
	__u16 port;
	__u16 kind;    /* enum router_kind */
	__u32 group;   /* MULTIPATH: index in groups */
	__u32 members; /* MULTIPATH: how many the group has */
};
/* Indexes in next_hops that say it all. */
#define ROUTER_HOP_NONE 0
#define ROUTER_HOP_LOCAL 1
#define ROUTER_HOP_BROADCAST 2
#define ROUTER_HOP_BLACKHOLE 3
#define ROUTER_HOP_UNREACHABLE 4
#define ROUTER_HOP_PROHIBIT 5
#define ROUTER_HOP_FIRST 6 /* of the others */
PCN_MAP(next_hops, BPF_MAP_TYPE_ARRAY, __u32, struct router_next_hop, 16384);

/* The next hops that share a route's flows. */
#define ROUTER_GROUP_MAX 32
struct router_group {
	__u32 member[ROUTER_GROUP_MAX]; /* indexes in next_hops */
};
PCN_MAP(groups, BPF_MAP_TYPE_ARRAY, __u32, struct router_group, 4096);

/* IPv4 routes: a trie of 16 bits, then four and four. An entry is an index in next_hops, 0 for none,
 * or, with ROUTER_CHUNK_FOLLOWS, the number of a chunk. `fib4` has the first 16 bits, and in its last
 * chunk the default route; chunk n is number n % ROUTER_PAGE_CHUNKS of page n / ROUTER_PAGE_CHUNKS. */
#define ROUTER_CHUNK_FOLLOWS 0x80000000
#define ROUTER_PAGE_CHUNKS 4096
#define ROUTER_ROOT_CHUNKS 4096
struct router_chunk {
	__u32 entry[16];
};
PCN_MAP(fib4, BPF_MAP_TYPE_ARRAY, __u32, struct router_chunk, ROUTER_ROOT_CHUNKS + 1);
PCN_MAP_OF_MAPS(fib4_pages, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, 1024, BPF_MAP_TYPE_ARRAY, __u32,
		struct router_chunk, ROUTER_PAGE_CHUNKS, 0);

/* IPv6 routes: index in next_hops by prefix. */
struct router_prefix6 {
	__u32 length;
	pcn_address address;
};
PCN_MAP_FLAGS(routes6, BPF_MAP_TYPE_LPM_TRIE, struct router_prefix6, __u32, 131072,
	      BPF_F_NO_PREALLOC);

/* The host's routes decide. */
PCN_CONFIG(bool, host_fib) = false;
/* A port has a reverse path filter. */
PCN_CONFIG(bool, any_rp_filter) = false;

#endif
