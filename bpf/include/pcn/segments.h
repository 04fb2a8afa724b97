// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What a packet is on the wire. At TC, the kernel sends superframes through its stack: one packet for many segments, each
 * of which gets the headers when it leaves. Rates and volumes count segments. */
#ifndef PCN_SEGMENTS_H
#define PCN_SEGMENTS_H

#include <linux/udp.h>
#include <pcn/flow.h>
#include <pcn/packet.h>

/* A packet as it is on the wire, where a superframe is several. `headers` are the bytes that each of them repeats; 0
 * for a packet that is one. */
struct pcn_wire {
	__u32 bytes;
	__u32 packets;
	__u32 headers;
};

/* Returns what a packet is on the wire: of a superframe in a tunnel, the inner headers are counted once. `flow` is that of
 * the packet; it is only read for a superframe (pcn_is_superframe). */
PCN_INLINE struct pcn_wire pcn_on_the_wire(struct CTXTYPE *ctx, const struct pcn_md *md,
					   const struct pcn_flow *flow)
{
	struct pcn_wire wire = { .bytes = md->packet_len, .packets = 1 };
#ifdef PCN_TC
	__u32 headers = flow->l4 + sizeof(struct udphdr), segment = ctx->gso_size;
	__u8 offset = 0;

	if (!segment || !(flow->has & PCN_FLOW_L4))
		return wire;
	if (flow->protocol == IPPROTO_TCP) {
		pcn_load_bytes(ctx, flow->l4 + 12, &offset, sizeof(offset));
		headers = flow->l4 + (offset >> 4) * 4;
	}
	if (wire.bytes <= headers + segment)
		return wire;
	wire.packets = (wire.bytes - headers + segment - 1) / segment;
	wire.bytes += (wire.packets - 1) * headers;
	wire.headers = headers;
#else
	(void)ctx;
	(void)flow;
#endif
	return wire;
}

/* True for a packet that is several on the wire. */
PCN_INLINE int pcn_is_superframe(struct CTXTYPE *ctx)
{
#ifdef PCN_TC
	return ctx->gso_size != 0;
#else
	(void)ctx;
	return 0;
#endif
}

#endif
