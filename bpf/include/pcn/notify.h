// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Messages from the fast path to the cube's control plane, without a packet. */
#ifndef PCN_NOTIFY_H
#define PCN_NOTIFY_H

#include <pcn/core.h>

/* The maximum length of a message, in bytes. */
#define PCN_NOTIFY_MAX 128

/* A message: its kind, its length in bytes, and its data. */
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

/* Sends bytes to the function Notify of the cube's control plane: `kind` is a number chosen by the
 * cube, `data` points to `bytes` bytes, a constant of at most PCN_NOTIFY_MAX. Processing of the
 * packet continues. Returns 0, or -1 if the cube's share of the slow path was full, which is
 * counted as notify-shed. */
#define pcn_notify(ctx, md, kind_, data_, bytes)                                          \
	({                                                                                \
		_Static_assert((bytes) <= PCN_NOTIFY_MAX, "pcn_notify message too long"); \
		struct pcn_notice pcn_message = { .kind = (kind_), .size = (bytes) };     \
		__builtin_memcpy(pcn_message.data, (data_), (bytes));                     \
		(void)(md);                                                               \
		pcn_core_notify(ctx, &pcn_message);                                       \
	})

/* Sends a message that is in the memory of a map, since a long one takes much of the stack. Otherwise like
 * pcn_notify; size is at most PCN_NOTIFY_MAX. */
PCN_INLINE int pcn_notify_notice(struct CTXTYPE *ctx, const struct pcn_notice *notice)
{
	return pcn_core_notify(ctx, notice);
}

#endif
