// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The metadata that accompanies a packet through a chain of cubes, and the possible fates of a
 * packet. */
#ifndef PCN_MD_H
#define PCN_MD_H

#include <linux/types.h>

/* The numbers of cubes, pcn_instance(md), are below this: the size of arrays that have a row for each. */
#define PCN_MAX_CUBES 1024

/* Metadata of a packet, version 1: 64 bytes, zeroed when the packet enters. The linker and the
 * daemon know the offsets (internal/datapath/abi); extend it only in `reserved`. */
struct pcn_md {
	__u16 in_port;	     /* port of this cube where the packet came in */
	__u16 out_port;	     /* port that pcn_pkt_send chose; valid in egress programs */
	__u16 reason;	     /* why it was dropped or sent to the slow path */
	__u16 hops;	     /* how often the packet turned back or re-entered */
	__u32 packet_len;    /* bytes on the wire, without FCS */
	__u32 traffic_class; /* preserved along the chain; the skb mark at TC */
	__u32 flow_hash;     /* 0 until a cube computes it; preserved along the chain */
	__u32 tenant;	     /* tenant or QFI; preserved along the chain */
	__u32 md[4]; /* the cube's own words: zeroed at every crossing; passed on by pcn_pkt_controller_md */
	__u32 pass_ifindex; /* the netdev whose stack gets a passed packet; 0: the current one */
	__u16 turns;	    /* tail calls in this run */
	__u16 flags;	    /* PCN_MD_... */
	__u16 trace_id;	    /* distinguishes traced packets */
	__u16 notes;	    /* what cubes tell those behind them; preserved along the chain */
	__u16 cube;	    /* the number of the cube that runs: pcn_instance(md) */
	__u16 pad2;
	__u32 reserved[2];
};

_Static_assert(sizeof(struct pcn_md) == 64, "md is 64 bytes");

/* Internal: the bits of md.flags for the sessions that follow the packet. */
#define PCN_MD_TRACE 0xf
/* Internal: the bits of md.flags that pcn_turned and pcn_offered return and, shifted, the port
 * where the offering cube received the packet. */
#define PCN_MD_TURNED 0x10
#define PCN_MD_OFFERED 0x20
#define PCN_MD_FROM 7

/* The bits of md.notes: a NAT that the packet has met translates the source of its connection, or
 * the destination. Whichever side has sent the packet. */
#define PCN_MD_SNAT 1
#define PCN_MD_DNAT 2

/* A bit of md.notes: a cube that the packet has met leaves the decision about it to the host's stack, so that one behind it must
 * not take it past that. */
#define PCN_MD_UNDECIDED 4

/* The return values of a program. Any other value drops the packet as `bad-verdict`. */
enum pcn_verdict {
	PCN_PASS =
		0, /* standard cube: to the stack (ingress), continue (egress); transparent: continue */
	PCN_SEND = 1,	    /* out of md->out_port */
	PCN_DROP = 2,	    /* drop; md->reason is the reason */
	PCN_FLOOD = 3,	    /* out of every port but md->in_port */
	PCN_CONTROLLER = 4, /* to the slow path; md->reason is the reason */
	PCN_CALL = 5,	    /* call another program of this cube; md->reason is its index */
	PCN_NAMESPACE = 6,  /* to the cube's namespace, through the interface of md->out_port */
	PCN_FLOOD_SET = 7,  /* out of the ports of a set, described by md->md */
	PCN_TURN = 8,  /* transparent cube: back, through its own program of the other direction */
	PCN_OFFER = 9, /* to the transparent cubes of md->out_port, one of which may turn it */
	PCN_REDIRECT = 10, /* transparent cube: to its output md->out_port */
};

/* The fates of packets in a cube: verdict, counter index, drop reason and metric label in one.
 * Labels are these names in lower case with dashes. A cube's own reasons start at PCN_REASON_FIRST;
 * it lists them in one enum and names that enum in PCN_REASONS. */
enum pcn_reason {
	PCN_REASON_UNSPECIFIED = 0, /* dropped by the cube without a reason */
	PCN_REASON_PASS,	    /* passed to the stack */
	PCN_REASON_SLOWPATH,	    /* sent to the cube's slow path */
	PCN_REASON_FLOOD,	    /* replicated; each copy is counted on its port */
	PCN_REASON_NO_PEER,	    /* the output port has no peer */
	PCN_REASON_BAD_PORT,	    /* the cube chose a port that it does not have */
	PCN_REASON_BAD_VERDICT,	    /* the program returned no verdict of enum pcn_verdict */
	PCN_REASON_HOP_LIMIT,	    /* it exceeded the hop limit */
	PCN_REASON_SLOWPATH_SHED,   /* the cube's share of the slow path was full */
	PCN_REASON_NO_PROGRAM,	    /* the netdev or the cube currently has no program */
	PCN_REASON_MALFORMED,	    /* too short to be an Ethernet frame */
	PCN_REASON_COPY_FAILED,	    /* a copy for one of the ports could not be made */
	PCN_REASON_NAMESPACE,	    /* sent to the cube's namespace */
	PCN_REASON_NOTIFY_SHED,	    /* not a packet: a pcn_notify message that was shed */
	PCN_REASON_TOO_LONG, /* the frame is in several buffers, which this kernel cannot redirect */
	PCN_REASON_REDIRECTED, /* redirected to an output of the transparent cube */
	PCN_REASON_NO_OUTPUT,  /* the output is not configured, or its destination is gone */
	PCN_REASON_FIRST = 32,
	PCN_REASON_MAX = 64,
};

#endif
