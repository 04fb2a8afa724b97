// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Which packets the fast path may decide, and where the host would send them. All others pass to the stack: those that it
 * would check, reassemble, answer or drop before its rules. */
#ifndef EFW_PACKET_H
#define EFW_PACKET_H

#include <pcn/cube.h>
#include <pcn/flow.h>
#include <pcn/hostaddr.h>
#include <pcn/hostfib.h>

/* The gate. While it is closed, only the host applies its rules. */
struct efw_gate {
	__u64 until; /* ns of the coarse clock, when it closes by itself */
	__u8 mac[6]; /* of the netdev */
	__u16 flags;
	__u32 udp_timeout; /* ms that established UDP connections are kept; 0: they are left to the stack */
	__u32 reserved;
};

/* The host tracks connections: only packets without a connection, or of an established one, are decided here. */
#define EFW_TRACKED 1
/* It does so for this family: only packets of established connections are accepted here. */
#define EFW_TRACKED_BY(v6) ((v6) ? 4 : 2)

/* Where a packet goes. */
enum efw_way { EFW_UNKNOWN, EFW_INPUT, EFW_FORWARD };

/* A packet as the stack would see it. */
struct efw_packet {
	struct pcn_flow flow;
	struct bpf_fib_lookup route;
	__u32 way;	/* enum efw_way */
	__u32 resolved; /* the route has the MAC addresses of the next hop */
	__u32 length;	/* of the IP packet, in bytes */
};

/* IPv6 extension headers: rules look for the protocol behind them, or only the stack reads them. */
PCN_INLINE int efw_is_extension(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_FRAGMENT:
	case IPPROTO_ESP:
	case IPPROTO_AH:
	case IPPROTO_NONE:
	case IPPROTO_DSTOPTS:
	case 135: /* mobility */
	case 139: /* host identity */
	case 140: /* shim6 */
		return 1;
	}
	return 0;
}

/* The length of an IP packet that is complete and has no options or extension headers; 0: it is not such a packet. */
PCN_INLINE __u32 efw_length(const struct pcn_cursor *at, const struct pcn_md *md,
			    const struct pcn_flow *flow)
{
	struct pcn_cursor c = *at;
	__u32 length, header = sizeof(struct iphdr);

	if (flow->has & PCN_FLOW_IPV6) {
		struct ipv6hdr *ip = pcn_cursor_take(&c, sizeof(*ip));

		if (!ip || !ip->payload_len || efw_is_extension(ip->nexthdr))
			return 0;
		header = sizeof(*ip);
		length = header + bpf_ntohs(ip->payload_len);
	} else {
		struct iphdr *ip = pcn_cursor_take(&c, sizeof(*ip));

		if (!ip || *(__u8 *)ip != 0x45)
			return 0;
		length = bpf_ntohs(ip->tot_len);
	}
	if (flow->l4 != flow->l3 + header || flow->l3 + length > md->packet_len)
		return 0;
	switch (flow->protocol) {
	case IPPROTO_TCP:
		header += sizeof(struct tcphdr);
		break;
	case IPPROTO_UDP:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		header += 8;
		break;
	default:
		if (pcn_has_ports(flow->protocol))
			return 0;
	}
	return length < header ? 0 : length;
}

/* Whether the stack considers a frame addressed to the host, by its MAC address. */
PCN_INLINE int efw_is_to_host(struct CTXTYPE *ctx, const struct ethhdr *eth, const __u8 *mac)
{
#ifdef PCN_TC
	(void)eth;
	(void)mac;
	return ctx->pkt_type == 0 && !ctx->mark && !ctx->vlan_present;
#else
	(void)ctx;
	return pcn_mac(eth->h_dest) == pcn_mac(mac);
#endif
}

/* A bitmap of the host's own addresses by their hash: an address whose bit is not set is none of them. That saves a table lookup for
 * nearly all packets. */
struct efw_own {
	__u64 bits[4];
};
PCN_MAP(own, BPF_MAP_TYPE_ARRAY, __u32, struct efw_own, 1);

/* The bit of an address: Go type ownEntry knows it. */
#define EFW_OWN_BIT(a) (((a)[0] ^ (a)[1] ^ (a)[2] ^ (a)[3]) * 0x9e3779b1U >> 24)

/* Whether an address may be the source of a packet from another host. */
PCN_INLINE int efw_is_source(const __be32 *address, __u32 v6)
{
	__u32 zero = 0, bit = EFW_OWN_BIT(address);
	const struct efw_own *o = bpf_map_lookup_elem(&own, &zero);
	__u64 word = bit >> 6;

	asm volatile(""
		     : "+r"(word)); /* the verifier of Linux 6.1 does not know that it is below 4 */
	if (o && !(o->bits[word & 3] >> (bit & 63) & 1))
		return pcn_address_kind(address, v6) == PCN_ADDRESS_UNICAST;
	return pcn_address_type_of(address, v6) == PCN_ADDRESS_UNICAST;
}

/* Looks up where the host would send a packet whose flow has been read. EFW_UNKNOWN: it passes to the stack. */
PCN_GLOBAL int efw_read(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			struct efw_packet *p PCN_NONNULL, const struct efw_gate *gate PCN_NONNULL)
{
	__u32 v6 = p->flow.has & PCN_FLOW_IPV6, in = ctx->ingress_ifindex;
	struct pcn_cursor c;

	p->way = EFW_UNKNOWN;
#ifdef PCN_TC
	in = ctx->ifindex;
#endif
	if (!(p->flow.has & PCN_FLOW_L4) || p->flow.fragment != PCN_FRAGMENT_NONE ||
	    p->flow.vlan != PCN_FLOW_UNTAGGED || md->traffic_class)
		return 0;
	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + 4);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth || eth->h_proto != p->flow.ethertype || !efw_is_to_host(ctx, eth, gate->mac))
		return 0;
	p->length = efw_length(&c, md, &p->flow);
	if (!p->length || !efw_is_source(p->flow.source, v6))
		return 0;
	__builtin_memset(&p->route, 0, sizeof(p->route));
	p->route.ifindex = in;
	int route = pcn_hostfib_lookup(ctx, eth->h_proto, &c, &p->route);
	p->resolved = route == BPF_FIB_LKUP_RET_SUCCESS;
	if (!p->resolved && route != BPF_FIB_LKUP_RET_NO_NEIGH) { /* no route to another host */
		if ((route == BPF_FIB_LKUP_RET_NOT_FWDED ||
		     route == BPF_FIB_LKUP_RET_FWD_DISABLED) &&
		    pcn_address_type_of(p->flow.destination, v6) == PCN_ADDRESS_LOCAL &&
		    (v6 || bpf_ntohl(p->flow.destination[3]) >> 24 != 127))
			p->way = EFW_INPUT;
		return 0;
	}
	/* Back where it came from: the stack sends an ICMP redirect. */
	if (p->route.ifindex == in || !pcn_hostfib_fits(ctx, p->route.ifindex))
		return 0;
	p->way = EFW_FORWARD;
	return 0;
}

#endif
