// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The cases of helpers for connections and token buckets. Included by helpers.h, which has the macros. */
#ifndef HELPERS_CONNTRACK_H
#define HELPERS_CONNTRACK_H

struct spent {
	struct pcn_bucket_limit limit;
	__u64 bucket;
};
PCN_MAP(spents, BPF_MAP_TYPE_ARRAY, __u32, struct spent, 1);

/* Takes no tokens from a bucket. The limit is not on the stack, of which there is not enough. */
PCN_INLINE void spend(void)
{
	__u32 zero = 0;
	struct spent *s = bpf_map_lookup_elem(&spents, &zero);
	__u64 now = 7;

	if (!s)
		return;
	EACH
	{
		HIDE(now);
		KEEP(pcn_bucket_take(&s->bucket, &s->limit, 0, now));
	}
}

/* A connection of TCP, one of the other protocols, and one without windows. */
PCN_MAP(connections, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_ct_state, 3);
static const __u32 no_timeouts[PCN_CT_TIMEOUTS];

/* Helpers for the state of a connection: a byte of data, and a packet of the opener.
 * A loop, since they are large; a function, for a stack of their own. */
PCN_NOINLINE void track(__u32 what)
{
	__u32 without = what == COST_pcn_ct_follow || what == COST_pcn_ct_follow_shared;
	__u32 which = without ? 2 : what != COST_pcn_ct_tcp;
	struct pcn_ct_state *s = bpf_map_lookup_elem(&connections, &which);
	struct pcn_ct_progress *progress = (void *)s;

	if (!s)
		return;
	_Pragma("nounroll") for (int i = 0; i < TIMES; i++)
	{
		__u32 flags = PCN_CT_ACK;

		HIDE(flags);
		struct pcn_ct_segment data = { .seq = s->side[0].end,
					       .ack = s->side[0].ack,
					       .length = 1,
					       .window = 1000,
					       .flags = flags,
					       .scale = PCN_CT_NO_SCALE };

		if (what == COST_pcn_ct_tcp)
			KEEP(pcn_ct_tcp(s, 0, &data, PCN_CT_PICK_UP | 3));
		else if (what == COST_pcn_ct_udp)
			KEEP(pcn_ct_udp(s, 0));
		else if (what == COST_pcn_ct_icmp)
			KEEP(pcn_ct_icmp(s, 0, 1));
		else if (what == COST_pcn_ct_other)
			KEEP(pcn_ct_other(s, 0));
		else if (what == COST_pcn_ct_follow)
			KEEP(pcn_ct_follow(progress, 0, IPPROTO_TCP, flags));
		else if (what == COST_pcn_ct_follow_shared)
			pcn_ct_follow_shared(progress, 0, IPPROTO_TCP, flags);
		else
			KEEP(pcn_ct_timeout(s, no_timeouts));
	}
}

#endif
