// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Assigns a traffic class to packets, which the cubes behind it read from the metadata: the class of their subscriber, or that
 * of the first matching rule. */
#include <pcn/cube.h>
#include <pcn/classify.h>
#include <pcn/rule_counters.h>
#include <pcn/sdf.h>

enum classifier_reason {
	CLASSIFIER_TRUNCATED = PCN_REASON_FIRST, /* shorter than an Ethernet header */
};
PCN_REASONS(classifier_reason);

/* The values of the model's leaf `faces`, in order. */
enum classifier_faces { CLASSIFIER_SUBSCRIBERS, CLASSIFIER_NETWORK };

/* A QFI takes six bits of the metadata's tenant. */
#define CLASSIFIER_QFI_BITS 0x3f

/* The class and counter of a rule, from the control plane. */
struct classifier_rule {
	__u32 class;
	__u32 counter;
};

struct classifier_subscriber {
	__u32 class; /* of packets that match none of its flows */
	__u32 list;  /* the row of its flows; 0: it has none */
};

/* Rules by their result. */
PCN_MAP_FLAGS(rules, BPF_MAP_TYPE_HASH, __u32, struct classifier_rule, 1024, BPF_F_NO_PREALLOC);
/* Subscribers by their IPv4 address, and by the upper half of their IPv6 addresses, in host byte order. */
PCN_MAP_FLAGS(subscribers4, BPF_MAP_TYPE_HASH, __u32, struct classifier_subscriber, 1024,
	      BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(subscribers6, BPF_MAP_TYPE_HASH, __u64, struct classifier_subscriber, 1024,
	      BPF_F_NO_PREALLOC);
/* Lists of flows. Subscribers with equal flows share one; the first row is unused. */
PCN_MAP_FLAGS(lists, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_sdf_list, 2, BPF_F_MMAPABLE);

PCN_CONFIG(enum classifier_faces, faces) = CLASSIFIER_SUBSCRIBERS;
/* The default class, if one is set. */
PCN_CONFIG(__u32, has_default) = 0;
PCN_CONFIG(__u32, default_class) = 0;

/* Finds the subscriber of a packet: its sender, or its receiver. */
PCN_INLINE struct classifier_subscriber *classifier_find(struct pcn_classify_key *key,
							 const int sender)
{
	__u64 local = key->word[sender ? PCN_CLASSIFY_SRC : PCN_CLASSIFY_DST];

	if (key->word[PCN_CLASSIFY_LINK] & PCN_FLOW_IPV6)
		return bpf_map_lookup_elem(&subscribers6, &local);
	__u32 address = local >> 32;
	return bpf_map_lookup_elem(&subscribers4, &address);
}

/* pcn_sdf_of_flow from the key of a packet. */
PCN_INLINE void classifier_sdf(struct pcn_sdf_packet *p, const struct pcn_classify_key *key,
			       const int sender)
{
	__u64 link = key->word[PCN_CLASSIFY_LINK], ports = key->word[PCN_CLASSIFY_PORTS];
	__u64 remote = key->word[sender ? PCN_CLASSIFY_DST : PCN_CLASSIFY_SRC];
	__u64 source = ports >> 48, destination = ports >> 32 & 0xffff;

	p->fields = (link >> 8 & 0xff) << PCN_SDF_PROTOCOL | (ports >> 16 & 0xff) << PCN_SDF_DSCP |
		    (link >> 48 & 0xff) << PCN_SDF_QFI;
	p->ports = sender ? destination | source << 32 : source | destination << 32;
	if (link & PCN_FLOW_PORTS)
		p->fields |= 1ULL << PCN_SDF_PORTS;
	if (!(link & PCN_FLOW_IPV6)) {
		p->fields |= remote >> 32;
		return;
	}
	p->fields |= 1ULL << PCN_SDF_IPV6;
	p->remote[0] = remote;
	p->remote[1] = key->word[sender ? PCN_CLASSIFY_DST_LOW : PCN_CLASSIFY_SRC_LOW];
}

/* The class of a subscriber's packet. */
PCN_INLINE __u32 classifier_class(const struct classifier_subscriber *s,
				  const struct pcn_classify_key *key, const int sender)
{
	struct pcn_sdf_packet p = {};
	struct pcn_sdf_list *l;
	__u32 row = s->list;

	if (!row)
		return s->class;
	l = bpf_map_lookup_elem(&lists, &row);
	if (!l)
		return s->class;
	classifier_sdf(&p, key, sender);
	return pcn_sdf_search(&p, l, s->class);
}

/* Searches a set of rules for a packet that belongs to no subscriber. */
PCN_INLINE void classifier_search(struct pcn_md *md, struct pcn_classify_key *key, __u32 set)
{
	struct pcn_classify_match match;
	struct classifier_rule *rule;

	if (pcn_classify(key, &match, set)) {
		rule = bpf_map_lookup_elem(&rules, &match.result);
		if (rule) {
			md->traffic_class = rule->class;
			match.order = rule->counter;
			pcn_count_rule(&match.order, md->packet_len);
			return;
		}
	}
	if (has_default)
		md->traffic_class = default_class;
}

PCN_INLINE int classifier_classify(struct CTXTYPE *ctx, struct pcn_md *md, const int egress)
{
	struct pcn_classify_key *key = pcn_classify_key();
	struct classifier_subscriber *s = NULL;
	__u32 set = pcn_classify_set(md, egress);
	const int sender = egress == (faces == CLASSIFIER_NETWORK);

	if (!key || pcn_classify_read(ctx, key, pcn_classify_fields(set) | PCN_CLASSIFY_READ_IP,
				      md->tenant & CLASSIFIER_QFI_BITS, md->traffic_class))
		return pcn_pkt_drop(ctx, md, CLASSIFIER_TRUNCATED);
	if (key->word[PCN_CLASSIFY_LINK] & PCN_FLOW_IP)
		s = classifier_find(key, sender);
	if (s)
		md->traffic_class = classifier_class(s, key, sender);
	else
		classifier_search(md, key, set);
	return pcn_pkt_pass(ctx, md);
}

PCN_INGRESS
{
	return classifier_classify(ctx, md, 0);
}

PCN_EGRESS
{
	return classifier_classify(ctx, md, 1);
}

PCN_LICENSE;
