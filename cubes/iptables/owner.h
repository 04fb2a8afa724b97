// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Conditions about the local socket of a packet: -m owner. */
#ifndef IPTABLES_OWNER_H
#define IPTABLES_OWNER_H

#include <pcn/cube.h>

#include "rule.h"

#ifdef PCN_TC
/* The first bytes of a socket of the kernel, struct sock: as many as a condition needs. */
#define IPTABLES_SOCK 2048
struct iptables_sock {
	__u8 byte[IPTABLES_SOCK];
};
PCN_MAP(sock, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct iptables_sock, 1);

/* Whether the group of the program that opened the socket is in a range. No helper tells it: it is read from the kernel's
 * structures, whose layout the condition has. A socket of the kernel itself, and one that its program has closed, has none. */
PCN_GLOBAL int iptables_is_of_group(struct CTXTYPE *ctx, const struct iptables_test *t PCN_NONNULL)
{
	struct bpf_sock *sk = ctx->sk;
	__u32 zero = 0, at = t->word[2], group;
	struct iptables_sock *copy = bpf_map_lookup_elem(&sock, &zero);
	__u64 next;

	if (!copy || !sk || at > IPTABLES_SOCK - sizeof(next))
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk || bpf_probe_read_kernel(copy->byte, at + sizeof(next), sk))
		return 0;
	/* struct socket, struct file, struct cred */
	__builtin_memcpy(&next, copy->byte + at, sizeof(next));
	if (!next || bpf_probe_read_kernel(&next, sizeof(next), (void *)(next + t->word[3])) ||
	    !next || bpf_probe_read_kernel(&next, sizeof(next), (void *)(next + t->word[4])) ||
	    !next || bpf_probe_read_kernel(&group, sizeof(group), (void *)(next + t->word[5])))
		return 0;
	return iptables_is_in(group, t);
}

PCN_INLINE int iptables_is_of_user(struct CTXTYPE *ctx, const struct iptables_test *t)
{
	return ctx->sk && iptables_is_in(bpf_get_socket_uid(ctx), t);
}

PCN_INLINE int iptables_has_socket(struct CTXTYPE *ctx)
{
	return !!ctx->sk;
}

#else
/* What is received has no socket yet, and what is sent does not pass XDP. */
PCN_INLINE int iptables_is_of_group(struct CTXTYPE *ctx, const struct iptables_test *t)
{
	(void)ctx;
	(void)t;
	return 0;
}

PCN_INLINE int iptables_is_of_user(struct CTXTYPE *ctx, const struct iptables_test *t)
{
	(void)ctx;
	(void)t;
	return 0;
}

PCN_INLINE int iptables_has_socket(struct CTXTYPE *ctx)
{
	(void)ctx;
	return 0;
}
#endif

#endif
