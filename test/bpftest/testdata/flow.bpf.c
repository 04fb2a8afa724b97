// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests: stores the flow of each packet in a map. On its second port, it first pushes a
 * tag. */
#include <pcn/cube.h>
#include <pcn/flow.h>

enum flow_reason {
	FLOW_DONE = PCN_REASON_FIRST, /* every packet */
};
PCN_REASONS(flow_reason);

struct flow_found {
	struct pcn_flow flow;
	struct pcn_flow inlined;
	struct pcn_flow common;
	struct pcn_flow inner; /* the packet in an ICMP error */
	__u32 packets;
	__u32 result;
	__u32 hash;
	__u32 hash_before;
	__u32 hash_after;
	__u32 pad;
};
PCN_MAP(found, BPF_MAP_TYPE_ARRAY, __u32, struct flow_found, 1);

#define FLOW_TAG PCN_TAG(ETH_P_8021AD, 0xe04d)

PCN_INLINE int is_error(const struct pcn_flow *flow)
{
	return flow->has & PCN_FLOW_ICMP &&
	       (flow->has & PCN_FLOW_IPV6 ? pcn_icmp6_is_error(flow->icmp_type)
					  : pcn_icmp_is_error(flow->icmp_type));
}

PCN_INGRESS
{
	struct pcn_flow flow = {};
	__u32 zero = 0;
	struct flow_found *f = bpf_map_lookup_elem(&found, &zero);

	if (!f)
		return pcn_pkt_drop(ctx, md, FLOW_DONE);
	if (md->in_port == 1 && pcn_vlan_push(ctx, FLOW_TAG))
		return pcn_pkt_drop(ctx, md, FLOW_DONE);
	f->result = pcn_flow_read(ctx, &flow);
	f->flow = flow;
	__builtin_memset(&f->inlined, 0, sizeof(f->inlined));
	pcn_flow_read_inline(ctx, &f->inlined);
	__builtin_memset(&f->common, 0xff, sizeof(f->common)); /* it need not be 0 */
	pcn_flow_read_common(ctx, &f->common);
	__builtin_memset(&f->inner, 0, sizeof(f->inner));
	if (is_error(&flow)) {
		__u32 at = flow.l4 + sizeof(struct pcn_icmp);
		__be16 proto = flow.ethertype;

		__builtin_memset(&flow, 0, sizeof(flow));
		pcn_flow_read_inner(ctx, &flow, at, proto);
		f->inner = flow;
	}
	f->hash = pcn_flow_hash(&f->flow);
	f->hash_before = md->flow_hash;
	f->hash_after = pcn_get_flow_hash(md, &f->flow);
	__sync_fetch_and_add(&f->packets, 1);
	return pcn_pkt_drop(ctx, md, FLOW_DONE);
}

PCN_LICENSE;
