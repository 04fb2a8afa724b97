// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The maps of elb, its sessions, and why it drops packets. */
#ifndef ELB_H
#define ELB_H

/* The cube's own session table. Both directions are in one zone: the 5-tuples of packets to a service and from a server never
 * collide, as source ports are never ports of services. */
#define PCN_CONNTRACK_OWN 1

#include <pcn/cube.h>
#include <pcn/balance.h>
#include <pcn/balance_session.h>
#include <pcn/hostfib.h>

enum elb_reason {
	ELB_TTL = PCN_REASON_FIRST, /* the TTL or hop limit of a session's packet has expired */
	ELB_MALFORMED,		    /* a header of a session's packet cannot be written */
};
PCN_REASONS(elb_reason);

/* From ELB_NO_SERVER on, the names are leaves of the container `sessions`: why a SYN for a service passed to the stack. */
enum elb_counter {
	ELB_OPENED,
	ELB_ERRORS,    /* ICMP errors, translated */
	ELB_NO_SERVER, /* the service has no server that is up */
	ELB_CONNECTED, /* the host already has the connection, such as one that HAProxy accepted */
	ELB_NO_PORT,   /* no source port is free towards the server */
	ELB_UNDECIDED, /* a preceding cube, such as a firewall, leaves the decision to the host's rules */
	ELB_NO_OUTPUT, /* at XDP, one of the two netdevs is not an output of the cube */
	ELB_MTU,       /* two netdevs have different MTUs */
	ELB_FULL,      /* there is no room for another session */
	ELB_COUNTERS,
};
PCN_COUNTERS(counters, elb_counter, ELB_COUNTERS);

/* Cube-wide settings. */
struct elb_settings {
	__u16 first; /* of the source ports */
	__u16 ports; /* how many there are */
	__u32 zero;
};
PCN_MAP_FLAGS(settings, BPF_MAP_TYPE_ARRAY, __u32, struct elb_settings, 1, BPF_F_MMAPABLE);

/* The netdevs that the cube is on, by interface index: one, or all of the host. */
struct elb_netdev {
	__u64 mac; /* as returned by pcn_mac */
	__u32 output; /* of the cube, that leads to it; ELB_NO_WAY: packets of other netdevs cannot leave here */
	__u32 mtu;
};
PCN_MAP_FLAGS(netdevs, BPF_MAP_TYPE_HASH, __u32, struct elb_netdev, 8192, BPF_F_NO_PREALLOC);

/* Not a valid output number. */
#define ELB_NO_WAY 16

/* Services by number; the first is not used. */
#define ELB_SERVICES 4096

/* How a service chooses the server of a new session. */
enum elb_select { ELB_MAGLEV, ELB_ROUND_ROBIN, ELB_LEAST_CONNECTIONS };

struct elb_service {
	__u32 turn;  /* counts sessions, for round robin */
	__u8 select; /* enum elb_select */
	__u8 zero[3];
};
PCN_MAP_FLAGS(service_settings, BPF_MAP_TYPE_ARRAY, __u32, struct elb_service, ELB_SERVICES,
	      BPF_F_MMAPABLE);

/* A server of a service by its number. */
struct elb_server {
	pcn_address address;
	pcn_address source; /* of the host, that it sees */
	__u64 mac;	    /* of the next hop towards it */
	__u32 netdev;	    /* that leads there */
	__u32 turn;	    /* counts new sessions, which take source ports in turn */
	__u32 sessions;	    /* that are not closing; the control plane counts them again */
	__u16 weight;
	__be16 port;
};
PCN_MAP_FLAGS(servers, BPF_MAP_TYPE_ARRAY, __u32, struct elb_server, 64, BPF_F_MMAPABLE);

/* Counters of a server. */
struct elb_counts {
	struct pcn_count to;
	struct pcn_count from;
	__u64 opened;
};
PCN_MAP(server_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct elb_counts, 64);

/* Sessions have in `own` the MAC address where the client's packets come from, as returned by pcn_mac, and their netdev. */
#define ELB_MAC 0
#define ELB_NETDEV 1

/* A packet, and the session being opened for it: too large for the BPF stack. */
struct elb_work {
	struct pcn_flow flow;
	struct pcn_flow inner; /* the packet in an ICMP error */
	struct pcn_session_key key;
	struct pcn_session_key twin; /* of the other direction */
	struct pcn_session new;	     /* the entry that is opened, for the client's packets */
	struct pcn_session reply;    /* and that for the server's */
	struct pcn_service service;  /* that the packet is for */
	struct elb_server server;    /* the one that was chosen */
	struct bpf_fib_lookup frame;
	struct bpf_sock_tuple tuple;
	__u64 mac;    /* of the sender */
	__u32 netdev; /* where it came in */
	__u32 zero;
};
PCN_DISPOSABLE PCN_MAP(work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct elb_work, 1);

/* A global function looks it up again: the verifier of Linux 6.1 accepts an argument's memory neither as a map key nor
 * as a value. */
PCN_INLINE struct elb_work *elb_work(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&work, &only);
}

PCN_INLINE struct elb_settings *elb_settings(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&settings, &only);
}

#endif
