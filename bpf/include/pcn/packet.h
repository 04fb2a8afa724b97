// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reads a packet through a cursor that returns typed pointers, or NULL at the end of the packet. */
#ifndef PCN_PACKET_H
#define PCN_PACKET_H

#include <linux/if_ether.h>
#include <pcn/ctx.h>

struct pcn_cursor {
	void *pos;
	void *end;
};

/* Makes at least len bytes readable, then points the cursor to the first byte. A shorter packet is
 * left unchanged. Invalidates packet pointers that were read before. At TC, the headers of an skb
 * may be in fragments, but never its Ethernet header, for which nothing needs to be done. */
PCN_INLINE void pcn_cursor_open(struct pcn_cursor *c, struct CTXTYPE *ctx, const __u32 len)
{
#ifdef PCN_TC
	if (len > sizeof(struct ethhdr) && pcn_data(ctx) + len > pcn_data_end(ctx))
		bpf_skb_pull_data(ctx, len);
#else
	(void)len;
#endif
	c->pos = pcn_data(ctx);
	c->end = pcn_data_end(ctx);
}

/* Returns the next size bytes and moves past them, or returns NULL. size is a constant. */
PCN_INLINE void *pcn_cursor_take(struct pcn_cursor *c, const __u32 size)
{
	void *p = c->pos;

	if (p + size > c->end)
		return NULL;
	c->pos = p + size;
	return p;
}

/* Takes the Ethernet header: NULL if the frame is too short. */
PCN_INLINE struct ethhdr *pcn_parse_eth(struct pcn_cursor *c)
{
	return pcn_cursor_take(c, sizeof(struct ethhdr));
}

/* Copies bytes from anywhere in the frame, also where they cannot be read directly: at TC from the
 * fragments of an skb, at XDP from all buffers of a long frame. 0, or negative if the frame is
 * shorter. size must be provably from 1 to the size of the destination. */
PCN_INLINE long pcn_load_bytes(struct CTXTYPE *ctx, __u32 at, void *to, __u32 size)
{
#ifdef PCN_TC
	return bpf_skb_load_bytes(ctx, at, to, size);
#else
	return bpf_xdp_load_bytes(ctx, at, to, size);
#endif
}

/* Copies n bytes from anywhere in the frame to a buffer of max bytes, a constant. 0, or negative if n is
 * 0 or more than max, or the frame is shorter. The verifier need not know n. */
PCN_INLINE long pcn_load_some(struct CTXTYPE *ctx, __u32 at, void *to, __s64 n, const __s64 max)
{
	/* Two separate comparisons, of the 64 bits that are passed: the compiler would combine them
	 * to n - 1 < max, and the verifier of Linux 6.12 does not derive the bound of n from that
	 * of n - 1. Signed, because the verifier of 6.1 learns nothing from n != 0. */
	asm volatile("" : "+r"(n));
	if (n < 1)
		return -1;
	asm volatile("" : "+r"(n));
	if (n > max)
		return -1;
	return pcn_load_bytes(ctx, at, to, n);
}

/* The same with the first n bytes of the frame. */
PCN_INLINE long pcn_load_first(struct CTXTYPE *ctx, void *to, __s64 n, const __s64 max)
{
	return pcn_load_some(ctx, 0, to, n, max);
}

/* At TC, makes the first len bytes readable, or all of a shorter packet: only bytes in fragments of the skb are moved.
 * Invalidates packet pointers that were read before. No effect at XDP. */
PCN_INLINE void pcn_reach(struct CTXTYPE *ctx, __u32 len)
{
#ifdef PCN_TC
	__u32 linear = pcn_data_end(ctx) - pcn_data(ctx);

	if (linear < len && linear < ctx->len)
		bpf_skb_pull_data(ctx, ctx->len < len ? ctx->len : len);
	asm volatile("" : : : "memory"); /* pointers are read again */
#else
	(void)ctx;
	(void)len;
#endif
}

/* The header of `length` bytes at byte `at` of the frame, one of the first 1,024; NULL if it cannot be read directly. */
PCN_INLINE void *pcn_header(struct CTXTYPE *ctx, __u32 at, __u32 length)
{
	void *header = pcn_data(ctx) + (at & 0x3ff);

	return header + length > pcn_data_end(ctx) ? NULL : header;
}

/* The length of the frame, also of the bytes that cannot be read directly. At TC, without a tag
 * that is in the skb. */
PCN_INLINE __u32 pcn_frame_len(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	return ctx->len;
#else
	return bpf_xdp_get_buff_len(ctx);
#endif
}

/* A MAC address as the low 48 bits of an integer, first byte least significant, as in the packet.
 * */
PCN_INLINE __u64 pcn_mac(const __u8 mac[ETH_ALEN])
{
	return (__u64)mac[0] | (__u64)mac[1] << 8 | (__u64)mac[2] << 16 | (__u64)mac[3] << 24 |
	       (__u64)mac[4] << 32 | (__u64)mac[5] << 40;
}

/* The addresses of a frame, as returned by pcn_mac(). */
struct pcn_macs {
	__u64 to, from;
};

/* Reads both addresses of a frame, in two loads that do not overlap. */
PCN_INLINE struct pcn_macs pcn_macs(const struct ethhdr *eth)
{
	typedef __u64 __attribute__((may_alias)) word;
	typedef __u32 __attribute__((may_alias)) half;
	__u64 first = *(const word *)eth, last = *(const half *)((const void *)eth + 8);

	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "see pcn_mac()");
	return (struct pcn_macs){ .to = first & 0xffffffffffff, .from = first >> 48 | last << 16 };
}

/* Sets both addresses of a frame, as returned by pcn_mac(), in two stores. */
PCN_INLINE void pcn_set_macs(struct ethhdr *eth, __u64 to, __u64 from)
{
	typedef __u64 __attribute__((may_alias)) word;
	typedef __u32 __attribute__((may_alias)) half;

	*(word *)eth = to | from << 48;
	*(half *)((void *)eth + 8) = from >> 16;
}

/* True for broadcast and multicast addresses. */
PCN_INLINE int pcn_mac_is_group(const __u8 mac[ETH_ALEN])
{
	return mac[0] & 1;
}

#endif
