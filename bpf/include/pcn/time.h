// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Clocks for the fast path. */
#ifndef PCN_TIME_H
#define PCN_TIME_H

#include <pcn/ctx.h>

/* Monotonic nanoseconds of the last timer tick (1 to 10 ms coarse): a memory read, where the
 * exact clock reads the TSC. Use it for aging. */
PCN_INLINE __u64 pcn_time_coarse(void)
{
	return bpf_ktime_get_coarse_ns();
}

/* Monotonic nanoseconds, exact. */
PCN_INLINE __u64 pcn_time(void)
{
	return bpf_ktime_get_ns();
}

#endif
