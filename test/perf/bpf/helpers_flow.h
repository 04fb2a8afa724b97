// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The cases of helpers that read bytes and flows. Included by helpers.h, which has the macros. */
#ifndef HELPERS_FLOW_H
#define HELPERS_FLOW_H

/* Where helpers write what they read: the stack is too small. */
struct read_flow {
	struct pcn_flow flow;
	__u64 bytes[5];
};
PCN_MAP(read_flows, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct read_flow, 1);

/* Helpers that read the packet into a flow, those for its hash, and kinds of addresses. */
PCN_INLINE void flows(struct CTXTYPE *ctx, struct pcn_md *md, __u32 what)
{
	__u32 zero = 0;
	struct read_flow *to = bpf_map_lookup_elem(&read_flows, &zero);

	if (!to)
		return;
		/* Not unrolled: the reader would not fit. */
#pragma clang loop unroll(disable)
	for (int i = 0; i < TIMES; i++) {
		HIDE(ctx);
		if (what == COST_pcn_flow_read)
			KEEP(pcn_flow_read(ctx, &to->flow));
		else if (what == COST_pcn_flow_read_inline)
			KEEP(pcn_flow_read_inline(ctx, &to->flow));
		else if (what == COST_pcn_flow_read_common)
			KEEP(pcn_flow_read_common(ctx, &to->flow));
		else if (what == COST_pcn_flow_read_inner)
			KEEP(pcn_flow_read_inner(ctx, &to->flow, 14, bpf_htons(ETH_P_IP)));
		else if (what == COST_pcn_is_neighbour_discovery)
			KEEP(pcn_is_neighbour_discovery(ctx, &to->flow));
		else if (what == COST_pcn_flow_hash)
			KEEP(pcn_flow_hash(&to->flow));
		else if (what == COST_pcn_ecn)
			KEEP(pcn_ecn(ctx, &to->flow));
		else if (what == COST_pcn_set_flow_hash)
			pcn_set_flow_hash(md, to->bytes[0]);
		else if (what == COST_pcn_get_flow_hash)
			KEEP(pcn_get_flow_hash(md, &to->flow));
		else if (what == COST_pcn_load_bytes)
			KEEP(pcn_load_bytes(ctx, 14, to->bytes, sizeof(to->bytes)));
		else if (what == COST_pcn_load_first)
			KEEP(pcn_load_first(ctx, to->bytes, i + 1, sizeof(to->bytes)));
		else if (what == COST_pcn_ipv4_is_martian)
			KEEP(pcn_ipv4_is_martian(to->bytes[0]));
		else if (what == COST_pcn_ipv6_is_martian)
			KEEP(pcn_ipv6_is_martian((void *)to->bytes));
		else if (what == COST_pcn_ipv6_is_multicast)
			KEEP(pcn_ipv6_is_multicast((void *)to->bytes));
		else if (what == COST_pcn_ipv6_is_link_local)
			KEEP(pcn_ipv6_is_link_local((void *)to->bytes));
		else if (what == COST_pcn_frame_len)
			KEEP(pcn_frame_len(ctx));
	}
}

PCN_MAP(notices, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_notice, 1);

/* Sends a message of 32 bytes that is in a map. */
PCN_INLINE void report(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	struct pcn_notice *notice = bpf_map_lookup_elem(&notices, &zero);

	if (!notice)
		return;
	notice->kind = 1;
	notice->size = 32;
	pcn_notify_notice(ctx, notice);
}

/* True for the cases of flows(). */
PCN_INLINE int is_flow_case(const __u32 what)
{
	return what == COST_pcn_load_bytes || what == COST_pcn_load_first ||
	       what == COST_pcn_frame_len ||
	       (what >= COST_pcn_flow_read && what <= COST_pcn_get_flow_hash) ||
	       (what >= COST_pcn_ipv4_is_martian && what <= COST_pcn_ipv6_is_link_local);
}

#endif
