// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Protects the host's own servers from floods of SYNs: SYNs to protected ports are answered here, with
 * cookies of the kernel, before the stack sees them. Only a client that returns its cookie reaches
 * the stack, which makes the connection from it. */
#include "synflood.h"
#include "cookie.h"
#include "flood.h"

enum synflood_reason {
	/* an ACK to a protected port that belongs to no connection and has no valid cookie */
	SYNFLOOD_INVALID_COOKIE = PCN_REASON_FIRST,
	/* a SYN to another host above the rate `forward-syn-rate` */
	SYNFLOOD_FORWARD_RATE,
};
PCN_REASONS(synflood_reason);

/* The model's leaf `protection`. */
enum synflood_protection { OFF, AUTO, ON };
PCN_CONFIG(enum synflood_protection, protection) = OFF;

/* Values of the map `addresses`. */
#define IS_LOCAL 1
#define IS_PROTECTED 2

/* What the destination of a packet is to this host: 0 for another host. */
PCN_INLINE __u8 destination(const struct synflood_packet *p, const struct synflood_settings *s)
{
	__u8 *is;

	if (!s->mac || p->mac != s->mac)
		return 0;
	is = bpf_map_lookup_elem(&addresses, &p->to);
	return is ? *is : 0;
}

PCN_INLINE int is_protected_port(const struct synflood_packet *p)
{
	__u16 port = bpf_ntohs(p->ipv6 ? p->tuple.ipv6.dport : p->tuple.ipv4.dport);
	__u32 word = port / 64;
	__u64 *bits = bpf_map_lookup_elem(&ports, &word);

	return bits && *bits >> port % 64 & 1;
}

/* A SYN to another host. */
PCN_INLINE int forward(struct CTXTYPE *ctx, struct pcn_md *md, const struct synflood_settings *s)
{
	__u32 zero = 0;
	__u64 *bucket = bpf_map_lookup_elem(&forward_bucket, &zero);

	if (!bucket || !s->forward.burst || pcn_bucket_take(bucket, &s->forward, 1, pcn_time()))
		return pcn_pkt_pass(ctx, md);
	pcn_count(&counters, SYNFLOOD_FORWARD_DROPPED);
	return pcn_pkt_drop(ctx, md, SYNFLOOD_FORWARD_RATE);
}

/* A SYN to a protected port while protection is active. */
PCN_INLINE int on_syn(struct CTXTYPE *ctx, struct pcn_md *md, struct synflood_packet *p,
		      const struct synflood_settings *s)
{
	if (!s->available) {
		pcn_count(&counters, SYNFLOOD_UNAVAILABLE);
		return pcn_pkt_pass(ctx, md);
	}
	if (synflood_answer(ctx, p, s)) {
		pcn_count(&counters, SYNFLOOD_PASSED);
		return pcn_pkt_pass(ctx, md);
	}
	pcn_count(&counters, SYNFLOOD_COOKIES_SENT);
	return pcn_pkt_reply(ctx, md);
}

/* An ACK to a protected port while protection is active. */
PCN_INLINE int on_ack(struct CTXTYPE *ctx, struct pcn_md *md, struct synflood_packet *p,
		      const struct synflood_settings *s)
{
	int verdict;

	if (!s->available)
		return pcn_pkt_pass(ctx, md);
	verdict = synflood_check(ctx, p);
	if (verdict == SYNFLOOD_CONNECTED)
		return pcn_pkt_pass(ctx, md);
	if (verdict == SYNFLOOD_COOKIE) {
		pcn_count(&counters, SYNFLOOD_COOKIES_VALID);
		return pcn_pkt_pass(ctx, md);
	}
	pcn_count(&counters, SYNFLOOD_COOKIES_INVALID);
	return pcn_pkt_drop(ctx, md, SYNFLOOD_INVALID_COOKIE);
}

PCN_INGRESS
{
	__u32 zero = 0, active = protection; /* read once: it may change meanwhile */
	struct synflood_settings *s = bpf_map_lookup_elem(&settings, &zero);
	struct synflood_packet p = {};

	if (!s || synflood_read(ctx, &p))
		return pcn_pkt_pass(ctx, md);
	__u32 kind = p.flags & (TCP_SYN | TCP_ACK | TCP_RST);
	if (kind != TCP_SYN && (kind != TCP_ACK || active == OFF))
		return pcn_pkt_pass(ctx, md);
	__u8 to = destination(&p, s);
	if (!to && kind == TCP_SYN)
		return forward(ctx, md, s);
	if (!(to & IS_PROTECTED) || !is_protected_port(&p))
		return pcn_pkt_pass(ctx, md);
	if (kind == TCP_SYN)
		pcn_count(&counters, SYNFLOOD_SYNS);
	if (active == OFF)
		return pcn_pkt_pass(ctx, md);
	if (active == AUTO && !synflood_attacked(s, kind == TCP_SYN))
		return pcn_pkt_pass(ctx, md);
	return kind == TCP_SYN ? on_syn(ctx, md, &p, s) : on_ack(ctx, md, &p, s);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
