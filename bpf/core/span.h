// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Copies of a cube's traffic for its namespace. The driver of a cube with span calls this where a
 * packet enters the cube and where it leaves; the driver of any other cube does not contain it. */
#ifndef PCN_SPAN_H
#define PCN_SPAN_H

#ifdef PCN_TC
/* Copies a packet that the port has received or, in the other direction, sends. Packets from the
 * namespace are skipped: it has seen them. */
PCN_GLOBAL int pcn_core_span(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	__u32 key = CUBE(who) * PCN_MAX_PORTS + (EGRESS(who) ? md->out_port : md->in_port);
	__u32 *ifindex = bpf_map_lookup_elem(&pcn_shadows, &key);

	if (!ifindex || *ifindex == ctx->ifindex)
		return 0;
	__u16 was = ctx->tc_index;
	ctx->tc_index = PCN_SPAN;
	long err = bpf_clone_redirect(ctx, *ifindex, 0);
	ctx->tc_index = was;
	if (err)
		pcn_count_fate(CUBE(who), PCN_REASON_COPY_FAILED);
	return 0;
}
#endif

#endif
