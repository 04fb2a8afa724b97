// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Definitions shared by the router's programs and its control plane: reasons, maps and their
 * entries. An address of either family is four words in network byte order, IPv4 as ::ffff:a.b.c.d.
 * */
#ifndef ROUTER_H
#define ROUTER_H

#include <pcn/cube.h>

enum router_reason {
	ROUTER_TRUNCATED = PCN_REASON_FIRST, /* a header is truncated */
	ROUTER_TAGGED,			     /* a VLAN tag: the router's links are untagged */
	ROUTER_NOT_FOR_US,		     /* a frame for another station */
	ROUTER_PROTOCOL,		     /* neither IP nor ARP */
	ROUTER_BAD_HEADER,		     /* invalid version or lengths */
	ROUTER_BAD_CHECKSUM,		     /* of the IPv4 header */
	ROUTER_MARTIAN_SOURCE,		     /* an invalid source address */
	ROUTER_MARTIAN_DESTINATION,	     /* loopback, unspecified or reserved */
	ROUTER_SPOOFED,			     /* the source is an address of the router */
	ROUTER_REVERSE_PATH,		     /* rp-filter: the source is not behind the port */
	ROUTER_SOURCE_ROUTE,		     /* the sender specified a source route */
	ROUTER_GROUP_FRAME,	/* a unicast packet in a broadcast or multicast frame */
	ROUTER_MULTICAST,	/* multicast is not forwarded */
	ROUTER_BROADCAST,	/* broadcast is not forwarded */
	ROUTER_BLACKHOLE,	/* a blackhole route */
	ROUTER_NO_ADDRESS,	/* the port has no address of the family */
	ROUTER_ARP_NOT_FOR_US,	/* ARP or neighbour discovery about other stations */
	ROUTER_NEIGHBOUR_QUEUE, /* too many packets wait for a neighbour */
	ROUTER_NEIGHBOUR_LIMIT, /* too many packets ask for unknown neighbours */
	ROUTER_ICMP_LIMIT,	/* the limit of ICMP errors */
	ROUTER_LOCAL_LIMIT,	/* too many packets for the router itself */
	ROUTER_CONTROL_LIMIT,	/* too much ARP or neighbour discovery */
	ROUTER_NOT_READY,	/* the tables are not filled yet */
	ROUTER_LINK_LOCAL,	/* link-local addresses are not forwarded */
	ROUTER_TENTATIVE,	/* an address that may be another station's */
	ROUTER_NO_NETDEV, /* the host's routes decide, and the port's peer is not one of its netdevs */
};
PCN_REASONS(router_reason);

/* Why packets go to the control plane, with words of the metadata: the output port, and the index
 * of the next hop or an MTU. The packet is unmodified. */
enum router_slowpath_reason {
	ROUTER_UNRESOLVED = PCN_REASON_FIRST, /* unknown neighbour: port, next hop */
	ROUTER_HOST_FAILED,		      /* the neighbour does not answer: port, next hop */
	ROUTER_TTL_EXCEEDED,		      /* the hop limit expired */
	ROUTER_NO_ROUTE,		      /* no route */
	ROUTER_UNREACHABLE_ROUTE,	      /* an unreachable route */
	ROUTER_PROHIBIT_ROUTE,		      /* a prohibit route */
	ROUTER_TOO_BIG,	     /* exceeds the link's MTU, must not be fragmented: port, MTU */
	ROUTER_FRAGMENT,     /* exceeds the link's MTU, to be fragmented: port, MTU */
	ROUTER_BEYOND_SCOPE, /* the source is not valid on the next link */
	ROUTER_LOCAL,	     /* for an address of the router */
	ROUTER_ARP,	     /* ARP for the control plane */
	ROUTER_ND,	     /* neighbour discovery for the control plane */
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
	__u64 mac; /* as returned by pcn_mac; 0: no such port */
	__u32 mtu; /* of IP packets */
	__u8 rp_filter;
	__u8 has_ip4; /* it has an address of the family */
	__u8 has_ip6;
	__u8 pad;
	__be32 address4; /* primary IPv4 address; 0: none */
	__u32 pad2;
	pcn_address address6; /* first global IPv6 address; zero: none */
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
	__u8 tentative; /* not used: it belongs, or may belong, to another station */
	__u8 length;	/* length of the link's prefix */
	__u8 pad[2];
};
PCN_MAP(addresses, BPF_MAP_TYPE_HASH, struct router_address_key, struct router_address, 16384);

/* The port that has an address of the router, except for link-local addresses. */
struct router_owner_key {
	pcn_address address;
};
PCN_MAP_FLAGS(owners, BPF_MAP_TYPE_HASH, struct router_owner_key, __u32, 16384, BPF_F_NO_PREALLOC);

/* Addresses that may be the router's, so that other sources cost no lookup: a set bit for each, by
 * router_own_bit(). */
#define ROUTER_OWN_BITS 8192
struct router_own {
	__u64 bits[ROUTER_OWN_BITS / 64];
};
PCN_MAP(own, BPF_MAP_TYPE_ARRAY, __u32, struct router_own, 1);

enum router_neighbour_state {
	ROUTER_INCOMPLETE = 1, /* being resolved */
	ROUTER_REACHABLE,
	ROUTER_STALE, /* in use; probed on next use */
	ROUTER_PROBE, /* being probed, in use */
	ROUTER_FAILED,
	ROUTER_PERMANENT, /* configured */
};

/* A neighbour. Only the control plane adds, changes and removes them; programs write `confirmed`
 * and `queued`, and change STALE to PROBE. */
struct router_neighbour {
	__u64 confirmed; /* coarse monotonic ns when it was last confirmed */
	__u64 mac;	 /* as returned by pcn_mac */
	__u8 state;	 /* enum router_neighbour_state */
	__u8 queued;	 /* packets waiting for it */
	__u8 pad[6];
};
PCN_MAP(neighbours, BPF_MAP_TYPE_HASH, struct router_address_key, struct router_neighbour, 16384);

/* What a route does. */
enum router_kind {
	ROUTER_KIND_NONE = 0,
	ROUTER_KIND_UNICAST,   /* to the gateway, or to the destination itself if there is none */
	ROUTER_KIND_LOCAL,     /* an address of the router */
	ROUTER_KIND_BROADCAST, /* the broadcast address of a link */
	ROUTER_KIND_BLACKHOLE,
	ROUTER_KIND_UNREACHABLE,
	ROUTER_KIND_PROHIBIT,
	ROUTER_KIND_MULTIPATH, /* one of the members of a group */
};

/* A next hop: everything needed to send. In an entry that routes refer to, only `to`, `from` and
 * `mtu` change; other entries are written before routes refer to them. */
struct router_next_hop {
	__u64 to; /* MAC address of the gateway as returned by pcn_mac; 0: unknown, or no gateway */
	__u64 from;	     /* MAC address of the port */
	pcn_address gateway; /* zero: none, the destination is on the link */
	__u32 mtu;
	__u16 port;
	__u16 kind;    /* enum router_kind */
	__u32 group;   /* MULTIPATH: index in groups */
	__u32 members; /* MULTIPATH: number of members of the group */
};
/* Indexes in next_hops for routes without parameters. */
#define ROUTER_HOP_NONE 0
#define ROUTER_HOP_LOCAL 1
#define ROUTER_HOP_BROADCAST 2
#define ROUTER_HOP_BLACKHOLE 3
#define ROUTER_HOP_UNREACHABLE 4
#define ROUTER_HOP_PROHIBIT 5
#define ROUTER_HOP_FIRST 6 /* first index of the others */
PCN_MAP(next_hops, BPF_MAP_TYPE_ARRAY, __u32, struct router_next_hop, 16384);

/* The next hops that share a route's flows. */
#define ROUTER_GROUP_MAX 32
struct router_group {
	__u32 member[ROUTER_GROUP_MAX]; /* indexes in next_hops */
};
PCN_MAP(groups, BPF_MAP_TYPE_ARRAY, __u32, struct router_group, 4096);

/* IPv4 routes: a trie of 16 bits, then four and four. An entry is an index in next_hops, 0 for
 * none, or, with ROUTER_CHUNK_FOLLOWS, the number of a chunk. `fib4` has the first 16 bits and, in
 * its last chunk, the default route; chunk n is number n % ROUTER_PAGE_CHUNKS of page n /
 * ROUTER_PAGE_CHUNKS. */
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

/* The host's routes are used. */
PCN_CONFIG(bool, host_fib) = false;
/* A port has a reverse path filter. */
PCN_CONFIG(bool, any_rp_filter) = false;

#endif
