// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Internet checksums (RFC 1071), updated incrementally according to RFC 1624 (equation 3): changes
 * are summed to a difference, which is added to a checksum. Differences of several fields are added
 * with `+`, in 32 bits and without folding: any number of them, if each is folded; the functions
 * here return folded differences. All values are in network byte order. */
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

/* The sum of 16-bit words, from a sum of 32-bit words: 0xffff if they have a correct checksum among them.
 * Its inverse is the checksum of words where that is still 0. */
PCN_INLINE __u32 pcn_csum_words(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* The checksum after a 16-bit word changed from old to now; all in network byte order. */
PCN_INLINE __u16 pcn_csum_replace2(__u16 check, __be16 old, __be16 now)
{
	return pcn_csum_fold((__u32)(__u16)~check + (__u16)~old + now);
}

/* The difference caused by a change of a 16-bit word: a port, an ICMP id. */
PCN_INLINE __u16 pcn_csum_diff2(__be16 old, __be16 now)
{
	return ~pcn_csum_fold((__u32)(__u16)~old + now);
}

/* The difference caused by a change of a 32-bit word: an IPv4 address. */
PCN_INLINE __u16 pcn_csum_diff4(__be32 old, __be32 now)
{
	old = ~old;
	return ~pcn_csum_fold((old & 0xffff) + (old >> 16) + (now & 0xffff) + (now >> 16));
}

/* The difference caused by a change of 16 bytes: an IPv6 address. */
PCN_INLINE __u16 pcn_csum_diff16(const __be32 old[4], const __be32 now[4])
{
	__u32 sum = 0;

	for (int i = 0; i < 4; i++) {
		__u32 was = ~old[i];
		sum += (was & 0xffff) + (was >> 16) + (now[i] & 0xffff) + (now[i] >> 16);
	}
	return ~pcn_csum_fold(sum);
}

/* The checksum after the data that it covers changed by a difference. For IPv4 headers, ICMP, and
 * headers inside of other packets, whose checksums no device computes. */
PCN_INLINE __u16 pcn_csum_add(__u16 check, __u32 diff)
{
	return pcn_csum_fold((__u32)(__u16)~check + (diff & 0xffff) + (diff >> 16));
}

/* Updates the checksum of a packet that is in an ICMP error after the data that it covers changed by a difference. `udp`: a
 * checksum of 0 means that there is none. Returns the difference that this makes for the checksum of the error. */
PCN_INLINE __u32 pcn_csum_inner(__sum16 *check, __u32 diff, int udp)
{
	__u16 was = *check;

	if (udp && !was)
		return 0;
	*check = pcn_csum_add(was, diff);
	if (udp && !*check)
		*check = 0xffff;
	return pcn_csum_diff2(was, *check);
}

/* Updates the checksum of an IPv4 header after its fields changed by diff. */
PCN_INLINE void pcn_csum_ipv4(struct iphdr *ip, __u32 diff)
{
	ip->check = pcn_csum_add(ip->check, diff);
}

/* Properties of a packet whose L4 checksum is updated. */
#define PCN_CSUM_IPV6 0x01 /* its addresses are in no other checksum: the IPv6 header has none */
#define PCN_CSUM_UDP 0x02  /* a checksum of 0 means that there is none */

#ifdef PCN_TC

/* Internal: the checksum state of an skb. */
struct sk_buff {
	unsigned char *head;
	unsigned char *data;
	__u16 csum_start;
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

/* Returns the skb of the context, since Linux 6.2. On older kernels a helper reads its members. */
extern void *bpf_cast_to_kern_ctx(void *) __ksym __weak;
/* Internal: 1 if the kernel has that function. Set by the linker. */
const volatile __u32 pcn_kernel_skb = 1;

/* Internal: the values of ip_summed that matter here; with the others, checksums in the packet are
 * complete. */
#define PCN_CHECKSUM_COMPLETE 2
#define PCN_CHECKSUM_PARTIAL 3

/* Internal: extracts ip_summed from the bytes that contain it: a field of two bits, whose position
 * depends on the kernel. */
#define pcn_csum_summed_in(value)                                                   \
	((value) << __builtin_preserve_field_info(((struct sk_buff *)0)->ip_summed, \
						  BPF_CORE_FIELD_LSHIFT_U64) >>     \
	 __builtin_preserve_field_info(((struct sk_buff *)0)->ip_summed,            \
				       BPF_CORE_FIELD_RSHIFT_U64))

/* Internal: reads ip_summed. */
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

/* Internal: where the checksum that is still to be computed begins, from the first byte of the
 * packet. */
PCN_INLINE long pcn_csum_start(const struct sk_buff *skb)
{
	return skb->csum_start - (skb->data - skb->head);
}

/* Internal: reads both, with ip_summed in the upper half, where the kernel does not provide the
 * skb. */
PCN_NOINLINE __u64 pcn_csum_read(struct CTXTYPE *ctx)
{
	const struct sk_buff *skb =
		(const void *)ctx; /* an address that is only valid for the helper */
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

/* Internal: true if the checksum field of an L4 header contains only the sum of the pseudo header,
 * not inverted, and the rest is added when the packet is sent or segmented; start is where that sum
 * begins. If the start is at an inner header, the checksum of the outer header is complete, except
 * in superframes. */
PCN_INLINE int pcn_csum_is_partial(struct CTXTYPE *ctx, long start, const void *l4)
{
	long at = l4 - pcn_data(ctx);

	asm volatile("" : "+r"(at)); /* no arithmetic on packet pointers */
	return start == at || ctx->gso_size != 0;
}
#endif

/* Declares that bytes of the packet changed by diff without a compensating change of a checksum in
 * the packet: addresses in an IPv6 fragment without an L4 header, ports in UDP without a checksum.
 * No effect at XDP. */
PCN_INLINE void pcn_csum_bytes(struct CTXTYPE *ctx, __u32 diff)
{
#ifdef PCN_TC
	/* It only has an effect if a device has computed the sum of all bytes. */
	bpf_csum_update(ctx, diff);
#else
	(void)ctx;
	(void)diff;
#endif
}

/* Updates the checksum of TCP, UDP, ICMPv6 and others after addresses changed by `addresses` and
 * other data that the checksum covers (ports, payload) by `covered`; the caller writes the bytes
 * themselves, before or after. l4 points to the L4 header, check to the field in it. flags are
 * PCN_CSUM_....
 *
 * At TC a checksum may not be computed yet (CHECKSUM_PARTIAL, superframes), or the device may have
 * computed the sum of the packet (CHECKSUM_COMPLETE): offloads are preserved, and nothing is
 * recomputed. At XDP the packet contains everything. For ICMP over IPv4, `addresses` is 0. */
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
