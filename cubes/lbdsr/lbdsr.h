// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The maps of lbdsr, and why it drops packets. */
#ifndef LBDSR_H
#define LBDSR_H

#include <pcn/cube.h>
#include <pcn/answer.h>
#include <pcn/balance_checks.h>
#include <pcn/balance_pins.h>
#include <pcn/bucket.h>
#include <pcn/encap.h>

enum lbdsr_reason {
	LBDSR_MALFORMED = PCN_REASON_FIRST, /* a header is incomplete */
	LBDSR_OTHER_STATION, /* the frame is for the MAC address of another station */
	LBDSR_NO_SERVICE,    /* received at a frontend port, for no service */
	LBDSR_NO_SERVER,     /* the service has no server */
	LBDSR_UNRESOLVED, /* the MAC address of the server, or of the gateway to it, is not known */
	LBDSR_NO_PORT,	  /* there is no backend port that leads to the server */
	LBDSR_NO_FRONTEND, /* from a backend port, while there is not exactly one frontend port */
	LBDSR_FRAGMENT_UNKNOWN, /* a later fragment of a datagram whose first one was not seen */
	LBDSR_TOO_BIG, /* does not fit the MTU with a tunnel's header, and the limit of answers is reached */
	LBDSR_NOT_ENCAPSULATED, /* there was no room for a tunnel's header */
	LBDSR_ARP_NOT_FOR_US,	/* ARP or neighbour discovery for other stations */
	LBDSR_CONTROL_LIMIT,	/* too much ARP or neighbour discovery */
	LBDSR_NOT_A_CHECK,	/* for an address of a port, and not the answer to a health check */
	LBDSR_CHECK_LIMIT,	/* too many answers to health checks */
};
PCN_REASONS(lbdsr_reason);

enum lbdsr_slowpath_reason {
	LBDSR_NEIGHBOUR =
		PCN_REASON_FIRST, /* ARP or neighbour discovery that the program does not answer */
	LBDSR_ANSWER_TOO_BIG,	  /* to be answered with an ICMP error, or to be fragmented */
	LBDSR_CHECK_ANSWER,	  /* the answer of a server to a health check */
};
PCN_SLOWPATH_REASONS(lbdsr_slowpath_reason);

enum lbdsr_counter {
	LBDSR_NOT_PINNED, /* packets of flows for which there was no place among the pins */
	LBDSR_COUNTERS,
};
PCN_COUNTERS(counters, lbdsr_counter, LBDSR_COUNTERS);

enum lbdsr_type { LBDSR_NONE, LBDSR_FRONTEND, LBDSR_BACKEND };

/* A port of the cube by its index. */
struct lbdsr_port {
	__u64 mac;
	__u32 type; /* enum lbdsr_type */
	__u32 mtu;
};
PCN_MAP_FLAGS(ports, BPF_MAP_TYPE_ARRAY, __u32, struct lbdsr_port, 1024, BPF_F_MMAPABLE);

/* What holds for the cube as a whole. The control plane advances the clock: reading one would cost each packet more than
 * its pin. */
struct lbdsr_settings {
	pcn_address
		source4; /* of tunnels: the prefix, and how many of its last bits vary by flow */
	pcn_address source6;
	__u32 vary4;
	__u32 vary6;
	__u32 now; /* in units of pins */
	__u32 frontend; /* the index of the only frontend port plus one; 0: there is none, or more than one */
	__u32 ttl;
	__u32 zero;
	struct pcn_bucket_limit errors; /* packets that are answered with an ICMP error */
	struct pcn_bucket_limit control;
	struct pcn_bucket_limit checks; /* answers to health checks */
};
PCN_MAP_FLAGS(settings, BPF_MAP_TYPE_ARRAY, __u32, struct lbdsr_settings, 1, BPF_F_MMAPABLE);

/* What the limits of the settings apply to: a bucket each. */
enum lbdsr_limited { LBDSR_LIMIT_ERRORS, LBDSR_LIMIT_CONTROL, LBDSR_LIMIT_CHECKS, LBDSR_LIMITS };
PCN_MAP(limited, BPF_MAP_TYPE_ARRAY, __u32, __u64, LBDSR_LIMITS);

/* Services, by number; the first is not used. */
#define LBDSR_SERVICES 4098

/* How packets reach a server. */
enum lbdsr_forward { LBDSR_L2, LBDSR_IPIP, LBDSR_GUE };

/* A server by its number. */
struct lbdsr_server {
	pcn_address address; /* the end of the tunnel */
	__u64 mac;	     /* of the server, or of the gateway to it; 0: not known */
	__be16 gue_port;
	__u16 port;   /* index of the port plus one */
	__u8 forward; /* enum lbdsr_forward */
	__u8 zero[3];
};
PCN_MAP_FLAGS(servers, BPF_MAP_TYPE_ARRAY, __u32, struct lbdsr_server, 64, BPF_F_MMAPABLE);
PCN_MAP(server_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, 64);
PCN_MAP(service_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, LBDSR_SERVICES);

/* A service by its number, if it is known by its port and tells flows apart by addresses and ports: what a packet must have to
 * be for it. The pin of a flow has this number, so that a packet of a known flow needs no search for its service. */
struct lbdsr_known {
	pcn_address address;
	__be16 port;
	__u8 protocol[2]; /* 0: none */
	__u8 timeout;	  /* of pins */
	__u8 zero[11];	  /* an entry is in one cache line */
};
PCN_MAP_FLAGS(known_services, BPF_MAP_TYPE_ARRAY, __u32, struct lbdsr_known, LBDSR_SERVICES,
	      BPF_F_MMAPABLE);

/* An address of the cube at a port: ARP and neighbour discovery for it are answered. */
struct lbdsr_address_key {
	pcn_address address;
	__u32 port;
};
PCN_MAP_FLAGS(addresses, BPF_MAP_TYPE_HASH, struct lbdsr_address_key, __u32, 16384,
	      BPF_F_NO_PREALLOC);
/* What an address is, in bits. */
enum lbdsr_address {
	LBDSR_ADDRESS_ANSWERED = 1,
	LBDSR_ADDRESS_OF_PORT = 2, /* the source of health checks is one of these */
};

/* A server ID in QUIC's connection IDs (draft-ietf-quic-load-balancers): the bytes behind the first one, filled with
 * zeros. */
struct lbdsr_quic_key {
	__u32 service;
	__u8 config; /* 0 to 6 */
	__u8 server[15];
};
PCN_MAP_FLAGS(quic_servers, BPF_MAP_TYPE_HASH, struct lbdsr_quic_key, __u32, 16384,
	      BPF_F_NO_PREALLOC);
/* The length of server IDs by configuration; 0: there is none. */
PCN_MAP(quic_configs, BPF_MAP_TYPE_ARRAY, __u32, __u32, 8);

/* The first fragment of a datagram leaves its ports for the others. */
struct lbdsr_fragment_key {
	pcn_address source;
	pcn_address destination;
	__be32 id;
	__u32 protocol;
};
PCN_DISPOSABLE PCN_MAP(fragments, BPF_MAP_TYPE_LRU_HASH, struct lbdsr_fragment_key, __u32, 4096);

/* Takes a packet from one of the limits; 0: it is reached. */
PCN_INLINE int lbdsr_allowed(const struct lbdsr_settings *s, __u32 which)
{
	__u64 *bucket = bpf_map_lookup_elem(&limited, &which);

	if (!bucket)
		return 0;
	if (which == LBDSR_LIMIT_ERRORS)
		return pcn_bucket_take(bucket, &s->errors, 1, pcn_time_coarse());
	if (which == LBDSR_LIMIT_CHECKS)
		return pcn_bucket_take(bucket, &s->checks, 1, pcn_time_coarse());
	return pcn_bucket_take(bucket, &s->control, 1, pcn_time_coarse());
}

#endif
