// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A cube for tests: stores the results of the parsers of pcn/ip.h in a map. */
#include <pcn/cube.h>
#include <pcn/extensions.h>

enum headers_reason {
	HEADERS_DONE = PCN_REASON_FIRST, /* every packet */
};
PCN_REASONS(headers_reason);

struct headers_found {
	__u32 kind;  /* 0: malformed; else 1 ARP, 4, 6 */
	__u32 check; /* the checksum is correct */
	__u32 protocol;
	__u32 fragment;
	__u32 id;
	__u32 routing;
	__u32 hop_by_hop;
	__u32 offset;	   /* final position of the cursor */
	__u32 source;	   /* of the ports, or type and code of ICMP */
	__u32 destination; /* of the ports, or the id of ICMP */
};
PCN_MAP(found, BPF_MAP_TYPE_ARRAY, __u32, struct headers_found, 1);

PCN_INLINE void transport(struct pcn_cursor *c, struct headers_found *f)
{
	if (f->fragment == PCN_FRAGMENT_LATER)
		return;
	if (pcn_has_ports(f->protocol)) {
		struct pcn_ports *ports = pcn_parse_ports(c);

		if (ports) {
			f->source = bpf_ntohs(ports->source);
			f->destination = bpf_ntohs(ports->destination);
		}
		return;
	}
	struct pcn_icmp *icmp = NULL;

	if (f->protocol == IPPROTO_ICMP || f->protocol == IPPROTO_ICMPV6)
		icmp = pcn_parse_icmp(c);
	if (!icmp)
		return;
	f->source = icmp->type << 8 | icmp->code;
	if (f->protocol == IPPROTO_ICMP ? pcn_icmp_has_id(icmp->type)
					: pcn_icmp6_has_id(icmp->type))
		f->destination = bpf_ntohs(icmp->id);
	else if (f->protocol == IPPROTO_ICMP ? pcn_icmp_is_error(icmp->type)
					     : pcn_icmp6_is_error(icmp->type))
		f->destination = 0xffffffff;
}

PCN_INLINE void ipv4(struct pcn_cursor *c, struct headers_found *f)
{
	struct iphdr *ip = pcn_parse_ipv4(c);

	if (!ip)
		return;
	f->kind = 4;
	f->check = pcn_ipv4_checksum_ok(ip, c->end);
	f->protocol = ip->protocol;
	f->fragment = pcn_ipv4_fragment(ip);
	f->id = bpf_ntohs(ip->id);
	if (pcn_skip_ipv4_options(c, ip) == 0)
		transport(c, f);
}

PCN_INLINE void ipv6(struct CTXTYPE *ctx, struct pcn_cursor *c, struct headers_found *f)
{
	struct ipv6hdr *ip = pcn_parse_ipv6(c);
	struct pcn_ipv6_payload payload;

	if (!ip || pcn_skip_ipv6_extensions(ctx, c, ip->nexthdr, &payload) < 0)
		return;
	f->kind = 6;
	f->protocol = payload.protocol;
	f->fragment = payload.fragment;
	f->id = bpf_ntohl(payload.id);
	f->routing = payload.routing;
	f->hop_by_hop = payload.hop_by_hop;
	transport(c, f);
}

PCN_INGRESS
{
	struct headers_found *f;
	struct pcn_cursor c;
	__u32 zero = 0;

	f = bpf_map_lookup_elem(&found, &zero);
	pcn_cursor_open(&c, ctx, 14 + 40 + PCN_IPV6_EXTENSIONS_MAX + 8);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!f || !eth)
		return pcn_pkt_drop(ctx, md, HEADERS_DONE);
	__builtin_memset(f, 0, sizeof(*f));
	if (eth->h_proto == bpf_htons(ETH_P_ARP)) {
		struct pcn_arp *arp = pcn_parse_arp(&c);

		if (arp) {
			f->kind = 1;
			f->protocol = bpf_ntohs(arp->operation);
			f->source = bpf_ntohl(arp->sender);
			f->destination = bpf_ntohl(arp->target);
		}
	} else if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		ipv4(&c, f);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		ipv6(ctx, &c, f);
	}
	f->offset = c.pos - pcn_data(ctx);
	return pcn_pkt_drop(ctx, md, HEADERS_DONE);
}

PCN_LICENSE;
