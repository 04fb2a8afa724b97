// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Tables and records shared by the daemon and the framework's programs. Cubes never see them.
 * internal/datapath/abi derives its types from here and a test compares the two. */
#ifndef PCN_ABI_H
#define PCN_ABI_H

#include <pcn/ctx.h>
#include <pcn/md.h>

#define PCN_MAX_PORTS 512 /* of one cube; a power of two */
#define PCN_PAGES 16
#define PCN_SLOTS 1001 /* counter slots in a page; the last one counts packets of no port */
#define PCN_ENTRIES 65536
#define PCN_FLOOD_SETS (64 << 10) /* of all cubes */
#define PCN_MAX_HOPS 128	  /* how often a packet may turn back or re-enter */
#define PCN_RING_SIZE (8 << 20)

/* skb->tc_index of a packet that one of our programs sends past the program of a netdev, which has
 * already processed it. */
#define PCN_SKIP 0x9c5b
/* The same, past the program between a netdev and the host's stack. */
#define PCN_SKIP_HOST 0x9c5d
/* Precedes a frame for the stack of a netdev with generic XDP, whose program would otherwise
 * process it again: a secret that only our programs know, in place of an Ethernet header. */
struct pcn_pass {
	__u64 secret;
	__u8 pad[8];
};

/* skb->tc_index of a copy for a namespace: visible to its taps, but not to its stack. */
#define PCN_SPAN 0x9c5c

/* The upper byte of skb->tc_index of a packet that a cube redirected to a netdev; the lower byte
 * contains its hops. */
#define PCN_REDIRECTED 0x9d

/* Flag in pcn_entry.port: packets come from the cube's namespace and leave by the port. */
#define PCN_SENT 0x8000

/* The upper half of skb->cb[0] of a packet that re-enters through our own interface; the lower half
 * contains its target and its hops (8 bits each). cb[1] contains the cube, md's flags (7 bits) and
 * the port (9). */
#define PCN_AGAIN_MAGIC 0x7063

/* Where packets from a netdev go, by interface index. */
struct pcn_entry {
	__u16 cube; /* 0: none */
	__u16 port;
	__u16 page; /* counters of the port */
	__u16 slot;
};

/* Where packets of a port go, by cube << 9 | port. Those of a transparent cube are its outputs: to a
 * port of a cube with the counters of that port, to a netdev with PCN_OUTPUT_... in `page`; and, at
 * XDP, the netdev that it is on. */
struct pcn_exit {
	__u32 ifindex; /* 0: no netdev */
	__u16 page;
	__u16 slot;
};

/* In place of an interface index: the port leads to a port of a cube, whose number is in bits 16 to 27,
 * that of the port below. */
#define PCN_EXIT_CUBE (1U << 31)

/* Flag beside PCN_EXIT_CUBE (XDP): the number is that of the outermost transparent cube on the netdev
 * that is the peer of the port. Packets pass its egress program. */
#define PCN_EXIT_EGRESS (1U << 30)

/* The row of the netdev that a transparent cube is on (XDP), after those of its outputs. */
#define PCN_EXIT_OWN 16

#define PCN_OUTPUT_RECEIVED 1	/* the netdev receives the packet: BPF_F_INGRESS */
#define PCN_OUTPUT_EGRESS 0x100 /* XDP: `slot` is the outermost transparent cube on the netdev */

/* The transparent cubes on a cube's ports that run programs of their own, by cube; 0: none. */
struct pcn_stack {
	__u16 tcube[PCN_MAX_PORTS];
};

/* The port on which such a transparent cube is. */
struct pcn_parent {
	__u16 cube;
	__u16 port;
	__u32 pad;
};

struct pcn_slot {
	__u64 rx_packets, rx_bytes, tx_packets, tx_bytes;
};

struct pcn_page {
	struct pcn_slot slot[PCN_SLOTS];
};

struct pcn_fates {
	__u64 count[PCN_REASON_MAX];
};

/* Where a program resumes: after a turn, for a packet from the slow path, for a copy. For the
 * cube's programs the upper bits are the index, shifted by PCN_TARGET_SHIFT. */
#define PCN_TARGET_SHIFT 3
enum pcn_target {
	PCN_TO_RX,	 /* as received on md.in_port */
	PCN_TO_TX,	 /* as sent to md.out_port */
	PCN_TO_IN,	 /* the cube's ingress program */
	PCN_TO_IN_NEXT,	 /* after a transparent cube's ingress program */
	PCN_TO_OUT,	 /* the cube's egress program */
	PCN_TO_OUT_NEXT, /* after the cube's egress program */
	PCN_TO_SHADOW,	 /* as sent to the cube's namespace, at md.out_port */
	PCN_TO_OFFER,	 /* as offered to the transparent cubes of md.out_port */
};

struct pcn_resume {
	struct pcn_md md;
	__u16 cube;
	__u16 target;
	__u32 pad;
};

/* A packet-out: written by the daemon before it writes the frame to the TAP, consumed in the
 * same system call. */
struct pcn_down {
	__u32 state; /* 0 nothing, 1 set by the daemon, 2 consumed */
	__u32 pad;
	struct pcn_resume resume;
};

/* Where the copies of a flooded packet go, by cube. */
struct pcn_flood_exit {
	__u32 ifindex;
	__u16 port;
	__u16 page;
	__u16 slot;
	__u16 pad;
};

struct pcn_flood {
	__u32 count;   /* ports that lead to a netdev: exit[0..count) */
	__u32 complex; /* ports that lead to another program, known to the driver */
	__u32 tap;     /* TC: interface that takes copies for programs; 0: none */
	__u32 copies;  /* XDP: ports whose copies come back through the loop */
	__u32 group; /* XDP: netdevs of the broadcast, and those ports; 0: user space makes the copies */
	__u32 pad;
	__u64 simple_ports[PCN_MAX_PORTS / 64];
	__u64 complex_ports[PCN_MAX_PORTS / 64];
	struct pcn_flood_exit exit[PCN_MAX_PORTS];
};

/* The ports of a set, by cube << 16 | set. */
struct pcn_flood_set {
	__u64 ports[PCN_MAX_PORTS / 64];
	__u64 tagged[PCN_MAX_PORTS / 64]; /* ports that want the tag */
	__u32 group;			  /* XDP: as in pcn_flood */
	__u8 flags;			  /* XDP: PCN_SET_... */
	__u8 words;			  /* bitmap of the words of ports that are not 0 */
	__u16 pad;
};

/* Flags of a set: some members want the tag, some do not. If there are both, a program of the
 * broadcast removes the tag for netdevs that do not want it (UNTAGS). Where that is impossible
 * (generic XDP), these get their copies from one additional copy on the loop, after those of the
 * ports. BY_LOOP: some copies come back through the loop. */
#define PCN_SET_WITH 1
#define PCN_SET_WITHOUT 2
#define PCN_SET_BY_LOOP 4
#define PCN_SET_UNTAGS 8

/* The ports whose copies come back through the loop, by group: the n-th copy that comes back is for
 * the n-th port. A group never changes, so that a copy in flight finds its port even if ports
 * change. */
struct pcn_copies {
	__u32 count;
	__u32 for_tc; /* one additional copy, from which TC makes those for the netdevs of these ports */
	__u64 tc_ports[PCN_MAX_PORTS / 64];
	__u16 port[PCN_MAX_PORTS]; /* and PCN_COPY_UNTAGGED */
};

#define PCN_COPY_UNTAGGED (1 << 15) /* the port does not want the tag that other members want */

#define PCN_LOOP_MAGIC 0x7063
#define PCN_LOOP_FRAME 3380 /* frame size limit of the loop without the header; its MTU is 3400 */

/* Header of a frame on the loop, the veth pair through which XDP copies come back. */
struct pcn_loop {
	__u16 magic;
	__u16 cube;
	__u32 serial; /* of the flood; the upper byte is the CPU */
	__u32 what;   /* PCN_LOOP_..., and the group of a flood or the target of one packet */
	__u16 in_port;
	__u8 hops;
	__u8 flags; /* of md */
	__u32 traffic_class;
	__u32 flow_hash;
	__u32 tenant;
	__u32 pass_ifindex;
};

#define PCN_LOOP_SINGLE (1U << 31) /* one packet, for in_port */
#define PCN_LOOP_TAGGED (1U << 30) /* the frame has the tag, which some of the ports do not want */
#define PCN_LOOP_VALUE 0xffffff	   /* the bits of the group or target */

_Static_assert(sizeof(struct pcn_loop) == 32, "loop header, as much as XDP metadata may be");

/* How many copies of a flood have come back. */
struct pcn_returned {
	__u32 serial;
	__u32 count;
};

/* A cube's share of the ring, in bytes. */
struct pcn_share {
	__u64 produced;
	__u64 consumed; /* written by the daemon */
};

struct pcn_control {
	__u32 sleeping; /* the reader sleeps and must be woken */
	__u32 pad;
};

enum pcn_record_kind {
	PCN_RECORD_PACKET = 1,
	PCN_RECORD_LOG = 2,
	PCN_RECORD_FLOOD = 3,	  /* a packet that user space must replicate */
	PCN_RECORD_NOTIFY = 4,	  /* a message; md[0] is its kind */
	PCN_RECORD_TRACE = 5,	  /* a step of a traced packet: struct pcn_trace, then the packet */
	PCN_RECORD_FLOOD_SET = 6, /* a packet that user space must replicate, as md describes */
};

#define PCN_RECORD_VLAN 1 /* flag: vlan_proto and vlan_tci are valid */
#define PCN_RECORD_EGRESS 2
#define PCN_RECORD_XDP 4
/* flags: the upper half contains those of md, except for the sessions */
#define PCN_RECORD_MD 16

/* A record in the ring to user space: 72 bytes, followed by the packet. */
struct pcn_record {
	__u16 kind;
	__u16 cube;
	__u16 port;
	__u16 reason;
	__u32 flags;
	__u32 len;    /* on the wire */
	__u32 caplen; /* length of the data that follows */
	__u32 size;   /* charged to the cube's share */
	__u32 ifindex;
	__u32 traffic_class;
	__u32 gso_size;
	__u32 gso_segs;
	__u16 vlan_proto; /* network byte order */
	__u16 vlan_tci;
	__u32 hops;
	__u32 md[4];
	__u32 flow_hash;
	__u32 tenant;
	__u8 data[];
};

_Static_assert(sizeof(struct pcn_record) == 72, "record header");

/* The event that a trace record describes. */
enum pcn_trace_stage {
	PCN_TRACE_PROGRAM = 1, /* a program returned the verdict */
	PCN_TRACE_END,	       /* the framework dropped the packet; extra is the reason */
	PCN_TRACE_LEAVE,       /* the packet leaves; extra is the interface index */
	PCN_TRACE_IN,	       /* the cube receives the packet on in_port */
	PCN_TRACE_OUT,	       /* the cube sends the packet on port extra */
};

#define PCN_TRACE_BYTES 128 /* bytes of the packet in the record of a step */

struct pcn_trace {
	__u64 time; /* monotonic ns */
	__u16 cube;
	__u16 in_port;
	__u16 out_port;
	__u16 reason;
	__u32 extra;
	__u16 id; /* of the packet; copies have other ids */
	__u8 stage;
	__u8 verdict;
	__u8 program;
	__u8 egress;
	__u8 sessions; /* sessions that want the record */
	__u8 pad;
	__u32 reserved;
};

_Static_assert(sizeof(struct pcn_trace) == 32, "head of a trace");

#endif
