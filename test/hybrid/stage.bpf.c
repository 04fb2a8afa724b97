// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A hybrid function for tests. It writes its letter into the payload of UDP packets to ports of BASE and more, behind the
 * letters that are there. The last three bits of a port choose between fast and slow path, for each of the functions
 * with the numbers 0 to 2, unless an entry of `other` says the opposite. */
#include <pcn/bypass.h>
#include <pcn/flow.h>

#define BASE 7000
#define UDP 8 /* bytes of its header */

/* What the function does with packets on their way in, and out. */
enum stage_does { NOTHING, ASKS_USER, ASKS_STACK };
PCN_CONFIG(enum stage_does, incoming) = NOTHING;
PCN_CONFIG(enum stage_does, outgoing) = NOTHING;
PCN_CONFIG(__u32, number) = 0;
PCN_CONFIG(__u32, letter) = 'X';

enum stage_why {
	STAGE_ASKED = PCN_REASON_FIRST, /* the slow path is user space */
};
PCN_SLOWPATH_REASONS(stage_why);

/* Ports whose packets take the other path. */
PCN_MAP(other, BPF_MAP_TYPE_HASH, __be16, __u32, 64);

/* The payload: the number of letters, and the letters. */
struct letters {
	__u8 count;
	__u8 letter[7];
};

PCN_INLINE int is_fast(__be16 port)
{
	__u32 *opposite = bpf_map_lookup_elem(&other, &port);

	return (bpf_ntohs(port) >> number & 1) ^ (opposite ? 1 : 0);
}

/* Writes the letter, if there is room for it. */
PCN_INLINE void sign(struct CTXTYPE *ctx, __u32 at)
{
	struct letters is;

	if (pcn_load_bytes(ctx, at, &is, sizeof(is)) || is.count >= sizeof(is.letter))
		return;
	is.letter[is.count++] = letter;
#ifdef PCN_TC
	bpf_skb_store_bytes(ctx, at, &is, sizeof(is), 0);
#else
	bpf_xdp_store_bytes(ctx, at, &is, sizeof(is));
#endif
}

PCN_INLINE int stage(struct CTXTYPE *ctx, struct pcn_md *md, enum stage_does does)
{
	struct pcn_flow is = {};

	if (does == NOTHING || pcn_flow_read(ctx, &is) || is.protocol != IPPROTO_UDP ||
	    bpf_ntohs(is.destination_port) - BASE >= 8U)
		return pcn_pkt_pass(ctx, md);
	if (!is_fast(is.destination_port))
		return does == ASKS_USER ? pcn_pkt_controller(ctx, md, STAGE_ASKED)
					 : pcn_pkt_pass(ctx, md);
	sign(ctx, is.l4 + UDP);
	return does == ASKS_USER ? pcn_pkt_pass(ctx, md) : pcn_bypass(ctx, md);
}

PCN_INGRESS
{
	return stage(ctx, md, incoming);
}

PCN_EGRESS
{
	return stage(ctx, md, outgoing);
}

PCN_LICENSE;
