// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests with programs in both directions, which write letters into the payload,
 * and report what they saw by log lines and copies. */
#include <pcn/cube.h>

enum twoway_reason {
	TWOWAY_IN = PCN_REASON_FIRST,
	TWOWAY_OUT,
};
PCN_REASONS(twoway_reason);

/* 0 send to the other of ports 0 and 1, 1 flood, 2 drop on egress, 3 slow path on egress,
 * 4 copies up from both, 5 log lines from both, 6 the words from ingress to egress */
PCN_CONFIG(__u32, what) = 0;

/* The letters are written to bytes 14 to 29 of the frame. */
PCN_INLINE void mark(struct CTXTYPE *ctx, __u8 letter)
{
	struct pcn_cursor c;
	pcn_cursor_open(&c, ctx, 30);
	struct ethhdr *eth = pcn_parse_eth(&c);
	__u8 *at = eth ? pcn_cursor_take(&c, 16) : NULL;

	if (!at)
		return;
#pragma unroll
	for (int i = 0; i < 15; i++) {
		if (!at[i]) {
			at[i] = letter;
			return;
		}
	}
}

PCN_INGRESS
{
	mark(ctx, 'i');
	if (what == 4)
		pcn_pkt_copy(ctx, md, TWOWAY_IN);
	if (what == 5)
		pcn_log(ctx, LOG_INFO, "in on %d, %u bytes", md->in_port, md->packet_len);
	if (what == 6)
		md->md[2] = 'w';
	if (what == 1)
		return pcn_pkt_flood(ctx, md);
	return pcn_pkt_send(ctx, md, !md->in_port);
}

PCN_EGRESS
{
	mark(ctx, what == 6 ? md->md[2] : 'o');
	if (what == 2)
		return pcn_pkt_drop(ctx, md, TWOWAY_OUT);
	if (what == 3)
		return pcn_pkt_controller(ctx, md, TWOWAY_OUT);
	if (what == 4)
		pcn_pkt_copy(ctx, md, TWOWAY_OUT);
	if (what == 5)
		pcn_log(ctx, LOG_WARN, "out on %d", md->out_port);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
