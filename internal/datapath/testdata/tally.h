// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Versions of a standard cube for tests of upgrades: a table of counters per port whose layout
 * changes between versions, selected by the files tally*.bpf.c. */
#ifndef TALLY_H
#define TALLY_H

#include <pcn/cube.h>

#ifndef TALLY_MEMBERS
#define TALLY_MEMBERS          \
	{                      \
		__u32 packets; \
		__u32 bytes;   \
	}
#endif
#ifndef TALLY_ENTRIES
#define TALLY_ENTRIES 64
#endif
#ifndef TALLY_STEP
#define TALLY_STEP 1
#endif
/* The value with which a version omits the NULL check, 0: none. */
#ifndef TALLY_FORGETS
#define TALLY_FORGETS 0
#endif

/* PCN_DISPOSABLE in a version whose counters may be dropped. */
#ifndef TALLY_DISPOSABLE
#define TALLY_DISPOSABLE
#endif

struct tally_counter TALLY_MEMBERS;

TALLY_DISPOSABLE PCN_MAP(seen, BPF_MAP_TYPE_HASH, __u32, struct tally_counter, TALLY_ENTRIES);

/* The value of the constant when the program was linked. */
PCN_CONFIG(__u32, mark) = 0;
PCN_MAP(marks, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1);

PCN_INGRESS
{
	__u32 port = md->in_port, zero = 0;
	struct tally_counter one = { .packets = TALLY_STEP, .bytes = md->packet_len };
	struct tally_counter *c = bpf_map_lookup_elem(&seen, &port);
	__u32 *m = bpf_map_lookup_elem(&marks, &zero);

	if (m)
		*m = mark;
	if (c || (TALLY_FORGETS && mark == TALLY_FORGETS)) {
		c->packets += TALLY_STEP;
		c->bytes += md->packet_len;
	} else {
		bpf_map_update_elem(&seen, &port, &one, BPF_ANY);
	}
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_LICENSE;

#endif
