// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Service data flows (3GPP TS 23.203): up to 32 of a device, by precedence, each with a value. A flow is four words, which a
 * packet is compared with at once; the prefix of an IPv6 address is in four more. Flows are seen from the device: `remote` is
 * the other end. Go package sdf writes them.
 *
 *	struct pcn_sdf_packet p = {};
 *
 *	pcn_sdf_of_flow(&p, &flow, g.qfi, 1);
 *	value = pcn_sdf_search(&p, list, other); */
#ifndef PCN_SDF_H
#define PCN_SDF_H

#include <pcn/flow.h>

/* The most flows of a list. */
#define PCN_SDF_FLOWS 32

/* The fields of a packet, as its device sees them. */
struct pcn_sdf_packet {
	__u64 fields;	 /* enum pcn_sdf_field */
	__u64 ports;	 /* the remote port, and from bit 32 on the device's */
	__u64 remote[2]; /* the IPv6 address of the other end, in host byte order */
};

/* Where the fields are. */
enum pcn_sdf_field {
	PCN_SDF_REMOTE =
		0, /* the IPv4 address of the other end, in host byte order; 0 in IPv6 packets */
	PCN_SDF_PROTOCOL = 32,
	PCN_SDF_DSCP = 40,
	PCN_SDF_QFI = 48,
	PCN_SDF_IPV6 = 56,  /* a bit */
	PCN_SDF_PORTS = 57, /* a bit: the packet has ports */
};

struct pcn_sdf_flow {
	__u64 fields; /* the packet's, in the bits of the mask */
	__u64 mask;
	__u64 first; /* the packet's ports are not below these */
	__u64 last;  /* and not above these */
};

/* The prefix of the IPv6 address of the other end. */
struct pcn_sdf_remote {
	__u64 is[2];
	__u64 mask[2];
};

/* In Go: sdf.List. */
struct pcn_sdf_list {
	struct pcn_sdf_flow flow[PCN_SDF_FLOWS];
	struct pcn_sdf_remote remote[PCN_SDF_FLOWS];
	__u32 value[PCN_SDF_FLOWS];
	__u32 count;
	__u32 zero;
};

/* Writes the fields of a packet that its device sends, or receives. qfi is that of its tunnel, or 0. `p` must be 0. */
PCN_INLINE void pcn_sdf_of_flow(struct pcn_sdf_packet *p, const struct pcn_flow *f, __u8 qfi,
				const int sender)
{
	const __be32 *remote = sender ? f->destination : f->source;
	__u64 source = bpf_ntohs(f->source_port), destination = bpf_ntohs(f->destination_port);

	p->fields = (__u64)f->protocol << PCN_SDF_PROTOCOL | (__u64)f->dscp << PCN_SDF_DSCP |
		    (__u64)qfi << PCN_SDF_QFI;
	p->ports = sender ? destination | source << 32 : source | destination << 32;
	if (f->has & PCN_FLOW_PORTS)
		p->fields |= 1ULL << PCN_SDF_PORTS;
	if (!(f->has & PCN_FLOW_IPV6)) {
		p->fields |= bpf_ntohl(remote[3]);
		return;
	}
	p->fields |= 1ULL << PCN_SDF_IPV6;
	p->remote[0] = bpf_be64_to_cpu(*(const __u64 *)remote);
	p->remote[1] = bpf_be64_to_cpu(*(const __u64 *)(remote + 2));
}

/* Internal: ports are compared two at a time: no difference of two of 16 bits takes the bit above from a half. */
#define PCN_SDF_HALVES 0x8000000080000000

/* Internal: 0 if a packet matches a flow, but for the prefix of an IPv6 address. */
PCN_INLINE __u64 pcn_sdf_differs(const struct pcn_sdf_packet *p, const struct pcn_sdf_flow *f)
{
	__u64 below = (f->last | PCN_SDF_HALVES) - p->ports;
	__u64 above = (p->ports | PCN_SDF_HALVES) - f->first;

	return ((p->fields ^ f->fields) & f->mask) | (~(above & below) & PCN_SDF_HALVES);
}

/* Internal: 0 if the other end of an IPv6 packet is in a prefix. */
PCN_INLINE __u64 pcn_sdf_differs_remote(const struct pcn_sdf_packet *p,
					const struct pcn_sdf_remote *r)
{
	return ((p->remote[0] ^ r->is[0]) & r->mask[0]) | ((p->remote[1] ^ r->is[1]) & r->mask[1]);
}

/* Internal: pcn_sdf_search in the packets of a family. With one branch for a flow: the verifier processes all that follows for
 * each further one. */
PCN_INLINE __u32 pcn_sdf_search_in(const struct pcn_sdf_packet *p, const struct pcn_sdf_list *l,
				   __u32 other, const int ipv6)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_SDF_FLOWS; i++) {
		__u64 differs;

		if (i >= l->count)
			break;
		differs = pcn_sdf_differs(p, &l->flow[i]);
		if (ipv6)
			differs |= pcn_sdf_differs_remote(p, &l->remote[i]);
		if (!differs)
			return l->value[i];
	}
	return other;
}

/* The value of the first flow that matches; the other one if none does. */
PCN_INLINE __u32 pcn_sdf_search(const struct pcn_sdf_packet *p, const struct pcn_sdf_list *l,
				__u32 other)
{
	return p->fields >> PCN_SDF_IPV6 & 1 ? pcn_sdf_search_in(p, l, other, 1)
					     : pcn_sdf_search_in(p, l, other, 0);
}

#endif
