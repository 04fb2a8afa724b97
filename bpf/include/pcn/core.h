// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Functions of the framework that a cube's program may call. The bodies here never run: the linker
 * drops them and binds the calls to the framework's own functions, adding the caller's identity,
 * which a cube therefore cannot forge. */
#ifndef PCN_CORE_H
#define PCN_CORE_H

#include <pcn/ctx.h>
#include <pcn/md.h>

/* Internal: a function that the linker replaces. */
#define PCN_STUB __attribute__((noinline, weak))

/* Sends a copy of the packet to the slow path; processing of the original continues. Returns 0, or
 * -1 if the copy was shed. */
PCN_STUB int pcn_core_copy(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 reason)
{
	asm volatile("" : : "r"(ctx), "r"(md), "r"(reason));
	return 0;
}

/* Internal: flag in the argument `set`: the frame has the tag. */
#define PCN_SET_TAGGED 0x10000

/* The verdict to flood to a set. Use pcn_pkt_flood_set() instead. */
PCN_STUB int pcn_core_to_set(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 set,
			     __u32 tag)
{
	asm volatile("" : : "r"(ctx), "r"(md), "r"(set), "r"(tag));
	return 0;
}

/* Sends a copy to an output. Use pcn_pkt_mirror() instead. */
PCN_STUB int pcn_core_mirror(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 output)
{
	asm volatile("" : : "r"(ctx), "r"(md), "r"(output));
	return 0;
}

/* Internal: the size of a format, including its terminator. */
#define PCN_LOG_FMT_MAX 88
struct pcn_log_args {
	__u32 level;
	__u32 count;
	__u64 arg[4];
	char fmt[PCN_LOG_FMT_MAX];
};

/* Writes a record to the cube's log. Use pcn_log() instead. */
PCN_STUB int pcn_core_log(struct CTXTYPE *ctx, const struct pcn_log_args *args PCN_NONNULL)
{
	asm volatile("" : : "r"(ctx), "r"(args));
	return 0;
}

#endif
