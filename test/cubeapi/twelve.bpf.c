// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube of twelve programs, eight for ingress and four for egress, each of which leaves a letter
 * in the packet. The second eight replace programs at run time. */
#include "twelve.h"

/* 0: forward; 1: to the slow path; 2: tell the control plane, then forward. */
PCN_CONFIG(__u32, what) = 0;

struct seen {
	__u64 time;
	__u32 length;
	__u16 port;
	__u8 letters[10];
};

PCN_INGRESS
{
	mark(ctx, md, 'a');
	return pcn_call_program(ctx, md, 1);
}

STAGE(stage1, 'b', 2)
STAGE(stage2, 'c', 3)
STAGE(stage3, 'd', 4)
STAGE(stage4, 'e', 5)
STAGE(stage5, 'f', 6)
STAGE(stage6, 'g', 7)

PCN_PROGRAM(leave)
{
	mark(ctx, md, 'h');
	if (what == 1)
		return pcn_pkt_controller(ctx, md, 7);
	if (what == 2) {
		struct seen s = { .time = 1,
				  .length = md->packet_len,
				  .port = md->in_port,
				  .letters = "from below" };
		pcn_notify(ctx, md, 4711, &s, sizeof(s));
	}
	return pcn_pkt_send(ctx, md, 1 - (md->in_port & 1));
}

PCN_EGRESS
{
	mark(ctx, md, 'A');
	return pcn_call_program(ctx, md, 1);
}

STAGE(out1, 'B', 2)
STAGE(out2, 'C', 3)

PCN_PROGRAM(out3)
{
	mark(ctx, md, 'D');
	return pcn_pkt_pass(ctx, md);
}

/* The others: digits instead of letters. */
STAGE(other0, '0', 1)
STAGE(other1, '1', 2)
STAGE(other2, '2', 3)
STAGE(other3, '3', 4)
STAGE(other4, '4', 5)
STAGE(other5, '5', 6)
STAGE(other6, '6', 7)

PCN_PROGRAM(other7)
{
	mark(ctx, md, '7');
	return pcn_pkt_send(ctx, md, 1 - (md->in_port & 1));
}

/* A path of any length: the same program again and again, until the maximum number of letters. */
PCN_PROGRAM(again)
{
	mark(ctx, md, '*');
	if (md->md[0] < 5)
		return pcn_call_program(ctx, md, 0);
	return pcn_pkt_send(ctx, md, 1 - (md->in_port & 1));
}

PCN_LICENSE;
