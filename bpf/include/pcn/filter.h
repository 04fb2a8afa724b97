// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Filters in the syntax of tcpdump, as a part of a cube's programs: Go package pcapfilter compiles an
 * expression and puts its code into the object. docs/reference/pcapfilter.md describes both sides.
 *
 * Include it yourself. */
#ifndef PCN_FILTER_H
#define PCN_FILTER_H

#include <pcn/config.h>
#include <pcn/packet.h>

#ifdef PCN_TC
/* Internal: a byte of the frame as it is on the wire, including the tag that the kernel stores in the
 * skb; negative after the end. */
PCN_INLINE int pcn_filter_byte(struct __sk_buff *ctx, __u32 at)
{
	__u32 tag = bpf_ntohs((__u16)ctx->vlan_proto) << 16 | (ctx->vlan_tci & 0xffff);
	__u8 b = 0;

	if (at >= 12 && at < 16)
		return tag >> (8 * (15 - at)) & 0xff;
	return pcn_load_bytes(ctx, at < 12 ? at : at - 4, &b, 1) ? -1 : b;
}
#endif

/* Internal: a field of the frame as it is on the wire, of 1, 2 or 4 bytes; -1 where the frame ends. */
PCN_INLINE long pcn_filter_read(struct CTXTYPE *ctx, __u32 at, __u32 width)
{
	__u8 b = 0;
	__be16 h = 0;
	__be32 w = 0;

#ifdef PCN_TC
	if (ctx->vlan_present && at >= 16) {
		at -= 4;
	} else if (ctx->vlan_present && at + width > 12) {
		for (__u32 i = 0; i < 4; i++) {
			int byte = i < width ? pcn_filter_byte(ctx, at + i) : 0;

			if (byte < 0)
				return -1;
			w = i < width ? w << 8 | byte : w;
		}
		return w;
	}
#endif
	switch (width) {
	case 1:
		return pcn_load_bytes(ctx, at, &b, 1) ? -1 : b;
	case 2:
		return pcn_load_bytes(ctx, at, &h, 2) ? -1 : bpf_ntohs(h);
	case 4:
		return pcn_load_bytes(ctx, at, &w, 4) ? -1 : (long)bpf_ntohl(w);
	}
	return -1;
}

/* Internal: the length of the frame on the wire. */
PCN_INLINE int pcn_filter_wire_len(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	return ctx->len + (ctx->vlan_present ? 4 : 0);
#else
	return pcn_frame_len(ctx);
#endif
}

#ifndef PCN_FILTER_INTERNAL
/* Internal: the same as functions, which the code of filters calls. */
PCN_GLOBAL long pcn_filter_field(struct CTXTYPE *ctx, __u32 at, __u32 width)
{
	return pcn_filter_read(ctx, at, width);
}

/* Internal: see above. */
PCN_GLOBAL int pcn_filter_length(struct CTXTYPE *ctx)
{
	return pcn_filter_wire_len(ctx);
}

/* Internal: the filter over packets that cannot be read directly. Go replaces its code, which calls
 * the same functions. */
SEC(PCN_SECTION "/pcn_filter_any")
PCN_GLOBAL int pcn_filter_any(struct CTXTYPE *ctx)
{
	return pcn_filter_field(ctx, 0, 1) >= 0 && pcn_filter_length(ctx) > 0;
}

/* PCN_FILTER_PROGRAM(name, matched); declares a program, as PCN_PROGRAM does, whose code
 * Filter.Object in Go writes: it calls the function
 *	PCN_GLOBAL int matched(struct CTXTYPE *ctx, __u32 first, __u32 second)
 * for packets that pass the filter, with numbers of your choice, and lets every packet continue. Until
 * then all packets pass. */
#define PCN_FILTER_PROGRAM(name, matched)                                       \
	SEC(PCN_SECTION "/" #name)                                              \
	PCN_GLOBAL int name(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL) \
	{                                                                       \
		(void)md;                                                       \
		if (pcn_filter_any(ctx))                                        \
			matched(ctx, 0, 0);                                     \
		return PCN_PASS;                                                \
	}                                                                       \
	_Static_assert(1, "ends the declaration")
#endif

#endif
