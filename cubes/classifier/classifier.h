// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The service data flows of subscribers: up to 32 for each, by precedence. A flow is four words, which a packet is compared
 * with at once; the prefix of an IPv6 address is in four more. */
#ifndef CLASSIFIER_H
#define CLASSIFIER_H

#include <pcn/classify.h>

#define CLASSIFIER_FLOWS 32

/* The fields of a packet, as its subscriber sees them. */
struct classifier_packet {
	__u64 fields;	 /* enum classifier_field */
	__u64 ports;	 /* the remote port, and from bit 32 on the subscriber's */
	__u64 remote[2]; /* the IPv6 address of the other end, in host byte order */
};

/* Where the fields are. */
enum classifier_field {
	CLASSIFIER_REMOTE =
		0, /* the IPv4 address of the other end, in host byte order; 0 in IPv6 packets */
	CLASSIFIER_PROTOCOL = 32,
	CLASSIFIER_DSCP = 40,
	CLASSIFIER_QFI = 48,
	CLASSIFIER_IPV6 = 56,  /* a bit */
	CLASSIFIER_PORTS = 57, /* a bit: the packet has ports */
};

struct classifier_flow {
	__u64 fields; /* the packet's, in the bits of the mask */
	__u64 mask;
	__u64 first; /* the packet's ports are not below these */
	__u64 last;  /* and not above these */
};

/* The prefix of the IPv6 address of the other end. */
struct classifier_remote {
	__u64 is[2];
	__u64 mask[2];
};

struct classifier_list {
	struct classifier_flow flow[CLASSIFIER_FLOWS];
	struct classifier_remote remote[CLASSIFIER_FLOWS];
	__u32 class[CLASSIFIER_FLOWS];
	__u32 count;
	__u32 zero;
};

/* The key's fields, seen from the sender, or from the receiver. */
PCN_INLINE void classifier_fields(struct classifier_packet *p, const struct pcn_classify_key *key,
				  const int sender)
{
	__u64 link = key->word[PCN_CLASSIFY_LINK], ports = key->word[PCN_CLASSIFY_PORTS];
	__u64 remote = key->word[sender ? PCN_CLASSIFY_DST : PCN_CLASSIFY_SRC];
	__u64 source = ports >> 48, destination = ports >> 32 & 0xffff;

	p->fields = (link >> 8 & 0xff) << CLASSIFIER_PROTOCOL |
		    (ports >> 16 & 0xff) << CLASSIFIER_DSCP | (link >> 48 & 0xff) << CLASSIFIER_QFI;
	p->ports = sender ? destination | source << 32 : source | destination << 32;
	if (link & PCN_FLOW_PORTS)
		p->fields |= 1ULL << CLASSIFIER_PORTS;
	if (!(link & PCN_FLOW_IPV6)) {
		p->fields |= remote >> 32;
		return;
	}
	p->fields |= 1ULL << CLASSIFIER_IPV6;
	p->remote[0] = remote;
	p->remote[1] = key->word[sender ? PCN_CLASSIFY_DST_LOW : PCN_CLASSIFY_SRC_LOW];
}

/* Ports are compared two at a time: no difference of two of 16 bits takes the bit above from a half. */
#define CLASSIFIER_HALVES 0x8000000080000000

PCN_INLINE int classifier_matches(const struct classifier_packet *p,
				  const struct classifier_flow *f)
{
	__u64 below = (f->last | CLASSIFIER_HALVES) - p->ports;
	__u64 above = (p->ports | CLASSIFIER_HALVES) - f->first;

	return !(((p->fields ^ f->fields) & f->mask) | (~(above & below) & CLASSIFIER_HALVES));
}

PCN_INLINE int classifier_matches_remote(const struct classifier_packet *p,
					 const struct classifier_remote *r)
{
	return !(((p->remote[0] ^ r->is[0]) & r->mask[0]) |
		 ((p->remote[1] ^ r->is[1]) & r->mask[1]));
}

/* The class of the first flow that matches; the other one if none does. */
PCN_INLINE __u32 classifier_walk(const struct classifier_packet *p, const struct classifier_list *l,
				 __u32 other)
{
	const int ipv6 = p->fields >> CLASSIFIER_IPV6 & 1;

	for (__u32 i = 0; i < CLASSIFIER_FLOWS; i++) {
		if (i >= l->count)
			break;
		if (classifier_matches(p, &l->flow[i]) &&
		    (!ipv6 || classifier_matches_remote(p, &l->remote[i])))
			return l->class[i];
	}
	return other;
}

#endif
