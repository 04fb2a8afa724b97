// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* XDP metadata before the frame. Metadata from one crossing of the loop, or of a veth, is still
 * there at the next one, so its space is reused: adding more each time would use up the headroom.
 * */
#ifndef PCN_META_H
#define PCN_META_H

#ifdef PCN_XDP
/* Resizes the metadata: 0, or negative. Packet pointers become invalid. */
PCN_INLINE long resize_meta(struct xdp_md *ctx, int size)
{
	/* Without support for metadata, it begins after the data. */
	int has = pcn_data(ctx) - (void *)(long)ctx->data_meta, none = has >> 31;

	asm volatile("" : "+r"(none)); /* no branch, because the verifier would follow both paths */
	return bpf_xdp_adjust_meta(ctx, (has & ~none) - size);
}
#endif

#endif
