// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests of programs that several cubes run: it has no map of its own, and a row
 * of a shared one. */
#include <pcn/cube.h>

enum twin_reason {
	TWIN_TOLD_TO = PCN_REASON_FIRST,
};
PCN_REASONS(twin_reason);

enum twin_slowpath_reason {
	TWIN_SLOWPATH_UP = PCN_REASON_FIRST,
};
PCN_SLOWPATH_REASONS(twin_slowpath_reason);

/* 0 does what the row says, anything else drops */
PCN_CONFIG(__u32, strict) = 0;

/* By pcn_instance: 0 send to the other of ports 0 and 1, 1 drop, 2 slow path, 3 a copy up and send,
 * 4 flood, 5 a line for the log and send, 6 a verdict that does not exist, 7 pass, 8 a port that does
 * not exist */
PCN_MAP_SHARED(twins, twin_rows, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1024);

PCN_INGRESS
{
	__u32 key = pcn_instance(md), *row = bpf_map_lookup_elem(&twin_rows, &key);

	if (strict || !row)
		return pcn_pkt_drop(ctx, md, TWIN_TOLD_TO);
	switch (*row) {
	case 0:
		return pcn_pkt_send(ctx, md, !md->in_port);
	case 1:
		return pcn_pkt_drop(ctx, md, TWIN_TOLD_TO);
	case 2:
		return pcn_pkt_controller(ctx, md, TWIN_SLOWPATH_UP);
	case 3:
		pcn_pkt_copy(ctx, md, TWIN_SLOWPATH_UP);
		return pcn_pkt_send(ctx, md, !md->in_port);
	case 4:
		return pcn_pkt_flood(ctx, md);
	case 5:
		pcn_log(ctx, LOG_INFO, "instance %d", key);
		return pcn_pkt_send(ctx, md, !md->in_port);
	case 7:
		return pcn_pkt_pass(ctx, md);
	case 8:
		return pcn_pkt_send(ctx, md, 300);
	}
	return 99;
}

PCN_LICENSE;
