// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The maps of lbrp, its sessions, and why it drops packets. */
#ifndef LBRP_H
#define LBRP_H

/* The cube's own table of sessions has a zone for the entries of each side: LBRP_FRONT, LBRP_BACK. */
#define PCN_CONNTRACK_OWN 2

#include <pcn/cube.h>
#include <pcn/balance_pins.h>
#include <pcn/balance_session.h>
#include <pcn/bucket.h>

enum lbrp_reason {
	LBRP_MALFORMED = PCN_REASON_FIRST, /* a header is incomplete */
	LBRP_NO_SERVER,			   /* the service has no server, and refuses nothing */
	LBRP_REFUSE_LIMIT,		   /* the same, and the limit of answers is reached */
	LBRP_NO_SESSION,		   /* a reset for a connection that is not known */
	LBRP_TABLE_FULL,		   /* there is no room for another session */
	LBRP_NO_SOURCE,			   /* no source port is free towards the server */
	LBRP_NO_BACKEND,		   /* there is no backend port */
	LBRP_NO_FRONTEND,		   /* there is no frontend port */
	LBRP_FIRST_UNKNOWN, /* a fragment of a datagram for a service whose first one was not seen */
	LBRP_NOT_A_CHECK,   /* for the source of health checks, and not the answer to one */
	LBRP_CHECK_LIMIT, /* too many answers to health checks, or too much ARP for their source */
};
PCN_REASONS(lbrp_reason);

enum lbrp_slowpath_reason {
	LBRP_REFUSE = PCN_REASON_FIRST, /* to be answered with an RST or an ICMP error */
	LBRP_NEIGHBOUR,	   /* what a neighbour answers to the source of health checks */
	LBRP_CHECK_ANSWER, /* the answer of a server to a health check */
};
PCN_SLOWPATH_REASONS(lbrp_slowpath_reason);

enum lbrp_counter {
	LBRP_OPENED_TCP,
	LBRP_OPENED_UDP,
	LBRP_OPENED_ICMP,
	LBRP_OPENED_SCTP,
	LBRP_FULL,	  /* sessions for which there was no room */
	LBRP_PORTS_TAKEN, /* source ports that were in use towards the server when tried */
	LBRP_FRAGMENTS,	  /* fragments without ports, translated */
	LBRP_ICMP_ERRORS, /* ICMP errors, translated */
	LBRP_COUNTERS,
};
PCN_COUNTERS(counters, lbrp_counter, LBRP_COUNTERS);

/* The sides of the load balancer, and the zones of its sessions. */
enum lbrp_side { LBRP_FRONT, LBRP_BACK };

/* What holds for the cube as a whole. */
struct lbrp_settings {
	__u32 backend; /* the index of the backend port plus one; 0: there is none */
	__u32 frontend; /* the same, of the only frontend port; 0: none, or several, which are in `frontends` */
	__u32 generation; /* of servers and services: sessions of another one are checked again */
	__u32 now;	  /* in units of pins */
	/* Clients' sources: addresses whose bits under `mask` are those of `range` have those of `new_range` for servers. */
	__be32 range;
	__be32 new_range;
	__be32 mask;
	__u32 zero;
	struct pcn_bucket_limit refusals;
};
PCN_MAP_FLAGS(settings, BPF_MAP_TYPE_ARRAY, __u32, struct lbrp_settings, 1, BPF_F_MMAPABLE);
PCN_MAP(limited, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

/* A port by its index. */
struct lbrp_port {
	__u32 side; /* enum lbrp_side plus one; 0: there is no port */
	__u32 zero;
};
PCN_MAP_FLAGS(ports, BPF_MAP_TYPE_ARRAY, __u32, struct lbrp_port, 1024, BPF_F_MMAPABLE);

/* The index of the frontend port with an address. */
PCN_MAP_FLAGS(frontends, BPF_MAP_TYPE_HASH, pcn_address, __u32, 1024, BPF_F_NO_PREALLOC);

/* Services by number; the first is not used. */
#define LBRP_SERVICES 32768

/* How a service chooses the server of a new session. */
enum lbrp_select { LBRP_MAGLEV, LBRP_ROUND_ROBIN, LBRP_LEAST_CONNECTIONS };

struct lbrp_service {
	__be16 first; /* port, of a service with several */
	__u8 select;
	__u8 affinity; /* timeout in units of pins; 0: none */
	__u8 full_nat; /* clients' sources become the virtual address */
	__u8 refuse;   /* without servers, clients get an answer */
	__u16 zero;
	__u32 turn; /* counts sessions, for round robin */
	__u32 zero2;
};
PCN_MAP_FLAGS(service_settings, BPF_MAP_TYPE_ARRAY, __u32, struct lbrp_service, 64, BPF_F_MMAPABLE);

/* The first port of the service that has a range of ports. */
struct lbrp_range_key {
	__u32 prefixlen;
	pcn_address address;
	__u8 protocol;
	__u8 zero;
	__be16 port;
};
/* Bits of a key with all of a port. */
#define LBRP_RANGE_BITS 160
PCN_MAP_FLAGS(ranges, BPF_MAP_TYPE_LPM_TRIE, struct lbrp_range_key, __be16, 32768,
	      BPF_F_NO_PREALLOC);

/* A server of a service by its number. */
struct lbrp_server {
	pcn_address address;
	__be16 port; /* 0: the packet's */
	__u16 weight;
	__u32 service; /* its number; 0: the server is gone, and so are its sessions */
	__u32 active;  /* sessions that are not closing; the control plane counts them again */
	__u32 zero;
};
PCN_MAP_FLAGS(servers, BPF_MAP_TYPE_ARRAY, __u32, struct lbrp_server, 64, BPF_F_MMAPABLE);

/* The weight of a server that follows its load, in hundredths; 0: it does not. Programs do not read it: it is for the next
 * daemon. */
PCN_MAP_FLAGS(followed, BPF_MAP_TYPE_ARRAY, __u32, __u64, 64, BPF_F_MMAPABLE);

/* Packets to a server, and from it. */
struct lbrp_counts {
	struct pcn_count to;
	struct pcn_count from;
};
PCN_MAP(server_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct lbrp_counts, 64);

/* Sessions have the side of a packet (enum lbrp_side) as its zone, the generation of the settings, and two sums in `own`. The ports
 * of an echo request are its id and 0, those of a reply 0 and its id. */
enum lbrp_own { LBRP_PACKETS, LBRP_BYTES };

/* struct pcn_session.flags */
#define LBRP_TURN \
	0x02 /* client and server are on the same side: packets leave where they come in */
#define LBRP_SAME_SOURCE 0x08 /* the source stays, and only the destination changes */

/* A datagram whose first fragment has passed, and the translation of the others. */
struct lbrp_fragment_key {
	pcn_address source;
	pcn_address destination;
	__be32 id;
	__u16 zone;
	__u8 protocol;
	__u8 zero;
};
struct lbrp_fragment {
	pcn_address source;
	pcn_address destination;
	__u64 seen;
	__u16 address_delta;
	__u8 flags;
	__u8 zero[5];
};
PCN_DISPOSABLE PCN_MAP(fragments, BPF_MAP_TYPE_LRU_HASH, struct lbrp_fragment_key,
		       struct lbrp_fragment, 8192);

/* A packet, and the session that is opened for it: too large for the stack. */
struct lbrp_work {
	struct pcn_flow flow;
	struct pcn_flow inner; /* the packet in an ICMP error */
	struct pcn_session_key key;
	struct pcn_session_key twin; /* of the other direction */
	struct pcn_session new;	     /* the entry that is opened, for the client's packets */
	struct pcn_session reply;    /* and that for the server's */
	struct pcn_service service;  /* that the packet is for */
	struct lbrp_fragment_key fragment_key;
	struct lbrp_fragment fragment;
	__u64 client; /* the hash of the packet's source, if `keeps` */
	__u32 keeps; /* for how many units of time the client keeps the server of its new session; 0: it need not */
	__u32 opened; /* the last packet of a client had no session */
};
PCN_DISPOSABLE PCN_MAP(work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct lbrp_work, 1);

/* There are services with several ports. */
PCN_CONFIG(bool, has_ranges) = false;
/* Clients' sources are renumbered. */
PCN_CONFIG(bool, renumbers) = false;
/* Sessions choose a server in other ways than by Maglev's table alone. */
PCN_CONFIG(bool, has_choices) = false;

/* A global function looks it up again: the verifier of Linux 6.1 accepts an argument's memory neither as a map key nor
 * as a value. */
PCN_INLINE struct lbrp_work *lbrp_work(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&work, &only);
}

PCN_INLINE struct lbrp_settings *lbrp_settings(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&settings, &only);
}

#endif
