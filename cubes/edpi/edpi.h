// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The tables of edpi. Program polycube-ndpi writes decisions, and Go package dpi reads all of them. */
#ifndef EDPI_H
#define EDPI_H

#include <pcn/bucket.h>
#include <pcn/cube.h>
#include <pcn/flow.h>
#include <pcn/fragment.h>
#include <pcn/ring.h>
#include <pcn/segments.h>
#include <pcn/sketch.h>

/* Both directions of a flow have one key: the lower end comes first. A later fragment belongs to the flow of the first one.
 * Tags are not part of it. */
struct edpi_key {
	pcn_address low;
	pcn_address high;
	__be16 low_port;
	__be16 high_port;
	__u8 protocol;
	__u8 zero[3];
};

enum edpi_flag {
	EDPI_REVERSE = 1,  /* the higher end has sent the first packet */
	EDPI_DECIDED = 2,  /* polycube-ndpi has answered */
	EDPI_GUESSED = 4,  /* by ports or addresses alone */
	EDPI_ELEPHANT = 8, /* above a threshold, or of a class of elephants */
	EDPI_FIN_LOW = 16, /* the lower end has ended its side */
	EDPI_FIN_HIGH = 32,
	EDPI_RESET = 64,
	EDPI_PRELIMINARY = 256, /* in class.flags: further packets may tell more */
};

/* What polycube-ndpi says of a flow: its protocol, the one that carries it, and what kind of traffic it is. */
struct edpi_class {
	__u16 protocol;
	__u16 master; /* 0: there is no other */
	__u16 category;
	__u16 flags; /* EDPI_GUESSED, EDPI_PRELIMINARY */
	__u64 risks; /* a bit for each risk of nDPI */
};

/* A flow. Only programs write it. */
struct edpi_flow {
	__u64 id; /* when the first packet came, monotonic ns: two flows of a key have different ones */
	__u64 last;	  /* the same of the last one, coarse */
	__u64 packets[2]; /* from the lower end, and from the higher one */
	__u64 bytes[2];
	__u64 window; /* bytes of this second, after its number */
	struct edpi_class class;
	__u32 flags;	 /* enum edpi_flag */
	__u32 inspected; /* packets in the ring */
};

/* A decision about the flow with this id. */
struct edpi_decision {
	__u64 id;
	struct edpi_class class;
};

/* Written by polycube-ndpi: it has seen all packets up to `beat`, monotonic ns. */
struct edpi_classifier {
	__u64 beat;
	__u64 names; /* a hash of the names */
	__u64 accepted; /* the hash of those that the numbers in tables refer to; the daemon writes it */
	char version[48];
};

/* A flow that has ended, for polycube-ndpi. */
struct edpi_ended {
	struct edpi_key key;
	struct edpi_flow flow;
};

/* The flow of a fragmented datagram, as its first fragment has shown it. */
struct edpi_first {
	struct edpi_key key;
	__u64 seen; /* coarse */
	__u8 reverse;
	__u8 zero[7];
};

/* How many datagrams. */
#define EDPI_FRAGMENTS 4096

/* Rows by class: protocols, then categories, then all elephants. */
#define EDPI_PROTOCOLS 1024
#define EDPI_CATEGORIES 256
#define EDPI_ELEPHANTS (EDPI_PROTOCOLS + EDPI_CATEGORIES)
#define EDPI_ROWS (EDPI_ELEPHANTS + 1)
/* Names are those of the rows, then those of 64 risks. */
#define EDPI_NAMES (EDPI_ROWS + 64)
/* Rows of packets that have no class: those of flows that are not decided, of flows for which there was no room, others
 * than IP, and later fragments of datagrams whose first one was not seen. */
#define EDPI_UNDECIDED_ROW (EDPI_PROTOCOLS - 1)
#define EDPI_NO_ROOM_ROW (EDPI_PROTOCOLS - 2)
#define EDPI_OTHER_ROW (EDPI_PROTOCOLS - 3)
#define EDPI_FRAGMENT_ROW (EDPI_PROTOCOLS - 4)
#define EDPI_LAST_PROTOCOL (EDPI_PROTOCOLS - 5)

/* What belongs to a class: a slot of a policy, 0 for none. */
struct edpi_rule {
	__u16 slot;
	__u16 elephant;
};

/* Values of the model's leaf `action`, in order. */
enum edpi_action { EDPI_PASS, EDPI_DROP, EDPI_MARK, EDPI_LIMIT, EDPI_REDIRECT, EDPI_MIRROR };

struct edpi_policy {
	struct pcn_bucket_limit limit;
	__u32 action; /* enum edpi_action */
	__u32 value;  /* of the mark, or the output */
};

#define EDPI_POLICIES 256

/* Packets of a class; on each CPU a part of the sum, which may be negative. */
struct edpi_count {
	__u64 packets;
	__u64 bytes;
	__u64 flows;
};

#endif
