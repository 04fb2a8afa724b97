// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: what becomes of a packet at the end of tunnels. The result is the verdict, and from bit 8 on the reason. */
#include <pcn/config.h>
#include <pcn/gtpu_end.h>

enum gtppath_reason { PCN_GTPU_END_REASONS(GTPPATH), GTPPATH_OWN };
PCN_REASONS(gtppath_reason);

enum gtppath_slowpath_reason { PCN_GTPU_END_SLOWPATH_REASONS(GTPPATH), GTPPATH_OWN_UP };
PCN_SLOWPATH_REASONS(gtppath_slowpath_reason);

#define GTPPATH_OTHER 0xff /* the packet is for another one */
#define GTPPATH_USER 0xfe  /* it is a user's */

SEC(PCN_SECTION) int gtppath_read(struct CTXTYPE *ctx)
{
	struct pcn_md md = { .packet_len = pcn_frame_len(ctx) };
	struct pcn_flow flow = {};
	struct pcn_gtpu g;
	int result;

	if (pcn_flow_read(ctx, &flow) || !pcn_gtpu_end_is_for(&flow))
		return GTPPATH_OTHER;
	result = pcn_gtpu_end_read(ctx, &md, &flow, &g);
	return result == PCN_GTPU_END_PACKET ? GTPPATH_USER : result | md.reason << 8;
}

PCN_LICENSE;
