// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The work of one trivial cube, the same for ours and for the baselines. */
#ifndef PERF_SWAP_H
#define PERF_SWAP_H

#include <pcn/packet.h>

/* Checks the bounds and swaps the MAC addresses; -1 for a frame that is too short. In 16-bit words:
 * a struct ethhdr is packed, and the compiler would access single bytes. */
PCN_INLINE int swap_macs(struct CTXTYPE *ctx)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	__u16 *w = (void *)pcn_parse_eth(&c);

	if (!w)
		return -1;
	__u16 a = w[0], b = w[1], d = w[2];
	w[0] = w[3];
	w[1] = w[4];
	w[2] = w[5];
	w[3] = a;
	w[4] = b;
	w[5] = d;
	return 0;
}

#endif
