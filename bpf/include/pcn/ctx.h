// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The hook that a source is compiled for. Every program is compiled twice, with -DPCN_TC and with
 * -DPCN_XDP; the other headers hide the difference. */
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

/* Internal: the object's section for programs. */
#if defined(PCN_TC)
#define PCN_SECTION "tc"
#else
#define PCN_SECTION "xdp"
#endif

/* Attributes of a function: inlined into its callers, or a real call (at most 5 arguments), for
 * large functions with several callers. */
#define PCN_INLINE static __always_inline
#define PCN_NOINLINE static __attribute__((noinline))

/* Attribute of a function: a call whose body the kernel verifies once, separately, rather than for
 * each path that leads to it. It takes integers, the context and pointers to structs, which need
 * PCN_NONNULL, and returns an integer, about which the verifier then knows nothing. For long code
 * that rarely runs. Weak, so that the compiler does not specialize it for the arguments of the
 * calls that it sees. */
#define PCN_GLOBAL __attribute__((noinline, weak))

/* Internal: tells the verifier of a global function that an argument is never NULL (Linux 6.8). */
#define PCN_NONNULL __attribute__((btf_decl_tag("arg:nonnull")))

/* Returns the value, but the verifier knows nothing about it from here on. `unknown` is a number
 * that the verifier knows nothing about either, such as 64 bits from a map. It merges paths that
 * differ only in a number. The state of bpf_loop must begin with it, for everything that an
 * iteration leaves for the next: the verifier of Linux 6.1 checks only one iteration, takes the
 * values that it finds there for those of all iterations, and removes the rest. */
PCN_INLINE __u64 pcn_opaque(__u64 value, __u64 unknown)
{
	asm volatile("%0 ^= %1; %0 ^= %1" : "+r"(value) : "r"(unknown));
	return value;
}

/* Start of the packet bytes that can be read directly. A cursor is safer. */
PCN_INLINE void *pcn_data(struct CTXTYPE *ctx)
{
	return (void *)(long)ctx->data;
}

/* End of the packet bytes: compare with it before each access. */
PCN_INLINE void *pcn_data_end(struct CTXTYPE *ctx)
{
	return (void *)(long)ctx->data_end;
}

#endif
