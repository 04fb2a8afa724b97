// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the kernel's conntrack table has for a packet. The fast path decides packets that have no entry there, and those of
 * established connections whose entry it can refresh as the kernel would: all others change their entry or are translated. */
#ifndef EFW_CONNECTION_H
#define EFW_CONNECTION_H

#include <linux/tcp.h>
#include <linux/udp.h>
#include <pcn/csum.h>

#include "packet.h"

/* The classifier's state bits: the packet opens a connection, or belongs to an established one. Go package offload knows them. */
#define EFW_STATE_NEW 1
#define EFW_STATE_ESTABLISHED 2

/* Options of the lookup, as in Linux 6.1; later kernels accept this size, too. */
struct bpf_ct_opts {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u8 reserved[2];
};
#define EFW_OWN_NETNS (-1)
#define EFW_NO_ENTRY (-2) /* -ENOENT */

/* The members of an entry that are read, relocated to their offsets in the running kernel. */
struct nf_ct_ext {
	__u8 offset[1]; /* of each extension; 0: there is none */
} __attribute__((preserve_access_index));

struct nf_conn {
	unsigned long status;
	struct nf_ct_ext *ext;
} __attribute__((preserve_access_index));

/* Extensions, whose numbers also depend on the kernel. */
enum nf_ct_ext_id {
	NF_CT_EXT_HELPER,
	NF_CT_EXT_ACCT,
	NF_CT_EXT_TIMEOUT,
};

extern void bpf_ct_release(struct nf_conn *) __ksym __weak;
extern int bpf_ct_change_timeout(struct nf_conn *, __u32 ms) __ksym __weak;
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

/* Whether an entry has an extension that the kernel knows. */
#define efw_extended(ext, id)                                          \
	(__builtin_preserve_enum_value(*(enum nf_ct_ext_id *)id, 0) && \
	 ((const __u8 *)&(ext)                                         \
		  ->offset)[__builtin_preserve_enum_value(*(enum nf_ct_ext_id *)id, 1)])

/* Bits of enum ip_conntrack_status. */
#define EFW_IPS_STREAM 0x00e   /* seen reply, assured and confirmed, and no other bits ... */
#define EFW_IPS_NAT_DONE 0x180 /* ... except that NAT was set up, without a translation */

/* Whether an entry belongs to an established connection for which the kernel does nothing but refresh the entry: it is not
 * translated, accounted or handled by a helper, and has no timeout policy. */
PCN_INLINE int efw_is_plain(const struct nf_conn *ct)
{
	const struct nf_ct_ext *ext = ct->ext;

	if ((ct->status & ~EFW_IPS_NAT_DONE) != EFW_IPS_STREAM)
		return 0;
	return !ext || !(efw_extended(ext, NF_CT_EXT_HELPER) || efw_extended(ext, NF_CT_EXT_ACCT) ||
			 efw_extended(ext, NF_CT_EXT_TIMEOUT));
}

/* How many bytes of a packet are summed at a time; the buffer has twice as many for the verifier, which only tracks the bits of a length. */
#define EFW_SUMMED 512
struct efw_bytes {
	__u8 bytes[2 * EFW_SUMMED];
};
PCN_MAP(bytes, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct efw_bytes, 1);

/* Whether the kernel considers the checksum of a packet correct; a device may have verified it or may compute it. Packets longer than
 * Ethernet's are not summed. */
PCN_GLOBAL int efw_is_summed(struct CTXTYPE *ctx, const struct efw_packet *p PCN_NONNULL)
{
	const struct pcn_flow *flow = &p->flow;
	__u32 length = p->length - (flow->l4 - flow->l3), at = flow->l4, zero = 0;
	struct efw_bytes *b = bpf_map_lookup_elem(&bytes, &zero);
	__u64 sum = bpf_htons(flow->protocol) + bpf_htons(length) + (__u64)flow->source[3] +
		    flow->destination[3];

#ifdef PCN_TC
	if (pcn_kernel_skb && (pcn_csum_summed(bpf_cast_to_kern_ctx(ctx)) & 1))
		return 1; /* CHECKSUM_UNNECESSARY or CHECKSUM_PARTIAL */
#endif
	if (!b)
		return 0;
	if (flow->has & PCN_FLOW_IPV6) /* else the upper part of a mapped address */
		for (__u32 i = 0; i < 3; i++)
			sum += (__u64)flow->source[i] + flow->destination[i];
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 3; i++) {
		__s64 n = length < EFW_SUMMED ? length : EFW_SUMMED;

		*(__u32 *)&b->bytes[(n - 1) & (EFW_SUMMED - 4)] = 0;
		if (pcn_load_some(ctx, at, b->bytes, n, EFW_SUMMED))
			return 0;
		asm volatile("" : "+r"(n));
		sum += (__u32)bpf_csum_diff(NULL, 0, (__be32 *)b->bytes,
					    (n + 3) & (2 * EFW_SUMMED - 4), 0);
		at += n;
		length -= n;
		if (!length)
			return pcn_csum_words(sum) == 0xffff;
	}
	return 0;
}

/* Whether the kernel considers a UDP packet valid. */
PCN_INLINE int efw_is_udp(struct CTXTYPE *ctx, const struct efw_packet *p)
{
	struct udphdr udp;

	if (pcn_load_bytes(ctx, p->flow.l4, &udp, sizeof(udp)) ||
	    bpf_ntohs(udp.len) != p->length - (p->flow.l4 - p->flow.l3))
		return 0;
	return !udp.check || efw_is_summed(ctx, p);
}

/* What the conntrack table has for a packet. */
enum efw_connection {
	EFW_NONE,
	EFW_ESTABLISHED, /* an entry that was refreshed as the kernel would have */
	EFW_OTHER,	 /* anything else, or unknown */
};

/* Looks up the connection of a packet: the kernel supports TCP and UDP only. */
PCN_GLOBAL int efw_connection(struct CTXTYPE *ctx, const struct efw_packet *p PCN_NONNULL,
			      __u32 udp_timeout)
{
	const struct pcn_flow *flow = &p->flow;
	struct bpf_ct_opts opts = { .netns_id = EFW_OWN_NETNS, .l4proto = flow->protocol };
	struct bpf_sock_tuple tuple = {};
	struct nf_conn *found;
	int result = EFW_OTHER;

	if (!pcn_kernel_ct || (flow->protocol != IPPROTO_TCP && flow->protocol != IPPROTO_UDP))
		return EFW_OTHER;
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
		return opts.error == EFW_NO_ENTRY ? EFW_NONE : EFW_OTHER;
	if (udp_timeout && flow->protocol == IPPROTO_UDP && efw_is_plain(found) &&
	    efw_is_udp(ctx, p) && !bpf_ct_change_timeout(found, udp_timeout))
		result = EFW_ESTABLISHED;
	bpf_ct_release(found);
	return result;
}

/* Whether a packet without a connection certainly opens one: a SYN without data whose checksum is correct. Others are invalid to
 * the kernel, or may be. */
PCN_GLOBAL int efw_is_new(struct CTXTYPE *ctx, const struct efw_packet *p PCN_NONNULL)
{
	const struct pcn_flow *flow = &p->flow;
	__u32 length = p->length - (flow->l4 - flow->l3);
	__u8 offset;

	if (flow->protocol != IPPROTO_TCP || (flow->tcp_flags & 0x3f) != 2 ||
	    pcn_load_bytes(ctx, flow->l4 + 12, &offset, sizeof(offset)))
		return 0;
	return (offset >> 4) * 4U == length && length >= sizeof(struct tcphdr) &&
	       efw_is_summed(ctx, p);
}

#endif
