// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Fragments: only the first one of a datagram has ports. It leaves what belongs to its flow in a map, under the key that
 * all fragments of the datagram have in common, where the program finds it for the others.
 *
 *	pcn_fragment_key_of(&key, &flow, 0);
 *	if (flow.fragment == PCN_FRAGMENT_FIRST)
 *		bpf_map_update_elem(&firsts, &key, &mine, BPF_ANY);
 *	else if (flow.fragment == PCN_FRAGMENT_LATER)
 *		first = bpf_map_lookup_elem(&firsts, &key); */
#ifndef PCN_FRAGMENT_H
#define PCN_FRAGMENT_H

#include <linux/tcp.h>
#include <pcn/flow.h>

/* How long an entry is valid: as long as the kernel waits for the rest of a datagram (ipfrag_time). */
#define PCN_FRAGMENT_NS 30000000000ULL

/* What the fragments of a datagram have in common (RFC 791, RFC 8200 4.5), in one zone. Fragments of IPv6 may have
 * different protocols, if the first one has extension headers after the fragment header. */
struct pcn_fragment_key {
	pcn_address source;
	pcn_address destination;
	__be32 id;
	__u16 zone;
	__u8 protocol;
	__u8 ipv6;
};

/* Writes the key of a fragment's datagram. */
PCN_INLINE void pcn_fragment_key_of(struct pcn_fragment_key *key, const struct pcn_flow *f,
				    __u16 zone)
{
	pcn_address_copy(key->source, f->source);
	pcn_address_copy(key->destination, f->destination);
	key->id = f->id;
	key->zone = zone;
	key->protocol = f->protocol;
	key->ipv6 = !!(f->has & PCN_FLOW_IPV6);
}

/* Returns where a later fragment begins in its datagram, in bytes, or -1 if it has no PCN_FLOW_L4 or its headers cannot
 * be read. */
PCN_INLINE int pcn_fragment_offset(struct CTXTYPE *ctx, const struct pcn_flow *f)
{
	__u32 ipv6 = f->has & PCN_FLOW_IPV6;
	__be16 offset;

	if (!(f->has & PCN_FLOW_L4) ||
	    pcn_load_bytes(ctx, ipv6 ? f->l4 - 6 : f->l3 + 6, &offset, sizeof(offset)))
		return -1;
	return ipv6 ? bpf_ntohs(offset) & 0xfff8 : (bpf_ntohs(offset) & 0x1fff) * 8;
}

/* Not 0 if a later fragment would overwrite the ports and flags of TCP that the first one has shown (RFC 1858, RFC
 * 3128). protocol is that of the first one. */
PCN_INLINE int pcn_fragment_overlaps(__u8 protocol, int offset)
{
	return protocol == IPPROTO_TCP && offset < (int)sizeof(struct tcphdr);
}

#endif
