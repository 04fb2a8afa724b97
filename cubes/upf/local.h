// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The local end of tunnels: its addresses, in network instances that have TEIDs of their own. */
#ifndef UPF_LOCAL_H
#define UPF_LOCAL_H

#include "upf.h"

/* Maximum number of network instances. */
#define UPF_INSTANCES 8

/* The network instances, and at the same index the local addresses that tunnels of each come from. */
struct upf_locals {
	__u32 instance[UPF_INSTANCES];
	pcn_address address[UPF_INSTANCES][2]; /* IPv4, IPv6 */
	__u32 count;			       /* of network instances */
};

PCN_CONFIG(struct upf_locals, locals) = { .count = UPF_INSTANCES };

/* The network instance of a local address other than the first one; -1: the address is not a local one. The verifier processes it
 * once. */
PCN_GLOBAL int upf_other_instance(const struct pcn_flow *flow PCN_NONNULL)
{
	pcn_address address;
	const __u32 *instance;

	for (__u32 i = 1; i < UPF_INSTANCES && i < locals.count; i++)
		if (!(flow->has & PCN_FLOW_IPV6) && flow->destination[3] == locals.address[i][0][3])
			return locals.instance[i];
	pcn_address_copy(address, flow->destination);
	instance = bpf_map_lookup_elem(&addresses, address);
	return instance ? (int)*instance : -1;
}

/* Whether a packet is addressed to the local end of tunnels, and to which network instance. */
PCN_INLINE int upf_is_for_us(const struct pcn_flow *flow, __u32 *instance)
{
	int other;

	if (flow->protocol != IPPROTO_UDP || flow->destination_port != bpf_htons(PCN_GTPU_PORT))
		return 0;
	if (!(flow->has & PCN_FLOW_IPV6) && flow->destination[3] == locals.address[0][0][3]) {
		*instance = locals.instance[0];
		return 1;
	}
	other = upf_other_instance(flow);
	*instance = other;
	return other >= 0;
}

/* The tunnel with a TEID in a network instance. */
PCN_INLINE const struct upf_tunnel *upf_tunnel(__u32 teid, __u32 instance)
{
	struct pcn_gtpu_end_tunnel key = { .teid = teid, .instance = instance };
	const struct upf_tunnel *t;

	if (instance)
		return bpf_map_lookup_elem(&named_tunnels, &key);
	t = bpf_map_lookup_elem(&tunnels, &teid);
	asm volatile("" : "+r"(t)); /* the verifier cannot follow a call for either map */
	return t;
}

/* upf_local_address for a network instance other than the first one. The verifier processes it once. */
PCN_GLOBAL int upf_other_address(struct pcn_encap *outer PCN_NONNULL, __u32 instance)
{
	for (__u32 i = 1; i < UPF_INSTANCES && i < locals.count; i++)
		if (instance == locals.instance[i]) {
			for (int word = 0; word < 4; word++)
				outer->source[word] = locals.address[i][outer->ipv6 & 1][word];
			return 0;
		}
	return -1;
}

/* Writes the local address of the tunnel that packets of a rule enter, of the family of outer->ipv6. -1: its network instance is
 * gone. */
PCN_INLINE int upf_local_address(struct pcn_encap *outer, const struct upf_rule *r)
{
	__u32 instance = r->index >> 16;

	if (!locals.count || instance != locals.instance[0])
		return upf_other_address(outer, instance);
	for (int word = 0; word < 4; word++)
		outer->source[word] = r->flags & UPF_IPV6 ? locals.address[0][1][word]
							  : locals.address[0][0][word];
	return 0;
}

#endif
