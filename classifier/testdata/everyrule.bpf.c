// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests: writes the orders of all rules that match a packet to a map, up to a number of them. */
#include <pcn/cube.h>
#include <pcn/classify.h>

enum everyrule_reason {
	EVERYRULE_TRUNCATED = PCN_REASON_FIRST,
	EVERYRULE_FOUND,
};
PCN_REASONS(everyrule_reason);

#define FOUND_MAX 32
PCN_MAP(found, BPF_MAP_TYPE_ARRAY, __u32, __u32, FOUND_MAX);

PCN_INGRESS
{
	__u32 set = pcn_classify_set(md, 0);
	struct pcn_classify_key *key = pcn_classify_key();
	struct pcn_classify_match match;

	if (!key ||
	    pcn_classify_read(ctx, key, pcn_classify_fields(set), md->in_port, md->traffic_class))
		return pcn_pkt_drop(ctx, md, EVERYRULE_TRUNCATED);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < FOUND_MAX; i++) {
		__u32 at = i, *order = bpf_map_lookup_elem(&found, &at);

		if (!order)
			break;
		*order = -1;
		if (!pcn_classify(key, &match, set))
			break;
		*order = match.order;
		pcn_classify_after(key, &match);
	}
	return pcn_pkt_drop(ctx, md, EVERYRULE_FOUND);
}

PCN_LICENSE;
