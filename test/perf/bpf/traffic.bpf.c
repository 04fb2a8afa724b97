// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The two ends of a benchmark: the generator, run with live frames (BPF_F_TEST_XDP_LIVE_FRAMES),
 * and the sink, which counts and drops. The sink exists for both hooks: which one costs less
 * depends on where the frames were created. */
#include "frame.h"
#include <pcn/map.h>

struct traffic_state {
	__u64 packets;
	__u64 wrong; /* at the sink: ours, but not as they were sent */
	__u32 next;  /* flow of the next frame */
	__u32 pad;
};

PCN_MAP(received, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct traffic_state, 1);

#ifdef PCN_TC
#define PASS -1 /* TC_ACT_UNSPEC */
#define DROP 2	/* TC_ACT_SHOT */
#else
#define PASS XDP_PASS
#define DROP XDP_DROP
#endif

SEC(PCN_SECTION) int sink(struct CTXTYPE *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&received, &zero);

	if (!st || data + sizeof(struct ethhdr) > end)
		return PASS;
	__u16 *w = data;
	if (w[3] != (__u16)STATION(LEFT))
		return PASS; /* the kernel's own frames */
	if (is_ours(w, LEFT))
		st->packets++;
	else
		st->wrong++;
	return DROP;
}

#ifdef PCN_XDP
/* Where to send, from which side, and the number of flows in rotation. */
const volatile __u32 gen_ifindex = 0;
const volatile __u32 gen_side = LEFT;
const volatile __u32 gen_flows = 1;

PCN_MAP(sent, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct traffic_state, 1);

/* The rest of the frame is as the caller gave it: pages are reused as the device under test left
 * them, and nothing that is measured changes more than the addresses. */
SEC("xdp") int generator(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__u32 zero = 0;
	struct traffic_state *st = bpf_map_lookup_elem(&sent, &zero);

	if (!st || data + sizeof(struct ethhdr) > end)
		return XDP_ABORTED;
	address(data, st->next, gen_side);
	st->next = st->next + 1 < gen_flows ? st->next + 1 : 0;
	st->packets++;
	return bpf_redirect(gen_ifindex, 0);
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
