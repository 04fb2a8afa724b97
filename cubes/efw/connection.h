// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the kernel's table of connections has for a packet. The fast path only judges packets that have no entry there: all
 * others refresh it, or are translated by it. */
#ifndef EFW_CONNECTION_H
#define EFW_CONNECTION_H

#include <linux/tcp.h>

#include "packet.h"

/* The bit of the search that says: the packet opens a connection. Go package offload knows it. */
#define EFW_STATE_NEW 1

/* Options of the lookup, as Linux 6.1 has them; later kernels take this size, too. */
struct bpf_ct_opts {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u8 reserved[2];
};
#define EFW_OWN_NETNS (-1)
#define EFW_NO_ENTRY (-2) /* -ENOENT */

/* Nothing of an entry is read. A declaration alone is another type for the loader. */
struct nf_conn {
	__u32 status;
} __attribute__((preserve_access_index));

extern void bpf_ct_release(struct nf_conn *) __ksym __weak;
#ifdef PCN_TC
extern struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *, struct bpf_sock_tuple *, __u32,
					 struct bpf_ct_opts *, __u32)
__ksym __weak;
#define efw_ct_lookup bpf_skb_ct_lookup
#else
extern struct nf_conn *bpf_xdp_ct_lookup(struct xdp_md *, struct bpf_sock_tuple *, __u32,
					 struct bpf_ct_opts *, __u32)
__ksym __weak;
#define efw_ct_lookup bpf_xdp_ct_lookup
#endif
/* 1 if the kernel has these functions. Set by the linker. */
const volatile __u32 pcn_kernel_ct = 1;

/* Whether the kernel may have a connection for a packet: it looks up TCP and UDP only. */
PCN_GLOBAL int efw_may_have_connection(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL)
{
	struct bpf_ct_opts opts = { .netns_id = EFW_OWN_NETNS, .l4proto = flow->protocol };
	struct bpf_sock_tuple tuple = {};
	struct nf_conn *found;

	if (!pcn_kernel_ct || (flow->protocol != IPPROTO_TCP && flow->protocol != IPPROTO_UDP))
		return 1;
	if (flow->has & PCN_FLOW_IPV6) {
		__builtin_memcpy(tuple.ipv6.saddr, flow->source, sizeof(tuple.ipv6.saddr));
		__builtin_memcpy(tuple.ipv6.daddr, flow->destination, sizeof(tuple.ipv6.daddr));
		tuple.ipv6.sport = flow->source_port;
		tuple.ipv6.dport = flow->destination_port;
		found = efw_ct_lookup(ctx, &tuple, sizeof(tuple.ipv6), &opts, sizeof(opts));
	} else {
		tuple.ipv4.saddr = flow->source[3];
		tuple.ipv4.daddr = flow->destination[3];
		tuple.ipv4.sport = flow->source_port;
		tuple.ipv4.dport = flow->destination_port;
		found = efw_ct_lookup(ctx, &tuple, sizeof(tuple.ipv4), &opts, sizeof(opts));
	}
	if (!found)
		return opts.error != EFW_NO_ENTRY;
	bpf_ct_release(found);
	return 1;
}

/* Whether a packet without a connection opens one, for certain: a SYN without data whose checksum is correct. The kernel takes
 * others for invalid, or may. */
PCN_GLOBAL int efw_is_new(struct CTXTYPE *ctx, const struct efw_packet *p PCN_NONNULL)
{
	const struct pcn_flow *flow = &p->flow;
	__u32 length = p->length - (flow->l4 - flow->l3), header;
	__u32 words[15] = {};

	if (flow->protocol != IPPROTO_TCP || (flow->tcp_flags & 0x3f) != 2 ||
	    length < sizeof(struct tcphdr) || length > sizeof(words) || length & 3)
		return 0;
	if (pcn_load_bytes(ctx, flow->l4, words, sizeof(struct tcphdr)))
		return 0;
	header = ((__u8 *)words)[12] >> 4;
	if (header * 4 != length)
		return 0;
	__u64 sum = bpf_htons(IPPROTO_TCP) + bpf_htons(length);
	for (__u32 i = 0; i < 4; i++)
		sum += (__u64)flow->source[i] + flow->destination[i];
	if (!(flow->has & PCN_FLOW_IPV6)) /* the upper part of a mapped address */
		sum = bpf_htons(IPPROTO_TCP) + bpf_htons(length) + (__u64)flow->source[3] +
		      flow->destination[3];
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 15; i++) {
		__u32 word;

		if (i >= header)
			break;
		if (pcn_load_bytes(ctx, flow->l4 + i * 4, &word, sizeof(word)))
			return 0;
		sum += word;
	}
	return pcn_csum_words(sum) == 0xffff;
}

#endif
