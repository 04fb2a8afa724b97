// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Ethernet sessions: the cube is between base stations and the port of a bridge, which only sees frames of devices.
 * User space owns all entries of these maps; programs only record when they have seen an address. */
#ifndef GTPHANDLER_FRAMES_H
#define GTPHANDLER_FRAMES_H

#include <pcn/gtpu_end.h>
#include <pcn/gtpu_frame.h>

struct gtphandler_session {
	pcn_address source;	 /* of the tunnel */
	pcn_address destination; /* the base station */
	__u32 teid;		 /* of frames to it */
	__u32 counter;
	__u32 class;
	__u8 qfi;
	__u8 ipv6;  /* the tunnel is over IPv6 */
	__u8 fixed; /* only configured addresses may send */
	__u8 full;  /* no more addresses are learned */
};

/* The MAC address of a device. */
struct gtphandler_mac {
	__u64 seen;  /* coarse monotonic ns of approximately the last frame */
	__u32 teid;  /* of its session */
	__u32 fixed; /* configured: not learned, does not age */
};

/* Settings of the local end, from user space. */
struct gtphandler_link {
	__u64 mac;			/* of frames to base stations */
	struct pcn_bucket_limit groups; /* frames that are copied to all sessions */
	__u32 several;			/* there is more than one session */
	__u32 zero;
};

/* By the TEID of frames from it. */
PCN_MAP_FLAGS(sessions, BPF_MAP_TYPE_HASH, __u32, struct gtphandler_session, 1024,
	      BPF_F_NO_PREALLOC);
/* By the address, as returned by pcn_mac(). */
PCN_MAP_FLAGS(macs, BPF_MAP_TYPE_HASH, __u64, struct gtphandler_mac, 8192, BPF_F_NO_PREALLOC);
PCN_MAP(links, BPF_MAP_TYPE_ARRAY, __u32, struct gtphandler_link, 1);
PCN_MAP(group_bucket, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);

/* How old `seen` may be before it is updated. */
PCN_CONFIG(__u64, refresh_ns) = 1000000000;

/* The metadata word with the TEID of the session that a frame from user space is sent to. */
#define GTPHANDLER_FOR 0

/* Whether one more frame may be copied to all sessions. */
PCN_INLINE int gtphandler_may_copy(const struct gtphandler_link *link)
{
	__u32 zero = 0;
	__u64 *bucket = bpf_map_lookup_elem(&group_bucket, &zero);

	return bucket && pcn_bucket_take(bucket, &link->groups, 1, pcn_time_coarse());
}

/* The session of a frame's sender: 0 if the frame may come from it, PCN_GTPU_END_PACKET if user space has to learn the address
 * first, else the reason why it may not. */
PCN_INLINE int gtphandler_check_sender(const struct gtphandler_session *s, __u32 teid, __u64 from)
{
	struct gtphandler_mac *m = bpf_map_lookup_elem(&macs, &from);
	__u64 now;

	if (from & 1 || !from)
		return GTPHANDLER_MALFORMED;
	if (!m)
		return s->fixed	 ? GTPHANDLER_SPOOFED_SOURCE
		       : s->full ? GTPHANDLER_TOO_MANY_ADDRESSES
				 : PCN_GTPU_END_PACKET;
	if (m->teid != teid)
		return s->fixed || m->fixed ? GTPHANDLER_SPOOFED_SOURCE : GTPHANDLER_ADDRESS_IN_USE;
	now = pcn_time_coarse();
	if (!m->fixed && pcn_refresh_due(now, m->seen, refresh_ns))
		m->seen = now;
	return 0;
}

/* Forwards a decapsulated frame: to another session, also to all others, or to the bridge. */
PCN_INLINE int gtphandler_switch(struct CTXTYPE *ctx, struct pcn_md *md, __u32 teid, __u64 to)
{
	const struct gtphandler_link *link;
	const struct gtphandler_mac *m;
	__u32 zero = 0;

	if (!(to & 1)) {
		m = bpf_map_lookup_elem(&macs, &to);
		return m && m->teid != teid ? pcn_pkt_reply(ctx, md) : pcn_pkt_pass(ctx, md);
	}
	link = bpf_map_lookup_elem(&links, &zero);
	if (link && link->several) {
		if (gtphandler_may_copy(link)) {
			md->md[GTPHANDLER_FOR] = teid;
			pcn_pkt_copy(ctx, md, GTPHANDLER_GROUP);
		} else {
			pcn_count(&frame_counters, GTPHANDLER_FRAME_NOT_COPIED);
		}
	}
	return pcn_pkt_pass(ctx, md);
}

/* Decapsulates a frame from a device that has come to an address of a network instance. */
PCN_INLINE int gtphandler_receive_frame(struct CTXTYPE *ctx, struct pcn_md *md,
					const struct pcn_flow *flow, const struct pcn_gtpu *g,
					__u32 instance)
{
	const struct gtphandler_session *s = bpf_map_lookup_elem(&sessions, &g->teid);
	struct ethhdr eth;
	struct pcn_macs macs;
	__u32 class;
	int result;

	if (!s || !gtphandler_in_instance(s->source, flow->destination, instance))
		return pcn_gtpu_end_up(ctx, md, GTPHANDLER_UNKNOWN_TUNNEL, PCN_GTPU_END_FAILURES,
				       0);
	if (g->payload < sizeof(eth) || pcn_load_bytes(ctx, g->at, &eth, sizeof(eth)))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
	macs = pcn_macs(&eth);
	result = gtphandler_check_sender(s, g->teid, macs.from);
	if (result == PCN_GTPU_END_PACKET)
		return pcn_gtpu_end_up(ctx, md, GTPHANDLER_LEARN, PCN_GTPU_END_FAILURES, 0);
	if (result)
		return pcn_pkt_drop(ctx, md, result);
	pcn_gtpu_end_learn(ctx, flow);
	class = s->class;
	gtphandler_count(s->counter, g->payload, 1);
	if (pcn_gtpu_strip_frame(ctx, g))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
	md->packet_len = pcn_frame_len(ctx);
#ifdef PCN_TC
	if (ctx->vlan_present)
		md->packet_len += sizeof(struct pcn_vlan_hdr);
#endif
	md->traffic_class = class;
	md->tenant = g->qfi;
	return gtphandler_switch(ctx, md, g->teid, macs.to);
}

/* True for requests from hosts on the link of base stations to this one: address resolution and echo. */
PCN_INLINE int gtphandler_asks(struct CTXTYPE *ctx, const struct pcn_flow *flow)
{
	return flow->ethertype == bpf_htons(ETH_P_ARP) || pcn_is_neighbour_discovery(ctx, flow) ||
	       (flow->has & PCN_FLOW_ICMP && bpf_map_lookup_elem(&addresses, flow->destination));
}

/* A frame from the link of base stations. */
PCN_INLINE int gtphandler_frame_in(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct pcn_flow flow = {};
	const __u32 *instance;
	struct pcn_gtpu g;
	int result;

	if (pcn_flow_read(ctx, &flow))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
	if (flow.vlan != PCN_FLOW_UNTAGGED)
		return pcn_pkt_drop(ctx, md, GTPHANDLER_NOT_TUNNELLED);
	if (gtphandler_asks(ctx, &flow))
		return pcn_gtpu_end_up(ctx, md, GTPHANDLER_HOST, PCN_GTPU_END_PATHS, 0);
	instance = pcn_gtpu_end_is_for(&flow);
	if (!instance)
		return pcn_pkt_drop(ctx, md, GTPHANDLER_NOT_TUNNELLED);
	result = pcn_gtpu_end_read(ctx, md, &flow, &g);
	if (result != PCN_GTPU_END_PACKET)
		return result;
	return gtphandler_receive_frame(ctx, md, &flow, &g, *instance);
}

/* Whether a frame can enter its tunnel: PCN_GTPU_END_PACKET, or the verdict. A packet of IP that is too big is answered or
 * fragmented, unless it is for many: each of the copies would be. */
PCN_INLINE int gtphandler_frame_fits(struct CTXTYPE *ctx, struct pcn_md *md,
				     const struct pcn_flow *flow, __u32 overhead, int group)
{
	if (md->packet_len + overhead <= mtu)
		return PCN_GTPU_END_PACKET;
	if (group || flow->vlan != PCN_FLOW_UNTAGGED || !(flow->has & PCN_FLOW_IP))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_NOT_ENCAPSULATED);
	return pcn_gtpu_end_up(ctx, md, GTPHANDLER_TOO_BIG, PCN_GTPU_END_FAILURES,
			       mtu - overhead - sizeof(struct ethhdr));
}

/* Encapsulates a frame into the tunnel of a session. */
PCN_INLINE int gtphandler_send_frame(struct CTXTYPE *ctx, struct pcn_md *md,
				     const struct pcn_flow *flow, __u32 teid, int group)
{
	const struct gtphandler_session *s = bpf_map_lookup_elem(&sessions, &teid);
	__u32 zero = 0, bytes = md->packet_len, counter, overhead;
	const struct gtphandler_link *link = bpf_map_lookup_elem(&links, &zero);
	struct pcn_encap outer = { .ttl = 64,
				   .kind = PCN_ENCAP_GUE,
				   .source_port = pcn_gtpu_end_port(flow) };
	struct pcn_gtpu_tunnel tunnel = {};
	const __u64 *known;
	int result;

	if (!s || !link)
		return pcn_pkt_drop(ctx, md, GTPHANDLER_UNKNOWN_DEVICE);
	known = bpf_map_lookup_elem(&stations, s->destination);
	if (!known || !*known)
		return pcn_pkt_drop(ctx, md, GTPHANDLER_UNKNOWN_STATION);
	tunnel.to = *known;
	tunnel.from = link->mac;
	tunnel.teid = s->teid;
	tunnel.qfi = s->qfi;
	outer.ipv6 = s->ipv6;
	overhead = pcn_gtpu_overhead(&outer, &tunnel);
	result = gtphandler_frame_fits(ctx, md, flow, overhead, group);
	if (result != PCN_GTPU_END_PACKET)
		return result;
	pcn_address_copy(outer.source, s->source);
	pcn_address_copy(outer.destination, s->destination);
	counter = s->counter;
	if (pcn_gtpu_encap_frame(ctx, &outer, &tunnel, flow))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_NOT_ENCAPSULATED);
	md->packet_len = bytes + overhead + sizeof(struct ethhdr);
	gtphandler_count(counter, bytes, 0);
	return pcn_pkt_pass(ctx, md);
}

/* Handles a frame to devices. */
PCN_INLINE int gtphandler_frame_out(struct CTXTYPE *ctx, struct pcn_md *md)
{
	const struct gtphandler_link *link;
	const struct gtphandler_mac *m;
	__u32 teid = md->md[GTPHANDLER_FOR], zero = 0;
	struct pcn_flow flow = {};
	struct ethhdr eth;
	__u64 to;

	if (pcn_flow_read(ctx, &flow) || pcn_load_bytes(ctx, 0, &eth, sizeof(eth)))
		return pcn_pkt_drop(ctx, md, GTPHANDLER_MALFORMED);
	if (pcn_is_superframe(ctx))
		return pcn_pkt_controller(ctx, md, GTPHANDLER_SEGMENT);
	to = pcn_macs(&eth).to;
	if (to & 1 && !teid) {
		link = bpf_map_lookup_elem(&links, &zero);
		if (!link || !gtphandler_may_copy(link))
			return pcn_pkt_drop(ctx, md, GTPHANDLER_FLOODED);
		return pcn_pkt_controller(ctx, md, GTPHANDLER_GROUP);
	}
	if (!teid) {
		m = bpf_map_lookup_elem(&macs, &to);
		if (!m)
			return pcn_pkt_drop(ctx, md, GTPHANDLER_UNKNOWN_DEVICE);
		teid = m->teid;
	}
	return gtphandler_send_frame(ctx, md, &flow, teid, to & 1);
}

#endif
