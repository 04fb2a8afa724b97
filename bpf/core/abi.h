// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Tables and records that the daemon and the framework's programs share. Cubes never see them.
 * internal/datapath/abi derives its types from here and a test compares the two. */
#ifndef PCN_ABI_H
#define PCN_ABI_H

#include <pcn/ctx.h>
#include <pcn/md.h>

#define PCN_MAX_CUBES 1024
#define PCN_MAX_PORTS 512 /* of one cube; a power of two */
#define PCN_PAGES 16
#define PCN_SLOTS 1001 /* counter slots in a page; the last one counts what belongs to no port */
#define PCN_ENTRIES 65536
#define PCN_FLOOD_SETS (64 << 10) /* of all cubes */
#define PCN_MAX_HOPS 128	  /* how often a packet may turn back or enter again */
#define PCN_RING_SIZE (8 << 20)

/* skb->tc_index of a packet that one of our programs sends past the program of a netdev that
 * has seen it already. */
#define PCN_SKIP 0x9c5b
/* Stands before a frame that goes to the stack of a netdev with generic XDP, whose program would
 * see it again: a secret that only our programs know, where an Ethernet header is expected. */
struct pcn_pass {
	__u64 secret;
	__u8 pad[8];
};

/* skb->tc_index of a copy for a namespace: its taps see it, its stack does not. */
#define PCN_SPAN 0x9c5c

/* In pcn_entry.port: packets of the cube's namespace, which leave by the port. */
#define PCN_SENT 0x8000

/* The upper half of skb->cb[0] of a packet that enters again by our own interface; below are its
 * target and its hops (8 bits each). cb[1] has the cube, md's flags (7 bits) and the port (9). */
#define PCN_AGAIN_MAGIC 0x7063

/* Where a packet from a netdev goes: by interface index. */
struct pcn_entry {
	__u16 cube; /* 0: nowhere */
	__u16 port;
	__u16 page; /* counters of the port */
	__u16 slot;
};

/* Where a port's packets go: by cube << 9 | port. */
struct pcn_exit {
	__u32 ifindex; /* 0: no netdev there */
	__u16 page;
	__u16 slot;
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

/* Where a program resumes: after a turn, a packet from the slow path, a copy. For the cube's
 * programs the index is above, shifted by PCN_TARGET_SHIFT. */
#define PCN_TARGET_SHIFT 3
enum pcn_target {
	PCN_TO_RX,	 /* as received on md.in_port */
	PCN_TO_TX,	 /* as sent to md.out_port */
	PCN_TO_IN,	 /* the cube's ingress program */
	PCN_TO_IN_NEXT,	 /* behind a transparent cube's ingress program */
	PCN_TO_OUT,	 /* the cube's egress program */
	PCN_TO_OUT_NEXT, /* behind the cube's egress program */
	PCN_TO_SHADOW,	 /* as given to the cube's namespace, at md.out_port */
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
	__u32 copies;  /* XDP: ports whose copies come back by the loop */
	__u32 group;   /* XDP: the broadcast's netdevs and those ports; 0: user space copies */
	__u32 pad;
	__u64 simple_ports[PCN_MAX_PORTS / 64];
	__u64 complex_ports[PCN_MAX_PORTS / 64];
	struct pcn_flood_exit exit[PCN_MAX_PORTS];
};

/* The ports of a set, by cube << 16 | set. */
struct pcn_flood_set {
	__u64 ports[PCN_MAX_PORTS / 64];
	__u64 tagged[PCN_MAX_PORTS / 64]; /* those among them that want the tag */
	__u32 group;			  /* XDP: as in pcn_flood */
	__u8 flags;			  /* XDP: PCN_SET_... */
	__u8 words;			  /* those of ports that are not 0, by bit */
	__u16 pad;
};

/* Of a set: some members want the tag, some do not. Where there are both, the netdevs among the
 * latter have a program in the broadcast that takes it off, or, where that cannot be (generic
 * XDP), get their copies by one more copy on the loop, behind those of the ports. BY_LOOP: there
 * are copies that come back by the loop. */
#define PCN_SET_WITH 1
#define PCN_SET_WITHOUT 2
#define PCN_SET_BY_LOOP 4
#define PCN_SET_UNTAGS 8

/* Whose copies come back by the loop, by group: the n-th that comes back is for the n-th port. A
 * group never changes, so that a copy under way finds its port whatever happens to the ports. */
struct pcn_copies {
	__u32 count;
	__u32 for_tc; /* one more copy, which TC copies for the netdevs of these ports */
	__u64 tc_ports[PCN_MAX_PORTS / 64];
	__u16 port[PCN_MAX_PORTS]; /* and PCN_COPY_UNTAGGED */
};

#define PCN_COPY_UNTAGGED (1 << 15) /* the port does not want the tag that other members want */

#define PCN_LOOP_MAGIC 0x7063
#define PCN_LOOP_FRAME \
	3380 /* bytes that the loop takes besides the header; it has an MTU of 3400 */

/* Stands before a frame on the loop, the veth pair by which XDP copies come back in. */
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
#define PCN_LOOP_TAGGED (1U << 30) /* the frame has the tag that some of the ports do not want */
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
	__u32 sleeping; /* the reader waits and must be woken */
	__u32 pad;
};

enum pcn_record_kind {
	PCN_RECORD_PACKET = 1,
	PCN_RECORD_LOG = 2,
	PCN_RECORD_FLOOD = 3,  /* a packet that user space must replicate */
	PCN_RECORD_NOTIFY = 4, /* a message of its kind, md[0] */
	PCN_RECORD_TRACE =
		5, /* a step of a packet that is traced: struct pcn_trace, then the packet */
	PCN_RECORD_FLOOD_SET = 6, /* a packet that user space must replicate; md says how */
};

#define PCN_RECORD_VLAN 1 /* flags: vlan_proto and vlan_tci hold */
#define PCN_RECORD_EGRESS 2
#define PCN_RECORD_XDP 4
/* flags: those of md, but for the sessions, are in the upper half */
#define PCN_RECORD_MD 16

/* What comes up through the ring, 72 bytes before the packet. */
struct pcn_record {
	__u16 kind;
	__u16 cube;
	__u16 port;
	__u16 reason;
	__u32 flags;
	__u32 len;    /* on the wire */
	__u32 caplen; /* bytes that follow */
	__u32 size;   /* charged to the cube's share */
	__u32 ifindex;
	__u32 traffic_class;
	__u32 gso_size;
	__u32 gso_segs;
	__u16 vlan_proto; /* network order */
	__u16 vlan_tci;
	__u32 hops;
	__u32 md[4];
	__u32 flow_hash;
	__u32 tenant;
	__u8 data[];
};

_Static_assert(sizeof(struct pcn_record) == 72, "record header");

/* What a record of a traced packet is about. */
enum pcn_trace_stage {
	PCN_TRACE_PROGRAM = 1, /* a program returned the verdict */
	PCN_TRACE_END,	       /* the framework dropped the packet; extra is the reason */
	PCN_TRACE_LEAVE,       /* it leaves; extra is the interface index */
	PCN_TRACE_IN,	       /* the cube gets it by in_port */
	PCN_TRACE_OUT,	       /* the cube sends it by port extra */
};

#define PCN_TRACE_BYTES 128 /* of a packet in the record of a step */

struct pcn_trace {
	__u64 time; /* monotonic ns */
	__u16 cube;
	__u16 in_port;
	__u16 out_port;
	__u16 reason;
	__u32 extra;
	__u16 id; /* of the packet; copies get others */
	__u8 stage;
	__u8 verdict;
	__u8 program;
	__u8 egress;
	__u8 sessions; /* those that want the record */
	__u8 pad;
	__u32 reserved;
};

_Static_assert(sizeof(struct pcn_trace) == 32, "head of a trace");

#endif
