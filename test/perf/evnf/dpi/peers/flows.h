// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What both peers of edpi share: a table of flows, which nDPI sees the first packets of, and counters for the benchmark. */
#ifndef EVNF_FLOWS_H
#define EVNF_FLOWS_H

#include <stddef.h>
#include <stdint.h>

/* What edpi has by default: packets of a flow that are inspected, bytes of each of them, and seconds after which a silent flow
 * ends. */
#define INSPECT_PACKETS 16
#define SNAP_LENGTH 1536
#define IDLE_SECONDS 60

/* Room for flows. Beyond it, the one that was silent for longest ends. */
#define MAX_FLOWS (1 << 18)

/* Counters, in a file that the benchmark reads. */
struct counts {
	uint64_t packets;   /* of IP, with or without a flow */
	uint64_t bytes;	    /* of their IP packets */
	uint64_t inspected; /* packets that nDPI has seen */
	uint64_t flows;
	uint64_t classified; /* flows */
	uint64_t unknown;    /* flows: nDPI has given up, and cannot guess either */
	uint64_t lost;	     /* packets, as the kernel says */
	uint64_t ready;	     /* 1 once packets are read */
};
extern struct counts *counts;

/* Exits with a message about errno. */
void die(const char *what);

/* Maps the file of counters, and initialises nDPI. */
void flows_init(const char *file);

/* Takes an IP packet, of which `length` bytes are there, at a time in ms. Returns 1 if its flow is classified, 0 if not. */
int flows_packet(const unsigned char *ip, uint32_t length, uint64_t ms);

/* Ends flows that have been silent for too long. */
void flows_expire(uint64_t ms);

/* The time of the monotonic clock in ms. */
uint64_t now_ms(void);

/* Waits until there is something to read, at most for a second. Exits when standard input ends: the benchmark has ended. */
void wait_for(int fd);

#endif
