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

/* Internal: ip_summed, of the bytes that hold it. A field of two bits of a byte which is not the same in all
 * kernels. */
#define pcn_csum_summed_in(value)                                                   \
	((value) << __builtin_preserve_field_info(((struct sk_buff *)0)->ip_summed, \
						  BPF_CORE_FIELD_LSHIFT_U64) >>     \
	 __builtin_preserve_field_info(((struct sk_buff *)0)->ip_summed,            \
				       BPF_CORE_FIELD_RSHIFT_U64))

/* Internal: ip_summed. */
PCN_INLINE __u32 pcn_csum_summed(const struct sk_buff *skb)
{
	__u32 at = __builtin_preserve_field_info(skb->ip_summed, BPF_CORE_FIELD_BYTE_OFFSET);
	__u64 value;

	switch (__builtin_preserve_field_info(skb->ip_summed, BPF_CORE_FIELD_BYTE_SIZE)) {
	case 1:
		value = *(const __u8 *)((const void *)skb + at);
		break;
	case 2:
		value = *(const __u16 *)((const void *)skb + at);
		break;
	case 4:
		value = *(const __u32 *)((const void *)skb + at);
		break;
	default:
		value = *(const __u64 *)((const void *)skb + at);
	}
	return pcn_csum_summed_in(value);
}

/* Internal: where the sum begins that is still to be made, from the first byte of the packet. */
PCN_INLINE long pcn_csum_start(const struct sk_buff *skb)
{
	return skb->csum_start - (skb->data - skb->head);
}

/* Internal: both, ip_summed in the upper half, where the kernel does not hand out the skb. */
PCN_NOINLINE __u64 pcn_csum_read(struct CTXTYPE *ctx)
{
	const struct sk_buff *skb = (const void *)ctx; /* as such, valid for the helper only */
	__u64 value = 0, head = 0, data = 0;
	__u16 start = 0;

	bpf_probe_read_kernel(
		&value, __builtin_preserve_field_info(skb->ip_summed, BPF_CORE_FIELD_BYTE_SIZE),
		(const void *)skb +
			__builtin_preserve_field_info(skb->ip_summed, BPF_CORE_FIELD_BYTE_OFFSET));
	value = pcn_csum_summed_in(value);
	if (value != PCN_CHECKSUM_PARTIAL)
		return value << 32;
	bpf_probe_read_kernel(&head, sizeof(head), &skb->head);
	bpf_probe_read_kernel(&data, sizeof(data), &skb->data);
	bpf_probe_read_kernel(&start, sizeof(start), &skb->csum_start);
	return value << 32 | (__u32)(start - (data - head));
}

/* Internal: true if the checksum field of an L4 header has the sum of the pseudo header only, not
 * inverted, and the rest is added when the packet is sent or cut; start is where that sum begins. That of
 * an outer header is complete when the mark is on an inner one, but for superframes. */
PCN_INLINE int pcn_csum_is_partial(struct CTXTYPE *ctx, long start, const void *l4)
{
	long at = l4 - pcn_data(ctx);

	asm volatile("" : "+r"(at)); /* no sums of packet pointers and others */
	return start == at || ctx->gso_size != 0;
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
	const __u32 has_skb = pcn_kernel_skb;
	const struct sk_buff *skb = has_skb ? bpf_cast_to_kern_ctx(ctx) : NULL;
	__u64 read = has_skb ? 0 : pcn_csum_read(ctx);
	__u32 summed = has_skb ? pcn_csum_summed(skb) : read >> 32;

	if (summed == PCN_CHECKSUM_PARTIAL &&
	    pcn_csum_is_partial(ctx, has_skb ? pcn_csum_start(skb) : (__s32)read, l4)) {
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
