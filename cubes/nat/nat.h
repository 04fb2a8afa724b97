// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Definitions shared by the NAT's programs and its control plane: rules, sessions, counters.
 * Addresses have 16 bytes, IPv4 as ::ffff:a.b.c.d, so that both families are in one table. "Inside" means packets as seen behind the NAT, "outside" as seen on
 * the wire. An endpoint is an address with a port, or with the id of ICMP queries. */
#ifndef NAT_H
#define NAT_H

/* The NAT's own table has four zones: NAT_IN and NAT_V6 combined. */
#define PCN_CONNTRACK_OWN 4

#include <pcn/conntrack.h>
#include <pcn/cube.h>
#include <pcn/flow.h>
#include <pcn/session_notice.h>

/* The rule that created a session. */
enum nat_origin {
	NAT_SNAT,
	NAT_MASQUERADE,
	NAT_DNAT,
	NAT_PORT_FORWARDING,
};

/* How an internal endpoint is assigned an external one (RFC 4787, 4.1). */
enum nat_mapping {
	NAT_MAP_ENDPOINT_INDEPENDENT,
	NAT_MAP_ADDRESS_PORT_DEPENDENT,
};

/* Which remotes may send to the external endpoint of a mapping (RFC 4787, 5). */
enum nat_filtering {
	NAT_FILTER_ENDPOINT_INDEPENDENT,
	NAT_FILTER_ADDRESS_DEPENDENT,
	NAT_FILTER_ADDRESS_PORT_DEPENDENT,
};

/* What happens to packets that match a rule but whose protocol has no ports that we support. */
enum nat_other {
	NAT_OTHER_DROP,
	NAT_OTHER_PASS,
	NAT_OTHER_TRANSLATE, /* translate addresses: one session for each pair of hosts */
};

/* The prefix of addresses whose new sessions a rule translates. */
struct nat_source_key {
	__u32 prefixlen;
	pcn_address addr;
};

/* SNAT or masquerade: `count` addresses starting with `first`, and the ports to choose from. */
struct nat_source {
	__u32 rule;
	__u32 count;
	pcn_address first;
	__u16 port_first; /* host byte order; both 0: 1024 to 65535 */
	__u16 port_last;
	__u8 origin;
	__u8 pad[3];
};

/* An external address (DNAT, 128 bits), port (160) or port range (between). */
struct nat_forward_key {
	__u32 prefixlen;
	pcn_address addr;
	__u8 proto;
	__u8 zero;
	__be16 port;
};

/* The destination of its new sessions: the external port `base` becomes `port`, others keep their
 * distance from it. Both 0: ports stay. */
struct nat_forward {
	__u32 rule;
	pcn_address to;
	__be16 port;
	__be16 base;
	__u8 origin;
	__u8 pad[3];
};

/* Zones of the table, each with its own limit: of sessions and mappings as seen inside (0) or outside. */
#define NAT_IN 0x1
#define NAT_V6 0x2

/* A session as seen on one side, a struct pcn_conntrack_key: inside, `local` is the internal endpoint,
 * outside the external one. If remote and remote_port are 0, this is a mapping. If only remote_port is 0,
 * with flag NAT_MAPPING, it records that `local` has sent to that address (address-dependent
 * filtering). */
struct nat_key {
	pcn_address local;
	pcn_address remote;
	__be16 local_port; /* or id of ICMP queries, which have a remote_port of 0 */
	__be16 remote_port;
	__u16 zone;
	__u8 proto;
	__u8 zero;
} __attribute__((aligned(8)));

/* nat_session.flags */
#define NAT_MAPPING 0x01  /* a mapping: the key's remote is 0 */
#define NAT_INBOUND 0x02  /* the first packet came from outside */
#define NAT_OVERLOAD 0x04 /* no mapping: the external endpoint is for this remote only */
#define NAT_OWN 0x10 /* the session of the host that has the external address; its address stays */
#define NAT_MAPPED \
	0x20 /* of a mapping, through which packets from outside find it: no entry as seen outside */
#define NAT_HAIRPIN 0x08   /* the remote is an external endpoint of another internal host */
#define NAT_TENTATIVE 0x40 /* of a mapping; not confirmed yet, so not used for packets */
#define NAT_WITHDRAWN 0x80 /* with NAT_TENTATIVE: it will be removed */

/* An entry, a struct pcn_conntrack_entry: for the direction of its zone or, inside with NAT_MAPPED, for
 * both. Each direction has its own counters and timestamp. */
struct nat_session {
	struct nat_key key;
	__u32 status;  /* of the table */
	__u32 in_seen; /* of the other direction, with NAT_MAPPED: NAT_SEEN_UNIT; 0: no packet yet */
	__u64 seen; /* coarse monotonic ns of the last packet; in a mapping, of its newest session */
	struct pcn_ct_progress progress; /* of both directions, in both entries; side 0 is inside */
	__u32 rule;
	__u16 addr_delta; /* difference that the new address adds to a checksum, ... */
	__u16 port_delta; /* ... and difference of the new port */
	__be16 port;	  /* replaces the key's local_port; one word with flags and origin */
	__u8 flags;
	__u8 origin;
	pcn_address addr; /* replaces the key's local */
	__u64 created;	  /* coarse monotonic ns */
	__u64 packets;
	__u64 bytes;
	__u64 in_packets; /* of the other direction, with NAT_MAPPED */
	__u64 in_bytes;
};

/* The kinds of messages, each a struct nat_session. */
enum nat_notice {
	NAT_SESSION_NEW,
	NAT_SESSION_UPDATED,
};
_Static_assert(sizeof(struct nat_session) <= PCN_NOTIFY_MAX, "a message is a session");

/* in_seen counts units of 2^26 ns, 67 ms. */
#define NAT_SEEN_UNIT 26

#define NAT_SAME(a, b)                                \
	(__builtin_offsetof(struct nat_session, a) == \
	 __builtin_offsetof(struct pcn_conntrack_entry, b))
_Static_assert(sizeof(struct nat_session) == sizeof(struct pcn_conntrack_entry) &&
		       NAT_SAME(key.zone, key.zone) && NAT_SAME(status, status) &&
		       NAT_SAME(seen, seen) && NAT_SAME(addr_delta, state),
	       "sessions are entries of the table");
_Static_assert(__builtin_offsetof(struct nat_session, port) % 4 == 0,
	       "port, flags and origin change at once");

/* A datagram whose first fragment has passed. */
struct nat_fragment_key {
	pcn_address local;
	pcn_address remote;
	__u32 id;
	__u8 proto;
	__u8 egress;
	__u8 zero[2];
};

/* The translation of its other fragments. */
struct nat_fragment {
	__u64 seen;
	pcn_address addr; /* replaces local */
	__u16 addr_delta;
	__u16 turns; /* the destination is another internal host */
	__u32 zero;
};

/* What a rule of the table nat makes of an address: one of `count` addresses from `first` on, or itself if that is 0.
 * Ports are in host byte order; if both are 0, they stay. */
struct nat_target {
	pcn_address first;
	__u32 count;
	__u16 port_first;
	__u16 port_last;
	__u16 does;   /* enum nat_row_does */
	__u16 random; /* the port is not to be that of the packet */
	__u32 rule;   /* of an inbound session */
};

/* A packet, and the session that is being opened for it: too large for the stack. */
struct nat_open {
	struct nat_key in;	  /* as seen inside */
	struct nat_key out;	  /* as seen outside */
	struct nat_key other;	  /* of another session */
	struct nat_key probe;	  /* of nat_is_mapped */
	struct nat_session entry; /* its key is set when it is inserted */
	struct nat_fragment_key fragment_key;
	struct nat_fragment fragment;
	pcn_address remote;
	__be16 remote_port;
	__u16 first, last;     /* ports to choose from */
	__u16 addr_delta;      /* checksum difference of in.local becoming out.local */
	__u32 fixed;	       /* the port must not change */
	__u32 offered;	       /* it is offered by its cube: hairpinned or left unchanged */
	__u32 length;	       /* of the packet */
	__s32 number;	       /* of the entry that was inserted */
	struct pcn_flow flow;  /* the packet */
	struct pcn_flow inner; /* the packet in an ICMP error */
	struct nat_key key;    /* of the packet; not on the stack, which cubes in a chain share */
	struct nat_target to;  /* by the table nat */
};

/* The NATs that share a table. Each has a place, whose number is in the upper bits of the origin of its rules and sessions:
 * NAT_MEMBER_SHIFT. Programs do not read the map. */
#define NAT_MEMBERS 64
#define NAT_MEMBER_SHIFT 2
struct nat_member {
	char uuid[40]; /* of the cube; empty: the place is free */
	__u32 max_sessions;
	__u32 zero;
};
PCN_MAP(members, BPF_MAP_TYPE_ARRAY, __u32, struct nat_member, NAT_MEMBERS);

enum nat_counter {
	NAT_CREATED_TCP,
	NAT_CREATED_UDP,
	NAT_CREATED_ICMP,
	NAT_CREATED_OTHER,
	NAT_MAPPINGS,	 /* mappings created */
	NAT_EXHAUSTED,	 /* no port of the pool was free */
	NAT_TABLE_FULL,	 /* sessions that did not fit the table */
	NAT_COLLISIONS,	 /* external endpoints that were in use when tried */
	NAT_HAIRPINNED,	 /* packets between two internal hosts */
	NAT_FRAGMENTS,	 /* fragments without ports, translated */
	NAT_ICMP_ERRORS, /* ICMP errors, translated */
	NAT_COUNTERS,
};

#define NAT_MAX_RULES 65536
#define NAT_FRAGMENT_ENTRIES 16384
#define NAT_MARKS 2048

PCN_CONFIG(enum nat_mapping, mapping) = NAT_MAP_ENDPOINT_INDEPENDENT;
PCN_CONFIG(enum nat_filtering, filtering) = NAT_FILTER_ADDRESS_PORT_DEPENDENT;
PCN_CONFIG(enum nat_other, other_protocols) = NAT_OTHER_TRANSLATE;
/* If no port of the pool is free, share one with another remote. */
PCN_CONFIG(bool, overload) = false;
/* Packets from outside also keep UDP sessions alive. */
PCN_CONFIG(bool, inbound_refresh) = false;
/* Packets to external endpoints of internal hosts are hairpinned. */
PCN_CONFIG(bool, hairpin) = true;
/* There are rules of this kind. */
PCN_CONFIG(bool, has_sources) = false;
PCN_CONFIG(bool, has_forwards) = false;
PCN_CONFIG(bool, has_masquerade) = false;
/* The rules are the table nat. */
PCN_CONFIG(bool, has_policy) = false;
/* Sessions that are new, or in another state as users see it, are events. */
PCN_CONFIG(bool, session_events) = false;
/* How old `seen` may be before it is updated. */
PCN_CONFIG(__u64, refresh_ns) = 1000000000;

PCN_MAP_FLAGS(sources, BPF_MAP_TYPE_LPM_TRIE, struct nat_source_key, struct nat_source,
	      NAT_MAX_RULES, BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(forwards, BPF_MAP_TYPE_LPM_TRIE, struct nat_forward_key, struct nat_forward,
	      NAT_MAX_RULES, BPF_F_NO_PREALLOC);

/* Which external ports have ever had a session with its own entry as seen outside, and which a
 * mapping: two bits per port. If one kind has never existed, the other need not look for it. */
PCN_MAP(marks, BPF_MAP_TYPE_ARRAY, __u32, __u64, NAT_MARKS);

PCN_MAP(fragments, BPF_MAP_TYPE_LRU_HASH, struct nat_fragment_key, struct nat_fragment,
	NAT_FRAGMENT_ENTRIES);
/* The scratch area. A daemon carries no map of one layout over to another, so it has a new name when that
 * changes. */
PCN_MAP(scratch6, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct nat_open, 1);
PCN_COUNTERS(counters, nat_counter, NAT_COUNTERS);

/* Drop reasons. */
enum nat_reason {
	/* the headers are truncated or malformed */
	NAT_MALFORMED = PCN_REASON_FIRST,
	/* no free port in the rule's addresses */
	NAT_PORTS_EXHAUSTED,
	/* the session table is full */
	NAT_SESSION_TABLE_FULL,
	/* the mapping has not sent to the source of the packet */
	NAT_FILTERED,
	/* its protocol has no ports, and the configuration says drop */
	NAT_PROTOCOL,
	/* another session has the external endpoint, and the port must not change */
	NAT_ENDPOINT_TAKEN,
	/* a reset for an unknown connection */
	NAT_NO_SESSION,
	/* a fragment whose datagram's first one has not been seen */
	NAT_FRAGMENT_WITHOUT_FIRST,
	/* an ICMP error about a packet without a session */
	NAT_ICMP_UNRELATED,
	/* the netdev has no address for MASQUERADE or REDIRECT */
	NAT_NO_ADDRESS,
	/* the host's routes do not lead to the new destination of what it sends */
	NAT_NO_ROUTE,
};
PCN_REASONS(nat_reason);

/* The result for a packet, or a drop reason. */
#define NAT_UNTOUCHED 0 /* pass it unchanged */
#define NAT_OPENED 1	/* there is a session now */
#define NAT_MADE \
	2 /* the same; the scratch area has its entry as seen inside, which counts the packet */
#define NAT_ACROSS 3	  /* the entry of the other side translates it: nat_across */
#define NAT_MADE_ACROSS 4 /* the same, as NAT_MADE */
#define NAT_NEW 5	  /* its connection is new, and has no session yet */
#define NAT_NEW_ACROSS 6  /* the same, and the entry of the other side will translate it */

#endif
