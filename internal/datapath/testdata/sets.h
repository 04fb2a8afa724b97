// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Floods to the set of a VLAN: the VLAN of the frame's tag, or `vid` for frames of ports that do
 * not use tags, whose tags are payload. */
#include <pcn/cube.h>

enum sets_reason {
	SETS_WORDS = PCN_REASON_FIRST,
	SETS_TAG,
};
PCN_REASONS(sets_reason);

PCN_CONFIG(__u32, vid) = 100;
PCN_CONFIG(__u32, access) = 0; /* ports, by bit */
PCN_CONFIG(__u32, bare) = 0;   /* no frame is changed */
PCN_CONFIG(__u32, alone) = 0; /* no flood: to port 1, 1 with the tag, 2 without one, 3 with `vid` */

PCN_INGRESS
{
	__u32 tag = pcn_vlan_tag(ctx);
	int tagged = tag && !(access >> md->in_port & 1);

	if ((alone == 1 && pcn_vlan_push(ctx, PCN_TAG(ETH_P_8021AD, vid))) ||
	    (alone == 2 && pcn_vlan_pop(ctx)) ||
	    (alone == 3 && pcn_vlan_set(ctx, PCN_TAG(pcn_tag_proto(tag), vid))))
		return pcn_pkt_drop(ctx, md, SETS_TAG);
	if (alone)
		return pcn_pkt_send(ctx, md, 1);
	if (!tagged)
		tag = PCN_TAG(ETH_P_8021Q, 3 << 13 | vid);
	return pcn_pkt_flood_set(ctx, md, pcn_tag_vid(tag), bare ? 0 : tag, tagged);
}

PCN_LICENSE;
