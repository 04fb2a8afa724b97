// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

#include "nat.h"

enum nat_reason {
	NAT_NONE = PCN_REASON_FIRST,
};
PCN_REASONS(nat_reason);

PCN_INLINE int all(void)
{
	struct nat_key4 a = {};
	struct nat_key6 b = {};
	struct nat_source_key s = {};
	struct nat_forward_key f = {};
	struct nat_fragment_key g = {};
	__u32 z = mapping + filtering + other_protocols + overload + inbound_refresh + hairpin +
		  refresh_ns;
	if (has_sources || has_forwards)
		return !!bpf_map_lookup_elem(&sources, &s) + !!bpf_map_lookup_elem(&forwards, &f) +
		       !!bpf_map_lookup_elem(&egress4, &a) + !!bpf_map_lookup_elem(&ingress4, &a) +
		       !!bpf_map_lookup_elem(&egress6, &b) + !!bpf_map_lookup_elem(&ingress6, &b) +
		       !!bpf_map_lookup_elem(&fragments, &g) + !!bpf_map_lookup_elem(&counters, &z);
	return z;
}
PCN_INGRESS
{
	all();
	return pcn_pkt_pass(ctx, md);
}
PCN_EGRESS
{
	all();
	return pcn_pkt_pass(ctx, md);
}
