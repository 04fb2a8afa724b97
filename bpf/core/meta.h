// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Metadata before the frame, at XDP. What a packet got on one crossing of the loop, or of a veth, is still there on the
 * next one, so its room is used again: more each time would leave none before the frame. */
#ifndef PCN_META_H
#define PCN_META_H

#ifdef PCN_XDP
/* Makes the metadata so long: 0, or negative. Pointers into the packet are invalid then. */
PCN_INLINE long resize_meta(struct xdp_md *ctx, int size)
{
	/* Where there can be no metadata it is said to begin behind the data. */
	int has = pcn_data(ctx) - (void *)(long)ctx->data_meta, none = has >> 31;

	asm volatile("" : "+r"(none)); /* no branch, of which the verifier would go both ways */
	return bpf_xdp_adjust_meta(ctx, (has & ~none) - size);
}
#endif

#endif
