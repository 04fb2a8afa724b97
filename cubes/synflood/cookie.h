// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Answers a SYN with a SYN-ACK whose sequence number is a cookie of the kernel, in the place of the
 * SYN. The kernel knows nothing of the connection until the client returns the cookie.
 *
 * A cookie has room for the MSS alone. As in the kernel, what else was negotiated is in the lowest
 * six bits of the timestamp that the client returns: bits 0 to 3 are the client's window scale, all
 * ones for none, bit 4 is SACK, bit 5 ECN. Without timestamps, a connection has none of it. */
#ifndef SYNFLOOD_COOKIE_H
#define SYNFLOOD_COOKIE_H

#include "synflood.h"

#define SYNFLOOD_NO_SCALE 0xf
#define SYNFLOOD_TS_SACK 0x10
#define SYNFLOOD_TS_BITS 0x3f

/* Options of TCP. */
enum { TCP_OPT_END, TCP_OPT_NOP, TCP_OPT_MSS, TCP_OPT_SCALE, TCP_OPT_SACK, TCP_OPT_TS = 8 };

struct synflood_walk {
	struct synflood_work *w;
	__u32 end;
};

/* Reads the option at w->at. */
static long synflood_option(__u32 i, struct synflood_walk *walk)
{
	struct synflood_work *w = walk->w;
	__u32 at = w->at, length;

	(void)i;
	if (at >= SYNFLOOD_TCP_MAX || at >= walk->end)
		return 1;
	__u8 *option = w->tcp + at;
	if (option[0] == TCP_OPT_END)
		return 1;
	if (option[0] == TCP_OPT_NOP) {
		w->at = at + 1;
		return 0;
	}
	length = option[1];
	if (length < 2 || at + length > walk->end)
		return 1;
	w->at = at + length;
	if (option[0] == TCP_OPT_SCALE && length == 3)
		w->scale = option[2] < 14 ? option[2] : 14;
	else if (option[0] == TCP_OPT_SACK && length == 2)
		w->sack = 1;
	else if (option[0] == TCP_OPT_TS && length == 10) {
		w->has_timestamp = 1;
		__builtin_memcpy(&w->timestamp, option + 2, sizeof(w->timestamp));
	}
	return 0;
}

/* Reads the options of the SYN, of which the answer keeps those that the kernel lets it have. */
PCN_INLINE void synflood_options(struct synflood_work *w, __u32 header, __u8 allowed)
{
	struct synflood_walk walk = { .w = w, .end = header };

	w->at = SYNFLOOD_TCP;
	w->has_timestamp = 0;
	w->sack = 0;
	w->scale = SYNFLOOD_NO_SCALE;
	bpf_loop(SYNFLOOD_TCP_MAX - SYNFLOOD_TCP, synflood_option, &walk, 0);
	if (!(allowed & SYNFLOOD_TIMESTAMPS))
		w->has_timestamp = 0;
	if (!w->has_timestamp || !(allowed & SYNFLOOD_SACK))
		w->sack = 0;
	if (!w->has_timestamp || !(allowed & SYNFLOOD_SCALING))
		w->scale = SYNFLOOD_NO_SCALE;
}

/* The timestamp of the answer: the kernel's clock in milliseconds, with the options in its lowest
 * bits and never ahead of it. */
PCN_INLINE __u32 synflood_timestamp(const struct synflood_work *w)
{
	__u32 now = pcn_time() / 1000000, ts;

	ts = (now & ~SYNFLOOD_TS_BITS) | w->scale | (w->sack ? SYNFLOOD_TS_SACK : 0);
	return (__s32)(ts - now) > 0 ? ts - SYNFLOOD_TS_BITS - 1 : ts;
}

/* Writes the TCP header of the answer, without its checksum, and returns its length. */
PCN_INLINE __u32 synflood_write_tcp(struct synflood_work *w, const struct synflood_settings *s,
				    __u32 cookie, __u16 mss)
{
	const struct tcphdr *syn = (const void *)w->tcp;
	__be32 *words = (__be32 *)w->frame.tcp;
	__u32 length = 6;

	words[0] = (__be32)syn->dest | (__be32)syn->source << 16;
	words[1] = bpf_htonl(cookie);
	words[2] = bpf_htonl(bpf_ntohl(syn->seq) + 1);
	words[4] = 0;
	words[5] = bpf_htonl(TCP_OPT_MSS << 24 | 4 << 16 | mss);
	if (w->has_timestamp) {
		words[6] = w->sack ? bpf_htonl(TCP_OPT_SACK << 24 | 2 << 16 | TCP_OPT_TS << 8 | 10)
				   : bpf_htonl(TCP_OPT_NOP << 24 | TCP_OPT_NOP << 16 |
					       TCP_OPT_TS << 8 | 10);
		words[7] = bpf_htonl(synflood_timestamp(w));
		words[8] = w->timestamp;
		length = 9;
		if (w->scale != SYNFLOOD_NO_SCALE) {
			words[9] = bpf_htonl(TCP_OPT_NOP << 24 | TCP_OPT_SCALE << 16 | 3 << 8 |
					     s->window_scale);
			length = 10;
		}
	}
	words[3] = bpf_htonl(length << 28 | (TCP_SYN | TCP_ACK) << 16 | s->window);
	return length * 4;
}

/* Writes the Ethernet and IP headers of the answer to an IPv4 packet, and the pseudo header of its
 * checksum, whose length it returns. */
PCN_INLINE __u32 synflood_write_ipv4(struct synflood_work *w, __u8 ttl, __u32 tcp)
{
	const struct iphdr *syn = (const void *)w->ip;
	struct iphdr *ip = (void *)w->frame.ip + SYNFLOOD_IPV4_AT;
	struct ethhdr *eth = (void *)&w->frame + SYNFLOOD_IPV4_AT;

	eth->h_proto = bpf_htons(ETH_P_IP);
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tot_len = bpf_htons(sizeof(*ip) + tcp);
	ip->frag_off = bpf_htons(0x4000); /* do not fragment */
	ip->ttl = ttl;
	ip->protocol = IPPROTO_TCP;
	ip->saddr = syn->daddr;
	ip->daddr = syn->saddr;
	w->pseudo[0] = ip->saddr;
	w->pseudo[1] = ip->daddr;
	w->pseudo[2] = bpf_htonl(IPPROTO_TCP << 16 | tcp);
	ip->check = pcn_csum_fold(bpf_csum_diff(NULL, 0, (__be32 *)ip, sizeof(*ip), 0));
	return bpf_csum_diff(NULL, 0, w->pseudo, 12, 0);
}

/* The same for IPv6. */
PCN_INLINE __u32 synflood_write_ipv6(struct synflood_work *w, __u8 hop_limit, __u32 tcp)
{
	const struct ipv6hdr *syn = (const void *)w->ip;
	struct ipv6hdr *ip = (void *)w->frame.ip;

	w->frame.eth.h_proto = bpf_htons(ETH_P_IPV6);
	__builtin_memset(ip, 0, 8);
	ip->version = 6;
	ip->payload_len = bpf_htons(tcp);
	ip->nexthdr = IPPROTO_TCP;
	ip->hop_limit = hop_limit;
	ip->saddr = syn->daddr;
	ip->daddr = syn->saddr;
	__builtin_memcpy(w->pseudo, &ip->saddr, 32);
	w->pseudo[8] = bpf_htonl(tcp);
	w->pseudo[9] = bpf_htonl(IPPROTO_TCP);
	return bpf_csum_diff(NULL, 0, w->pseudo, 40, 0);
}

/* Replaces the frame by the answer, whose TCP header has `tcp` bytes: 0, or -1 if there is no room for
 * it, and the frame is as before. */
PCN_INLINE int synflood_replace(struct CTXTYPE *ctx, struct synflood_work *w, int ipv6, __s64 tcp,
				__u32 pseudo)
{
	const void *frame = (void *)&w->frame + (ipv6 ? 0 : SYNFLOOD_IPV4_AT);
	__u32 l4 = sizeof(struct ethhdr) + (ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));

	asm volatile("" : "+r"(tcp)); /* two comparisons of one number: docs/guide/verifier.md */
	if (tcp < SYNFLOOD_TCP)
		return -1;
	asm volatile("" : "+r"(tcp));
	if (tcp > SYNFLOOD_ANSWER_MAX)
		return -1;
	__u32 sum = bpf_csum_diff(NULL, 0, (__be32 *)w->frame.tcp, tcp, 0);
#ifdef PCN_TC
	/* The kernel keeps a sum of the whole skb if the device has computed it: each call accounts
	 * for what it changes. Where the checksum is left to the device, only that of the pseudo
	 * header is added. */
	if (bpf_skb_change_tail(ctx, l4 + tcp, 0))
		return -1;
	bpf_skb_store_bytes(ctx, 0, frame, l4 + tcp, BPF_F_RECOMPUTE_CSUM);
	bpf_l4_csum_replace(ctx, l4 + 16, 0, pseudo, BPF_F_PSEUDO_HDR);
	bpf_l4_csum_replace(ctx, l4 + 16, 0, sum, 0);
	bpf_csum_update(ctx, ~sum);
	return 0;
#else
	__u64 both = (__u64)pseudo + sum;

	both = (both & 0xffffffff) + (both >> 32);
	*(__sum16 *)(w->frame.tcp + 16) = pcn_csum_fold((both & 0xffffffff) + (both >> 32));
	if (bpf_xdp_adjust_tail(ctx, (int)(l4 + tcp - pcn_frame_len(ctx))))
		return -1;
	return bpf_xdp_store_bytes(ctx, 0, (void *)frame, l4 + tcp);
#endif
}

/* The kernel's cookie for the SYN in w, and the time of the flood for the socket, without which the
 * kernel would refuse the cookie: its number and above it an MSS, or negative. The kernel gives none
 * if the packet has found a connection, or if the backlog of the listener is full. */
PCN_INLINE __s64 synflood_cookie(struct CTXTYPE *ctx, struct synflood_packet *p,
				 struct synflood_work *w)
{
	struct bpf_sock *sk = synflood_socket(ctx, p);
	__s64 header = p->header, cookie = -1;

	if (!sk)
		return -1;
	asm volatile("" : "+r"(header)); /* two comparisons of one number: docs/guide/verifier.md */
	if (sk->state == BPF_TCP_LISTEN && header >= SYNFLOOD_TCP) {
		asm volatile("" : "+r"(header));
		if (header <= SYNFLOOD_TCP_MAX)
			cookie = bpf_tcp_gen_syncookie(sk, w->ip, sizeof(w->ip),
						       (struct tcphdr *)w->tcp, header);
	}
	bpf_sk_release(sk);
	return cookie;
}

/* Copies the headers of the packet. -1 if they are longer than possible. */
PCN_INLINE int synflood_copy(struct CTXTYPE *ctx, const struct synflood_packet *p,
			     struct synflood_work *w, __s64 header)
{
	if (pcn_load_bytes(ctx, 0, &w->frame.eth, sizeof(struct ethhdr)) ||
	    pcn_load_bytes(ctx, sizeof(struct ethhdr), w->ip,
			   p->ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)))
		return -1;
	asm volatile("" : "+r"(header));
	if (header < SYNFLOOD_TCP)
		return -1;
	asm volatile("" : "+r"(header));
	if (header > SYNFLOOD_TCP_MAX)
		return -1;
	return pcn_load_bytes(ctx, p->l4, w->tcp, header);
}

/* Makes the packet, a SYN to a protected port, the SYN-ACK: 0, or -1 if the stack has to answer. */
PCN_INLINE int synflood_answer(struct CTXTYPE *ctx, struct synflood_packet *p,
			       const struct synflood_settings *s)
{
	struct synflood_work *w = synflood_memory();
	__u32 tcp, pseudo;
	__s64 cookie;
	__u8 mac[ETH_ALEN];

	if (!w || synflood_copy(ctx, p, w, p->header))
		return -1;
	if (!p->ipv6 &&
	    pcn_csum_fold(bpf_csum_diff(NULL, 0, (__be32 *)w->ip, sizeof(struct iphdr), 0)))
		return -1;
	cookie = synflood_cookie(ctx, p, w);
	if (cookie < 0)
		return -1;
	synflood_options(w, p->header, s->options);
	tcp = synflood_write_tcp(w, s, cookie, p->ipv6 ? s->mss6 : s->mss4);
	__builtin_memcpy(mac, w->frame.eth.h_source, ETH_ALEN);
	struct ethhdr *eth = (void *)&w->frame + (p->ipv6 ? 0 : SYNFLOOD_IPV4_AT);
	__builtin_memcpy(eth->h_source, w->frame.eth.h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
	pseudo =
		p->ipv6 ? synflood_write_ipv6(w, s->ttl, tcp) : synflood_write_ipv4(w, s->ttl, tcp);
	return synflood_replace(ctx, w, p->ipv6, tcp, pseudo);
}

#endif
