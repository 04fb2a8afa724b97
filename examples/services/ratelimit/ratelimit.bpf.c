// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A token bucket per sender. Two CPUs that process packets of one sender at once may each let one
 * through for the same token; a lock would cost more than that is worth. */
#include <pcn/cube.h>

enum ratelimit_reason {
	/* the sender exceeds its rate */
	RATELIMIT_OVER_RATE = PCN_REASON_FIRST,
};
PCN_REASONS(ratelimit_reason);

/* The model's leaves: packets per second, and packets. */
PCN_CONFIG(__u32, rate) = 1000;
PCN_CONFIG(__u32, burst) = 100;

#define SECOND 1000000000ull
/* The minimum interval between messages about one sender, in nanoseconds. */
#define QUIET (10 * SECOND)
/* The kind of the message that a sender exceeds its rate; it contains its address. */
#define OVER 1

/* credit is in units of packets times SECOND. */
struct sender {
	__u64 last;
	__u64 credit;
	__u64 packets;
	__u64 dropped;
	__u64 told;
};

PCN_MAP(senders, BPF_MAP_TYPE_LRU_HASH, __u64, struct sender, 4096);

/* The time since then. Another CPU may have written it after now was read. */
PCN_INLINE __u64 since(__u64 now, __u64 then)
{
	return (__s64)(now - then) > 0 ? now - then : 0;
}

/* Takes a token from the sender's bucket; 0 if it is empty. */
PCN_INLINE int take(struct sender *s, __u64 now)
{
	__u64 most = burst * SECOND, passed = since(now, s->last);

	/* More than this fills any bucket, and would overflow the product. */
	if (passed > QUIET)
		s->credit = most;
	else
		s->credit += passed * rate;
	if (s->credit > most)
		s->credit = most;
	s->last = now;
	s->packets++;
	if (s->credit < SECOND)
		return 0;
	s->credit -= SECOND;
	return 1;
}

PCN_INGRESS
{
	struct pcn_cursor c;
	struct sender *s;
	__u64 sender, now = pcn_time();

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return pcn_pkt_drop(ctx, md, PCN_REASON_MALFORMED);
	sender = pcn_mac(eth->h_source);
	s = bpf_map_lookup_elem(&senders, &sender);
	if (!s) {
		struct sender first = { .last = now, .credit = (burst - 1) * SECOND, .packets = 1 };

		bpf_map_update_elem(&senders, &sender, &first, BPF_ANY);
		return pcn_pkt_pass(ctx, md);
	}
	if (take(s, now))
		return pcn_pkt_pass(ctx, md);
	s->dropped++;
	if (since(now, s->told) > QUIET || !s->told) {
		s->told = now;
		pcn_notify(ctx, md, OVER, &sender, sizeof(sender));
	}
	return pcn_pkt_drop(ctx, md, RATELIMIT_OVER_RATE);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
