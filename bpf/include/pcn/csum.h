// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Internet checksums (RFC 1071), updated in place as RFC 1624 says (equation 3): what changed is
 * added up as a difference, and that is added to a checksum. Differences of several fields are
 * summed with `+`, in 32 bits without a fold: as many as one likes, if each is folded; the
 * functions here return folded ones. Bytes are in network order everywhere. */
#ifndef PCN_CSUM_H
#define PCN_CSUM_H

#include <linux/ip.h>
#include <pcn/ctx.h>

/* Folds a 32-bit sum into the 16-bit checksum field. */
PCN_INLINE __u16 pcn_csum_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* The checksum after a 16-bit word changed from old to now; all in network byte order. */
PCN_INLINE __u16 pcn_csum_replace2(__u16 check, __be16 old, __be16 now)
{
	return pcn_csum_fold((__u32)(__u16)~check + (__u16)~old + now);
}

/* The difference that a 16-bit word makes: a port, an ICMP id. */
PCN_INLINE __u16 pcn_csum_diff2(__be16 old, __be16 now)
{
	return ~pcn_csum_fold((__u32)(__u16)~old + now);
}

/* The difference that a 32-bit word makes: an IPv4 address. */
PCN_INLINE __u16 pcn_csum_diff4(__be32 old, __be32 now)
{
	old = ~old;
	return ~pcn_csum_fold((old & 0xffff) + (old >> 16) + (now & 0xffff) + (now >> 16));
}

/* The difference that 16 bytes make: an IPv6 address. */
PCN_INLINE __u16 pcn_csum_diff16(const __be32 old[4], const __be32 now[4])
{
	__u32 sum = 0;

	for (int i = 0; i < 4; i++) {
		__u32 was = ~old[i];
		sum += (was & 0xffff) + (was >> 16) + (now[i] & 0xffff) + (now[i] >> 16);
	}
	return ~pcn_csum_fold(sum);
}

/* A checksum after what it covers changed by a difference. For headers of IPv4, ICMP, and for
 * headers that are inside of others: nobody else computes those. */
PCN_INLINE __u16 pcn_csum_add(__u16 check, __u32 diff)
{
	return pcn_csum_fold((__u32)(__u16)~check + (diff & 0xffff) + (diff >> 16));
}

/* Updates the checksum of an IPv4 header after its fields changed by diff. */
PCN_INLINE void pcn_csum_ipv4(struct iphdr *ip, __u32 diff)
{
	ip->check = pcn_csum_add(ip->check, diff);
}

/* What is special about a packet whose L4 checksum is updated. */
#define PCN_CSUM_IPV6 0x01 /* its addresses are in no other checksum: there is none in the header */
#define PCN_CSUM_UDP 0x02  /* a checksum of 0 says that there is none */

#ifdef PCN_TC

/* Internal: what the kernel knows of the checksums of an skb. */
struct sk_buff {
	unsigned char *head;
	unsigned char *data;
	__u16 csum_start;
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

/* The skb behind the context, since Linux 6.2. Before, its members are read by a helper. */
extern void *bpf_cast_to_kern_ctx(void *) __ksym __weak;
/* Internal: 1 if the kernel has that function. The linker sets it. */
const volatile __u32 pcn_kernel_skb = 1;

/* Internal: values of ip_summed that matter here; the others mean that bytes are complete. */
#define PCN_CHECKSUM_COMPLETE 2
#define PCN_CHECKSUM_PARTIAL 3

/* Internal: the skb, or NULL where the kernel does not hand it out. */
PCN_INLINE const struct sk_buff *pcn_csum_skb(struct CTXTYPE *ctx)
{
	return pcn_kernel_skb ? bpf_cast_to_kern_ctx(ctx) : NULL;
}

/* Internal: `size` bytes of an skb that the kernel does not hand out, 8 at most, as a number. */
PCN_INLINE __u64 pcn_csum_read(struct CTXTYPE *ctx, __u32 at, const __u32 size)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, size, (void *)ctx + at);
	return value;
}

/* Internal: a member of the skb. */
#define pcn_csum_member(ctx, skb, member)                                                          \
	((skb) ? (__u64)(skb)->member                                                              \
	       : pcn_csum_read(                                                                    \
			 ctx,                                                                      \
			 __builtin_preserve_field_info((skb)->member, BPF_CORE_FIELD_BYTE_OFFSET), \
			 sizeof((skb)->member)))

/* Internal: ip_summed. A field of two bits of a byte which is not the same in all kernels. */
PCN_INLINE __u32 pcn_csum_summed(struct CTXTYPE *ctx, const struct sk_buff *skb)
{
	__u32 at = __builtin_preserve_field_info(skb->ip_summed, BPF_CORE_FIELD_BYTE_OFFSET);
	__u32 left = __builtin_preserve_field_info(skb->ip_summed, BPF_CORE_FIELD_LSHIFT_U64);
	__u32 right = __builtin_preserve_field_info(skb->ip_summed, BPF_CORE_FIELD_RSHIFT_U64);
	__u64 value;

	switch (__builtin_preserve_field_info(skb->ip_summed, BPF_CORE_FIELD_BYTE_SIZE)) {
	case 1:
		value = skb ? *(const __u8 *)((const void *)skb + at) : pcn_csum_read(ctx, at, 1);
		break;
	case 2:
		value = skb ? *(const __u16 *)((const void *)skb + at) : pcn_csum_read(ctx, at, 2);
		break;
	case 4:
		value = skb ? *(const __u32 *)((const void *)skb + at) : pcn_csum_read(ctx, at, 4);
		break;
	default:
		value = skb ? *(const __u64 *)((const void *)skb + at) : pcn_csum_read(ctx, at, 8);
	}
	return value << left >> right;
}

/* Internal: true if the checksum field of an L4 header has the sum of the pseudo header only, not
 * inverted, and the rest is added when the packet is sent or cut. That of an outer header is
 * complete when the mark is on an inner one, but for superframes. */
PCN_INLINE int pcn_csum_is_partial(struct CTXTYPE *ctx, const struct sk_buff *skb, const void *l4)
{
	long at = l4 - pcn_data(ctx);

	asm volatile("" : "+r"(at)); /* no sums of packet pointers and others */
	__u64 headroom = pcn_csum_member(ctx, skb, data) - pcn_csum_member(ctx, skb, head);
	if (pcn_csum_member(ctx, skb, csum_start) == at + headroom)
		return 1;
	return ctx->gso_size != 0;
}
#endif

/* Says that bytes of the packet changed by diff, and that no checksum in the packet was changed to
 * make up for it: addresses in an IPv6 fragment without an L4 header, ports in UDP without a
 * checksum. At XDP there is nothing to do. */
PCN_INLINE void pcn_csum_bytes(struct CTXTYPE *ctx, __u32 diff)
{
#ifdef PCN_TC
	/* Does something only where a device has summed up all bytes. */
	bpf_csum_update(ctx, diff);
#else
	(void)ctx;
	(void)diff;
#endif
}

/* Updates the checksum of TCP, UDP, ICMPv6 and others after addresses changed by `addresses`, and
 * what the checksum covers besides (ports, payload) by `covered`; the bytes themselves are written
 * by the caller, before or after. l4 points to the L4 header, check into it. flags are PCN_CSUM_....
 *
 * At TC a checksum may not be there yet (CHECKSUM_PARTIAL, superframes), or the device may have
 * summed up the packet (CHECKSUM_COMPLETE): offloads stay as they are, nothing is summed again. At
 * XDP the bytes are all there is. For ICMP over IPv4, `addresses` is 0. */
PCN_INLINE void pcn_csum_l4(struct CTXTYPE *ctx, const void *l4, __sum16 *check, __u32 addresses,
			    __u32 covered, const __u32 flags)
{
	__u16 was = *check;

	if ((flags & PCN_CSUM_UDP) && !was) {
		pcn_csum_bytes(ctx, flags & PCN_CSUM_IPV6 ? addresses + covered : covered);
		return;
	}
#ifdef PCN_TC
	const struct sk_buff *skb = pcn_csum_skb(ctx);
	__u32 summed = pcn_csum_summed(ctx, skb);

	if (summed == PCN_CHECKSUM_PARTIAL && pcn_csum_is_partial(ctx, skb, l4)) {
		*check = ~pcn_csum_fold(was + addresses);
		return;
	}
	if (summed == PCN_CHECKSUM_COMPLETE && !(flags & PCN_CSUM_IPV6))
		bpf_csum_update(ctx, ~addresses);
#else
	(void)ctx;
	(void)l4;
#endif
	was = pcn_csum_add(was, addresses + covered);
	*check = (flags & PCN_CSUM_UDP) && !was ? 0xffff : was;
}

#endif
