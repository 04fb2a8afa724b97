// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Which hook a source is compiled for. Every program is compiled twice, with -DPCN_TC and
 * with -DPCN_XDP; the rest of these headers hide the difference. */
#ifndef PCN_CTX_H
#define PCN_CTX_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

/* The context of a program, `struct CTXTYPE *ctx`: an skb at TC, a frame at XDP. */
#if defined(PCN_TC)
#define CTXTYPE __sk_buff
#elif defined(PCN_XDP)
#define CTXTYPE xdp_md
#else
#error "compile with -DPCN_TC or -DPCN_XDP"
#endif

/* Internal: the section of the object that programs are in. */
#if defined(PCN_TC)
#define PCN_SECTION "tc"
#else
#define PCN_SECTION "xdp"
#endif

/* Before a function: it becomes part of its callers, or stays a call (5 arguments at most), which
 * is for large ones that several places use. */
#define PCN_INLINE static __always_inline
#define PCN_NOINLINE static __attribute__((noinline))

/* Before a function of a program: a call whose body the kernel verifies once, by itself, and not for
 * each path that leads there. It takes integers, the context and pointers to structs, which need
 * PCN_NONNULL, and returns an integer of which nothing is known. For what is long and seldom. Weak, so that the compiler does not make it
 * fit the arguments of the calls that it sees. */
#define PCN_GLOBAL __attribute__((noinline, weak))

/* Internal: tells the verifier of a global function that an argument is never NULL (Linux 6.8). */
#define PCN_NONNULL __attribute__((btf_decl_tag("arg:nonnull")))

/* The value, of which the verifier knows nothing from here on. `unknown` is a number that it knows nothing
 * of either, such as 64 bits from a map. It makes one path of many that differ in a number, and it is what
 * the state of bpf_loop must begin with, all that a round leaves for the next: the verifier of Linux 6.1
 * looks at one round alone, takes what it finds there for what all rounds find, and removes the rest. */
PCN_INLINE __u64 pcn_opaque(__u64 value, __u64 unknown)
{
	asm volatile("%0 ^= %1; %0 ^= %1" : "+r"(value) : "r"(unknown));
	return value;
}

/* Start of the packet bytes that can be read directly. A cursor is the safer way. */
PCN_INLINE void *pcn_data(struct CTXTYPE *ctx)
{
	return (void *)(long)ctx->data;
}

/* Their end: what is compared with before each access. */
PCN_INLINE void *pcn_data_end(struct CTXTYPE *ctx)
{
	return (void *)(long)ctx->data_end;
}

#endif
