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

/* Nanoseconds since `then`, both of the same clock. Another CPU may read the clock a tick ahead, so
 * the age can be negative. */
PCN_INLINE __s64 pcn_age(__u64 now, __u64 then)
{
	return now - then;
}

/* True if something that was last seen at `then` is older than aging_ns; 0 means never. */
PCN_INLINE int pcn_aged(__u64 now, __u64 then, __u64 aging_ns)
{
	return aging_ns && pcn_age(now, then) > (__s64)aging_ns;
}

/* True if the time of the last packet should be updated. A program that only updates it then, with
 * a constant of its own (package aging provides it), does not write to shared memory for each
 * packet. */
PCN_INLINE int pcn_refresh_due(__u64 now, __u64 then, __u64 refresh_ns)
{
	return pcn_age(now, then) >= (__s64)refresh_ns;
}

#endif
