// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Log lines from the fast path. Lines below the cube's level are compiled out. */
#ifndef PCN_LOG_H
#define PCN_LOG_H

#include <pcn/core.h>

enum pcn_log_level {
	LOG_TRACE,
	LOG_DEBUG,
	LOG_INFO,
	LOG_WARN,
	LOG_ERR,
	LOG_CRITICAL,
	LOG_OFF,
};

/* The cube's level, set by the linker. */
const volatile __u32 pcn_log_level = LOG_INFO;

/* Internal: counts the arguments and stores each. */
#define PCN_LOG_N(a, b, c, d, e, n, ...) n
#define PCN_LOG_COUNT(...) PCN_LOG_N(_, ##__VA_ARGS__, 4, 3, 2, 1, 0)
#define PCN_LOG_SET0(a)
#define PCN_LOG_SET1(a, w) (a).arg[0] = (__u64)(w)
#define PCN_LOG_SET2(a, w, x) PCN_LOG_SET1(a, w), (a).arg[1] = (__u64)(x)
#define PCN_LOG_SET3(a, w, x, y) PCN_LOG_SET2(a, w, x), (a).arg[2] = (__u64)(y)
#define PCN_LOG_SET4(a, w, x, y, z) PCN_LOG_SET3(a, w, x, y), (a).arg[3] = (__u64)(z)
#define PCN_LOG_CAT2(a, b) a##b
#define PCN_LOG_CAT(a, b) PCN_LOG_CAT2(a, b)

/* pcn_log(ctx, LOG_DEBUG, "from %M on port %d", mac, md->in_port): a literal format of at most 87
 * characters and up to four integers. Formats: %d %i %u %x %X %llu and, for integers in network
 * byte order, %I (IPv4 address), %M (MAC address), %P (L4 port). Lines are lost if the daemon
 * cannot keep up. A line below the cube's level costs nothing: it is not in the program. */
#define pcn_log(ctx, lvl, format, ...)                                                           \
	do {                                                                                     \
		_Static_assert(sizeof(format) <= PCN_LOG_FMT_MAX, "pcn_log format is too long"); \
		if ((__u32)(lvl) >= pcn_log_level) {                                             \
			struct pcn_log_args pcn_args = { .level = (lvl),                         \
							 .count = PCN_LOG_COUNT(__VA_ARGS__),    \
							 .fmt = format };                        \
			PCN_LOG_CAT(PCN_LOG_SET, PCN_LOG_COUNT(__VA_ARGS__))                     \
			(pcn_args, ##__VA_ARGS__);                                               \
			pcn_core_log(ctx, &pcn_args);                                            \
		}                                                                                \
	} while (0)

#endif
