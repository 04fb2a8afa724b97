// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Whether there is a flood, and which ACKs belong to it. */
#ifndef SYNFLOOD_FLOOD_H
#define SYNFLOOD_FLOOD_H

#include "synflood.h"

/* The bucket of SYNs to other hosts. */
PCN_MAP(forward_bucket, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

/* The rate of SYNs, and what followed from it. Only programs write it. */
struct synflood_pace {
	__u64 second;  /* the one that is counted, of pcn_time_coarse() */
	__u64 count;   /* SYNs in it */
	__u64 flooded; /* the last second with too many */
	__u64 until;   /* the end of protection, in ns */
};
PCN_MAP(pace, BPF_MAP_TYPE_ARRAY, __u32, struct synflood_pace, 1);

/* True while there is a flood: from more SYNs in one second than the threshold, until the hold time has
 * passed without a second with more than half as many. The packet is counted if it is a SYN; as soon
 * as a second has too many, no more of it are, so the CPUs do not compete for the word. */
PCN_INLINE int synflood_attacked(const struct synflood_settings *s, int syn)
{
	__u64 now = pcn_time_coarse(), second = now / 1000000000, was;
	__u32 zero = 0;
	struct synflood_pace *p = bpf_map_lookup_elem(&pace, &zero);

	if (!p)
		return 0;
	int active = now < p->until;
	if (!syn || p->flooded == second)
		return active;
	was = p->second;
	if (was != second && __sync_val_compare_and_swap(&p->second, was, second) == was)
		p->count = 0;
	if (__sync_fetch_and_add(&p->count, 1) < (active ? s->threshold / 2 : s->threshold))
		return active;
	p->flooded = second;
	p->until = now + s->hold;
	return 1;
}

/* Flows whose cookie was valid a moment ago. Native XDP gets packets in batches, ahead of the stack:
 * the connection does not exist yet when data follows the ACK, whose cookie only the first segment
 * has. A flow is 32 bits of a hash, then a time in 2^20 ns. */
#define SYNFLOOD_RECENT 1024
#define SYNFLOOD_RECENT_TIME 1000 /* about a second */
PCN_MAP(recent, BPF_MAP_TYPE_ARRAY, __u32, __u64, SYNFLOOD_RECENT);

/* Mixes a word into a hash. */
PCN_INLINE __u32 synflood_mix(__u32 hash, __u32 word)
{
	hash = (hash ^ word) * 0x85ebca6bU;
	return hash ^ hash >> 15;
}

/* The hash of a client's address and of the ports. */
PCN_INLINE __u32 synflood_hash(const struct synflood_packet *p)
{
	if (!p->ipv6)
		return synflood_mix(p->tuple.ipv4.saddr,
				    p->tuple.ipv4.sport | (__u32)p->tuple.ipv4.dport << 16);
	__u32 hash = p->tuple.ipv6.sport | (__u32)p->tuple.ipv6.dport << 16;
	for (int i = 0; i < 4; i++)
		hash = synflood_mix(hash, p->tuple.ipv6.saddr[i]);
	return hash;
}

/* What an ACK is. */
enum synflood_ack {
	SYNFLOOD_FORGED,    /* part of a flood */
	SYNFLOOD_COOKIE,    /* it has a valid cookie */
	SYNFLOOD_CONNECTED, /* it belongs to a connection */
};

/* Checks the cookie of an ACK that a listener gets. */
PCN_INLINE int synflood_has_cookie(struct CTXTYPE *ctx, const struct synflood_packet *p,
				   struct bpf_sock *sk)
{
	struct synflood_work *w = synflood_memory();

	if (!w || pcn_load_bytes(ctx, sizeof(struct ethhdr), w->ip,
				 p->ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)))
		return 0;
	if (p->ipv6 ? pcn_load_bytes(ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr), w->tcp,
				     SYNFLOOD_TCP)
		    : pcn_load_bytes(ctx, sizeof(struct ethhdr) + sizeof(struct iphdr), w->tcp,
				     SYNFLOOD_TCP))
		return 0;
	return !bpf_tcp_check_syncookie(sk, w->ip, sizeof(w->ip), (struct tcphdr *)w->tcp,
					SYNFLOOD_TCP);
}

/* What an ACK to a protected port is. */
PCN_INLINE enum synflood_ack synflood_check(struct CTXTYPE *ctx, struct synflood_packet *p)
{
	struct bpf_sock *sk = synflood_socket(ctx, p);
	__u32 hash, slot, now, valid = 0;
	__u64 *flow;

	if (sk) {
		if (sk->state != BPF_TCP_LISTEN) {
			bpf_sk_release(sk);
			return SYNFLOOD_CONNECTED;
		}
		valid = synflood_has_cookie(ctx, p, sk);
		bpf_sk_release(sk);
	}
	hash = synflood_hash(p);
	slot = hash % SYNFLOOD_RECENT;
	now = pcn_time_coarse() >> 20;
	flow = bpf_map_lookup_elem(&recent, &slot);
	if (!flow)
		return SYNFLOOD_FORGED;
	if (valid) {
		*flow = (__u64)hash << 32 | now;
		return SYNFLOOD_COOKIE;
	}
	return *flow >> 32 == hash && now - (__u32)*flow < SYNFLOOD_RECENT_TIME ? SYNFLOOD_CONNECTED
										: SYNFLOOD_FORGED;
}

#endif
