// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Packets for a service: which server, and how they reach it. */
#ifndef LBDSR_FORWARD_H
#define LBDSR_FORWARD_H

#include "lbdsr.h"

/* True if there are tunnels, or services by QUIC's connection ID: otherwise their code is not there. */
PCN_CONFIG(bool, tunnels) = false;
PCN_CONFIG(bool, quic) = false;

/* The first byte of a packet of QUIC: it has a long header. */
#define LBDSR_QUIC_LONG 0x80
/* Where the destination's connection ID is: behind flags, version and its length, or behind the flags. */
#define LBDSR_QUIC_LONG_ID 6
#define LBDSR_QUIC_SHORT_ID 1

/* The number of the server in the connection ID of a packet of QUIC; 0: there is none, as in later fragments, and in ICMP errors,
 * which quote the server's packet to the client's ID. */
PCN_GLOBAL int lbdsr_quic(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
			  __u32 service)
{
	struct lbdsr_quic_key key = { .service = service };
	__u8 first, id;
	__u32 at = flow->l4 + sizeof(struct udphdr), config, *length, *server;

	if (flow->protocol != IPPROTO_UDP || (flow->has & PCN_FLOW_ICMP) ||
	    flow->fragment == PCN_FRAGMENT_LATER)
		return 0;
	if (pcn_load_bytes(ctx, at, &first, 1))
		return 0;
	at += first & LBDSR_QUIC_LONG ? LBDSR_QUIC_LONG_ID : LBDSR_QUIC_SHORT_ID;
	if (pcn_load_bytes(ctx, at, &id, 1))
		return 0;
	config = id >> 5;
	key.config = config;
	length = bpf_map_lookup_elem(&quic_configs, &config);
	if (!length || pcn_load_some(ctx, at + 1, key.server, *length, sizeof(key.server)))
		return 0;
	server = bpf_map_lookup_elem(&quic_servers, &key);
	return server ? *server : 0;
}

/* Notes the ports of a first fragment, and gives them to a later one. -1: they are not known. */
PCN_GLOBAL int lbdsr_fragment(struct pcn_flow *flow PCN_NONNULL)
{
	struct lbdsr_fragment_key key = { .id = flow->id, .protocol = flow->protocol };
	__u32 ports = (__u32)flow->source_port << 16 | flow->destination_port, *known;

	pcn_address_copy(key.source, flow->source);
	pcn_address_copy(key.destination, flow->destination);
	if (flow->fragment == PCN_FRAGMENT_FIRST) {
		bpf_map_update_elem(&fragments, &key, &ports, BPF_ANY);
		return 0;
	}
	known = bpf_map_lookup_elem(&fragments, &key);
	if (!known)
		return -1;
	flow->source_port = *known >> 16;
	flow->destination_port = *known;
	flow->has |= PCN_FLOW_PORTS;
	return 0;
}

/* The server of a flow without a pin: as the table says, from now on. 0: there is none. */
PCN_INLINE __u32 lbdsr_choose(const struct pcn_service *service, __u64 hash, __u32 now)
{
	__u32 number = pcn_balance_slotted(service->pool, hash);

	if (number &&
	    pcn_pin_add(hash, pcn_pin_word(service->id, number, now), now, service->timeout))
		pcn_count(&counters, LBDSR_NOT_PINNED);
	return number;
}

/* The outer headers for a server: the source varies by flow, so that the server's interface and the routers to it spread
 * flows. */
PCN_INLINE void lbdsr_outer(struct pcn_encap *e, const struct lbdsr_settings *s,
			    const struct lbdsr_server *to, __u32 hash)
{
	e->ipv6 = to->address[0] || to->address[1] || to->address[2] != bpf_htonl(0xffff);
	__u32 vary = e->ipv6 ? s->vary6 : s->vary4;

	pcn_address_copy(e->source, e->ipv6 ? s->source6 : s->source4);
	pcn_address_copy(e->destination, to->address);
	if (vary)
		e->source[3] ^= bpf_htonl(hash >> (32 - vary) & 0xffffffff);
	e->kind = to->forward == LBDSR_GUE ? PCN_ENCAP_GUE : PCN_ENCAP_IP;
	e->source_port = bpf_htons(0xc000 | (hash & 0x3fff));
	e->port = to->gue_port;
	e->ttl = s->ttl;
}

/* Sends a packet to a server through a tunnel. */
PCN_GLOBAL int lbdsr_tunnel(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			    const struct pcn_flow *flow PCN_NONNULL, __u32 number, __u32 hash)
{
	struct pcn_encap outer = {};
	__u32 zero = 0, index;
	struct lbdsr_server *to = bpf_map_lookup_elem(&servers, &number);
	struct lbdsr_settings *s = bpf_map_lookup_elem(&settings, &zero);

	if (!to || !s)
		return pcn_pkt_drop(ctx, md, LBDSR_NO_SERVER);
	index = to->port - 1;
	struct lbdsr_port *port = bpf_map_lookup_elem(&ports, &index);
	if (!port)
		return pcn_pkt_drop(ctx, md, LBDSR_NO_PORT);
	__u64 mac = to->mac;

	lbdsr_outer(&outer, s, to, hash);
	__u32 overhead = pcn_encap_overhead(&outer);

	if (md->packet_len - flow->l3 + overhead > port->mtu
#ifdef PCN_TC
	    && !ctx->gso_size /* its segments get smaller */
#endif
	) {
		md->md[0] = port->mtu - overhead;
		if (!lbdsr_allowed(s, LBDSR_LIMIT_ERRORS))
			return pcn_pkt_drop(ctx, md, LBDSR_TOO_BIG);
		return pcn_pkt_controller(ctx, md, LBDSR_ANSWER_TOO_BIG);
	}
	if (pcn_encap(ctx, &outer, flow, mac, port->mac))
		return pcn_pkt_drop(ctx, md, LBDSR_NOT_ENCAPSULATED);
	md->packet_len += overhead;
	return pcn_pkt_send(ctx, md, index);
}

/* Sends a packet to a server. */
PCN_INLINE int lbdsr_send(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow,
			  __u32 number, __u64 hash)
{
	struct lbdsr_server *to = bpf_map_lookup_elem(&servers, &number);

	if (!to || !to->port)
		return pcn_pkt_drop(ctx, md, LBDSR_NO_PORT);
	if (!to->mac)
		return pcn_pkt_drop(ctx, md, LBDSR_UNRESOLVED);
	if (tunnels && to->forward != LBDSR_L2)
		return lbdsr_tunnel(ctx, md, flow, number, hash >> 32);

	__u32 index = to->port - 1;
	struct lbdsr_port *port = bpf_map_lookup_elem(&ports, &index);
	struct ethhdr *eth = pcn_data(ctx);
	if (!port || (void *)(eth + 1) > pcn_data_end(ctx))
		return pcn_pkt_drop(ctx, md, LBDSR_NO_PORT);
	pcn_set_macs(eth, to->mac, port->mac);
	return pcn_pkt_send(ctx, md, index);
}

/* A packet for a service. `syn` says that it begins a connection of TCP. A flow of QUIC has a pin as well, to the server that its
 * connection IDs name, for its fragments and the ICMP errors about it. */
PCN_INLINE int lbdsr_serve(struct CTXTYPE *ctx, struct pcn_md *md, const struct pcn_flow *flow,
			   const struct pcn_service *service, const struct lbdsr_settings *s,
			   int syn)
{
	__u64 hash = pcn_balance_hash(flow, service->by);
	__u32 id = service->id, number;

	pcn_count_packet(&service_counts, &id, md->packet_len);
	number = pcn_pin_get(hash, id, s->now, service->timeout, !syn);
	if (quic && (service->by & PCN_BALANCE_BY_QUIC)) {
		__u32 named = lbdsr_quic(ctx, flow, id);

		if (named && named != number &&
		    pcn_pin_add(hash, pcn_pin_word(id, named, s->now), s->now, service->timeout))
			pcn_count(&counters, LBDSR_NOT_PINNED);
		if (named)
			number = named;
	}
	if (!number)
		number = lbdsr_choose(service, hash, s->now);
	if (!number)
		return pcn_pkt_drop(ctx, md, LBDSR_NO_SERVER);
	pcn_count_packet(&server_counts, &number, md->packet_len);
	return lbdsr_send(ctx, md, flow, number, hash);
}

/* A packet of a flow that has a pin in its first bucket, to its server; -1: it is for lbdsr_serve to say. What is needed is
 * found by the hash, which the packet has, and then by the pin, all at once: the service and the server, and their counters. */
PCN_INLINE int lbdsr_serve_known(struct CTXTYPE *ctx, struct pcn_md *md,
				 const struct pcn_flow *flow, const struct lbdsr_settings *s)
{
	__u64 hash = pcn_balance_hash(flow, PCN_BALANCE_WITH_DESTINATION | PCN_BALANCE_WITH_PORTS);
	__u64 word;
	struct pcn_pin *pin = pcn_pin_by_hash(hash, &word);

	if (!pin)
		return -1;
	__u32 id = PCN_PIN_SERVICE(word), number;
	struct lbdsr_known *service = bpf_map_lookup_elem(&known_services, &id);

	if (!service || !pcn_address_same(service->address, flow->destination) ||
	    service->port != flow->destination_port ||
	    (service->protocol[0] != flow->protocol && service->protocol[1] != flow->protocol))
		return -1;
	number =
		pcn_pin_seen(pin, word, s->now, service->timeout, (flow->tcp_flags & 0x12) != 0x02);
	if (!number)
		return -1;
	pcn_count_packet(&service_counts, &id, md->packet_len);
	pcn_count_packet(&server_counts, &number, md->packet_len);
	return lbdsr_send(ctx, md, flow, number, hash);
}

#endif
