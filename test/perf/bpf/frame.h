// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The frames of the benchmarks: station i on the left talks to station i on the right. The MAC
 * addresses identify the flow, 02:b0:SIDE:00:hi:lo, so the sink can tell that a frame arrived on
 * the right side. */
#ifndef PERF_FRAME_H
#define PERF_FRAME_H

#include <linux/if_ether.h>
#include <pcn/ctx.h>

#define LEFT 1
#define RIGHT 2

/* The first four bytes of a station's address on a side, as they lie in memory. */
#define STATION(side) (0x0000b002 | (__u32)(side) << 16)

/* Writes the addresses of flow i, from one side to the other. */
PCN_INLINE void address(__u16 *w, __u32 i, __u32 from)
{
	__u32 to = LEFT + RIGHT - from, low = bpf_htons(i);

	*(__u64 *)w = STATION(to) | (__u64)low << 32 | (__u64)STATION(from) << 48;
	*(__u32 *)(w + 4) = STATION(from) >> 16 | low << 16;
}

/* True for a frame from one side to the other, between stations with the same number. */
PCN_INLINE int is_ours(const __u16 *w, __u32 from)
{
	__u32 to = LEFT + RIGHT - from;

	return w[0] == (__u16)STATION(to) && w[1] == STATION(to) >> 16 &&
	       w[3] == (__u16)STATION(from) && w[4] == STATION(from) >> 16 && w[2] == w[5];
}

#endif
