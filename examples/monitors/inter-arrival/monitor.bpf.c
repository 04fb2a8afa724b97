// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The time between one packet and the next, in nanoseconds: bursts are short times, pauses long ones. Packets of all CPUs
 * are one sequence. */
#include <pcn/monitor.h>

PCN_MAP(newest, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);
PCN_MAP(gaps, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_histogram, 1);

PCN_MONITOR
{
	__u64 *last, now = pcn_time(), before;
	__u32 zero = 0;

	last = bpf_map_lookup_elem(&newest, &zero);
	if (!last)
		return pcn_pkt_pass(ctx, md); /* never */
	before = __sync_lock_test_and_set(last, now);
	/* Two CPUs may exchange the times in the other order than they took them: no time is between these. */
	if (before)
		pcn_histogram_add(bpf_map_lookup_elem(&gaps, &zero),
				  pcn_age(now, before) > 0 ? now - before : 0);
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
