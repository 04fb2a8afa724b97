// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Messages from the fast path to the cube's control plane, which are no packets. */
#ifndef PCN_NOTIFY_H
#define PCN_NOTIFY_H

#include <pcn/core.h>

/* The longest message, in bytes. */
#define PCN_NOTIFY_MAX 128

/* Internal: a message on its way. */
struct pcn_notice {
	__u32 kind;
	__u32 size;
	__u64 data[PCN_NOTIFY_MAX / 8];
};

/* Internal: use pcn_notify(). */
PCN_STUB int pcn_core_notify(struct CTXTYPE *ctx, const struct pcn_notice *notice PCN_NONNULL)
{
	asm volatile("" : : "r"(ctx), "r"(notice));
	return 0;
}

/* Sends bytes to the method Notify of the cube's control plane: `kind` is a number of the cube's
 * own, `data` points to `bytes` of them, a constant of at most PCN_NOTIFY_MAX. The packet goes on.
 * 0, or -1 if there was no room in the cube's share of the slow path, counted as notify-shed. */
#define pcn_notify(ctx, md, kind_, data_, bytes)                                          \
	({                                                                                \
		_Static_assert((bytes) <= PCN_NOTIFY_MAX, "pcn_notify message too long"); \
		struct pcn_notice pcn_message = { .kind = (kind_), .size = (bytes) };     \
		__builtin_memcpy(pcn_message.data, (data_), (bytes));                     \
		(void)(md);                                                               \
		pcn_core_notify(ctx, &pcn_message);                                       \
	})

#endif
