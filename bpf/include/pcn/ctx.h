// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Which hook a source is compiled for. Every program is compiled twice, with -DPCN_TC and
 * with -DPCN_XDP; the rest of these headers hide the difference. */
#ifndef PCN_CTX_H
#define PCN_CTX_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#if defined(PCN_TC)
#define CTXTYPE __sk_buff
#define PCN_SECTION "tc"
#elif defined(PCN_XDP)
#define CTXTYPE xdp_md
#define PCN_SECTION "xdp"
#else
#error "compile with -DPCN_TC or -DPCN_XDP"
#endif

#define PCN_INLINE static __always_inline
#define PCN_NOINLINE static __attribute__((noinline))
/* Tells the verifier of a global function that an argument is never NULL (Linux 6.8). */
#define PCN_NONNULL __attribute__((btf_decl_tag("arg:nonnull")))

/* Start and end of the packet bytes that can be read directly. */
PCN_INLINE void *pcn_data(struct CTXTYPE *ctx)
{
	return (void *)(long)ctx->data;
}

PCN_INLINE void *pcn_data_end(struct CTXTYPE *ctx)
{
	return (void *)(long)ctx->data_end;
}

#endif
