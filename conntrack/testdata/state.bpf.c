// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: applies a packet to a state, both of which are the data of a test run, and puts the new
 * state and the class in their place. */
#include <pcn/config.h>
#include <pcn/conntrack_state.h>
#include <pcn/map.h>

enum state_protocol {
	STATE_TCP,
	STATE_UDP,
	STATE_ICMP,
	STATE_OTHER,
	STATE_FOLLOW, /* without windows */
};

struct state_step {
	struct pcn_ct_state state;
	struct pcn_ct_segment segment;
	__u32 protocol;
	__u32 from;
	__u32 options; /* of TCP; for ICMP, 1 if it is a request; without windows, the IP protocol */
	__u32 class;
	__u32 timeout;
	__u32 timeouts[PCN_CT_TIMEOUTS];
};

PCN_MAP(steps, BPF_MAP_TYPE_ARRAY, __u32, struct state_step, 1);

SEC(PCN_SECTION) int state(struct CTXTYPE *ctx)
{
	struct state_step *in = pcn_data(ctx) + 16; /* after an Ethernet header */
	struct pcn_ct_progress progress;
	__u32 zero = 0;
	struct state_step *step = bpf_map_lookup_elem(&steps, &zero);

	if (!step || (void *)(in + 1) > pcn_data_end(ctx))
		return -1;
	__builtin_memcpy(step, in, sizeof(*step));
	switch (step->protocol) {
	case STATE_TCP:
		step->class = pcn_ct_tcp(&step->state, step->from, &step->segment, step->options);
		break;
	case STATE_UDP:
		step->class = pcn_ct_udp(&step->state, step->from);
		break;
	case STATE_ICMP:
		step->class = pcn_ct_icmp(&step->state, step->from, step->options);
		break;
	case STATE_FOLLOW:
		progress = pcn_ct_progress_of(&step->state);
		step->class =
			pcn_ct_follow(&progress, step->from, step->options, step->segment.flags);
		pcn_ct_store_progress(&step->state, progress);
		break;
	default:
		step->class = pcn_ct_other(&step->state, step->from);
	}
	step->timeout = pcn_ct_timeout(&step->state, step->timeouts);
	__builtin_memcpy(in, step, sizeof(*in));
	return 0;
}

PCN_LICENSE;
