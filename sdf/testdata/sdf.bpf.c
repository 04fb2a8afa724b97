// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: searches a list for the flow of a frame. The verdict is its value. */
#include <pcn/config.h>
#include <pcn/map.h>
#include <pcn/sdf.h>

struct sdf_case {
	__u32 row;
	__u32 qfi;
	__u32 sender;
	__u32 other;
};

PCN_MAP(cases, BPF_MAP_TYPE_ARRAY, __u32, struct sdf_case, 1);
PCN_MAP_FLAGS(lists, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_sdf_list, 4, BPF_F_MMAPABLE);

SEC(PCN_SECTION) int sdf_search(struct CTXTYPE *ctx)
{
	__u32 zero = 0;
	const struct sdf_case *c = bpf_map_lookup_elem(&cases, &zero);
	struct pcn_sdf_packet p = {};
	struct pcn_flow flow = {};
	const struct pcn_sdf_list *list;

	if (!c || pcn_flow_read(ctx, &flow))
		return 0;
	list = bpf_map_lookup_elem(&lists, &c->row);
	if (!list)
		return 0;
	if (c->sender)
		pcn_sdf_of_flow(&p, &flow, c->qfi, 1);
	else
		pcn_sdf_of_flow(&p, &flow, c->qfi, 0);
	return pcn_sdf_search(&p, list, c->other);
}

PCN_LICENSE;
