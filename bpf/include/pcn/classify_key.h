// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The packet fields that rules match, in words that are compared as a whole. <pcn/flow.h> reads the
 * packet. Include <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_KEY_H
#define PCN_CLASSIFY_KEY_H

#include <linux/tcp.h>
#include <pcn/config.h>
#include <pcn/flow.h>
#include <pcn/map.h>
#include <pcn/md.h>

/* The fields that rules match, as words in host byte order; Go package classifier knows the layout.
 * Most rules only match words up to PCN_CLASSIFY_PORTS. */
enum pcn_classify_word {
	PCN_CLASSIFY_LINK, /* in_port:16 vlan:16 ethertype:16 protocol:8 enum pcn_flow_has:8 */
	PCN_CLASSIFY_SRC, /* IPv4 address in the upper half, or the upper half of an IPv6 address */
	PCN_CLASSIFY_DST,
	PCN_CLASSIFY_PORTS,   /* source port:16 destination port:16 TCP flags:8 dscp:8 state:8 0:8;
			     * of ICMP 0:16 type:8 code:8 in place of the ports */
	PCN_CLASSIFY_SRC_LOW, /* lower half of an IPv6 address */
	PCN_CLASSIFY_DST_LOW,
	PCN_CLASSIFY_SRC_MAC, /* the first byte is the most significant of the 48 bits */
	PCN_CLASSIFY_DST_MAC,
	PCN_CLASSIFY_MARK, /* bits of sets of addresses:32, written by the search; traffic class from the metadata:32 */
	PCN_CLASSIFY_WORDS,
};

/* Which headers a packet has, and so which rules can match it: enum pcn_flow_has, and this. */
#define PCN_CLASSIFY_FRAGMENT 1 /* a fragment, the first or a later one */

struct pcn_classify_key {
	__u64 word[PCN_CLASSIFY_WORDS];
	/* Internal: of the search, which has no room for them on the stack: which rules of a group may match, and
	 * which groups of a sequence. */
	__u64 left[4];
	__u64 groups[4];
	__u64 trees; /* internal: how many the set has */
	__u64 from;  /* rules with a lower order do not match; see pcn_classify_after */
};

/* Internal: a key for each CPU. A change of the layout takes another name: its entries are not worth a
 * conversion, and one in use by the programs of the daemon before cannot have another size. */
PCN_MAP_SHARED(classify, classify_keys, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_classify_key,
	       1);

/* Returns memory for the key of a packet, which stays as it is until the packet leaves the cube: on the
 * stack of Linux 6.1, a search leaves no room for a key. NULL only as far as the verifier knows. */
PCN_INLINE struct pcn_classify_key *pcn_classify_key(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&classify_keys, &only);
}

/* Headers that rules match. EtherType and VLAN are always read, other headers only if a rule matches them. */
enum pcn_classify_fields {
	PCN_CLASSIFY_READ_MAC = 1,
	PCN_CLASSIFY_READ_IP = 2, /* IP and what follows */
};

/* Internal: writes the fields of a flow. */
PCN_INLINE void pcn_classify_flow(struct pcn_classify_key *key, const struct pcn_flow *f)
{
	__u64 has = f->has;
	__u64 ports = (__u64)bpf_ntohs(f->source_port) << 16 | bpf_ntohs(f->destination_port);

	key->word[PCN_CLASSIFY_LINK] |=
		(__u64)f->vlan << 32 | (__u64)bpf_ntohs(f->ethertype) << 16 |
		(__u64)f->protocol << 8 | has | (f->fragment ? PCN_CLASSIFY_FRAGMENT : 0);
	if (has & PCN_FLOW_IPV6) {
		const __u64 *source = (const void *)f->source;
		const __u64 *destination = (const void *)f->destination;

		key->word[PCN_CLASSIFY_SRC] = bpf_be64_to_cpu(source[0]);
		key->word[PCN_CLASSIFY_SRC_LOW] = bpf_be64_to_cpu(source[1]);
		key->word[PCN_CLASSIFY_DST] = bpf_be64_to_cpu(destination[0]);
		key->word[PCN_CLASSIFY_DST_LOW] = bpf_be64_to_cpu(destination[1]);
	} else {
		key->word[PCN_CLASSIFY_SRC] = (__u64)bpf_ntohl(f->source[3]) << 32;
		key->word[PCN_CLASSIFY_SRC_LOW] = 0;
		key->word[PCN_CLASSIFY_DST] = (__u64)bpf_ntohl(f->destination[3]) << 32;
		key->word[PCN_CLASSIFY_DST_LOW] = 0;
	}
	if (has & PCN_FLOW_ICMP)
		ports = f->icmp_type << 8 | f->icmp_code;
	key->word[PCN_CLASSIFY_PORTS] =
		ports << 32 | (__u64)f->tcp_flags << 24 | (__u64)f->dscp << 16;
}

/* Internal: writes the key of the most frequent kind of packet, which needs no struct pcn_flow: TCP or UDP over IPv4, whole,
 * without tags or options, all of whose headers can be read directly. 0 if it is another one. What it writes is what
 * pcn_classify_flow would. */
PCN_INLINE int pcn_classify_quick(struct CTXTYPE *ctx, struct pcn_classify_key *key)
{
	struct ethhdr *eth = pcn_data(ctx);
	struct iphdr *ip = (void *)(eth + 1);
	struct tcphdr *tcp = (void *)(ip + 1);

	if ((void *)(tcp + 1) > pcn_data_end(ctx))
		return 0;
#ifdef PCN_TC
	if (ctx->vlan_present)
		return 0;
#endif
	__u64 protocol = ip->protocol, udp = !!(protocol ^ IPPROTO_TCP);
	/* One branch for all that it must be. */
	if ((__u64)(eth->h_proto ^ bpf_htons(ETH_P_IP)) | (*(__u8 *)ip ^ 0x45) |
	    (ip->frag_off & bpf_htons(0x3fff)) | (protocol ^ (udp ? IPPROTO_UDP : IPPROTO_TCP)) |
	    (__u64)(bpf_ntohs(ip->tot_len) - sizeof(*ip)) >> 63)
		return 0;
	key->word[PCN_CLASSIFY_LINK] |= (__u64)PCN_FLOW_UNTAGGED << 32 | (__u64)ETH_P_IP << 16 |
					protocol << 8 | PCN_FLOW_IP | PCN_FLOW_L4 | PCN_FLOW_PORTS |
					(udp ? 0 : PCN_FLOW_TCP);
	key->word[PCN_CLASSIFY_SRC] = (__u64)bpf_ntohl(ip->saddr) << 32;
	key->word[PCN_CLASSIFY_SRC_LOW] = 0;
	key->word[PCN_CLASSIFY_DST] = (__u64)bpf_ntohl(ip->daddr) << 32;
	key->word[PCN_CLASSIFY_DST_LOW] = 0;
	key->word[PCN_CLASSIFY_PORTS] = (__u64)bpf_ntohl(*(__be32 *)tcp) << 32 |
					(__u64)(udp ? 0 : ((__u8 *)tcp)[13]) << 24 |
					(__u64)(ip->tos >> 2) << 16;
	return 1;
}

/* Internal: begins a key. */
PCN_INLINE void pcn_classify_key_begin(struct pcn_classify_key *key, __u32 in_port,
				       __u32 traffic_class)
{
	key->word[PCN_CLASSIFY_LINK] = (__u64)in_port << 48;
	key->word[PCN_CLASSIFY_SRC_MAC] = 0;
	key->word[PCN_CLASSIFY_DST_MAC] = 0;
	key->word[PCN_CLASSIFY_MARK] = traffic_class;
	key->from = 0;
}

/* Internal: ends a key, with MAC addresses if rules match any. -1 if there is no Ethernet header. */
PCN_INLINE int pcn_classify_key_end(struct CTXTYPE *ctx, struct pcn_classify_key *key, __u32 fields)
{
	struct ethhdr *eth;

	if (!(fields & PCN_CLASSIFY_READ_MAC))
		return 0;
	eth = pcn_data(ctx);
	if ((void *)(eth + 1) > pcn_data_end(ctx))
		return -1;
	key->word[PCN_CLASSIFY_SRC_MAC] = bpf_cpu_to_be64(pcn_mac(eth->h_source)) >> 16;
	key->word[PCN_CLASSIFY_DST_MAC] = bpf_cpu_to_be64(pcn_mac(eth->h_dest)) >> 16;
	return 0;
}

/* Writes the key of a packet from its flow, which pcn_flow_read has read: for a cube that needs the flow, too.
 * Otherwise like pcn_classify_read. */
PCN_INLINE int pcn_classify_key_of(struct CTXTYPE *ctx, struct pcn_classify_key *key,
				   const struct pcn_flow *flow, __u32 fields, __u32 in_port,
				   __u32 traffic_class)
{
	pcn_classify_key_begin(key, in_port, traffic_class);
	pcn_classify_flow(key, flow);
	return pcn_classify_key_end(ctx, key, fields);
}

/* Internal: pcn_classify_read, inline. */
PCN_INLINE int pcn_classify_fill(struct CTXTYPE *ctx, struct pcn_classify_key *key, __u32 fields,
				 __u32 in_port, __u32 traffic_class)
{
	struct pcn_flow flow;

	pcn_classify_key_begin(key, in_port, traffic_class);
	if (!pcn_classify_quick(ctx, key)) {
		__builtin_memset(&flow, 0, sizeof(flow));
		if (pcn_flow_read_mode(ctx, &flow,
				       fields & PCN_CLASSIFY_READ_IP ? 0 : PCN_FLOW_LINK))
			return -1;
		pcn_classify_flow(key, &flow);
	}
	return pcn_classify_key_end(ctx, key, fields);
}

/* Writes what a cube with connection tracking says of the packet: the byte that rules match by
 * classifier.Match.State. Each bit means what the cube wants it to. */
PCN_INLINE void pcn_classify_state(struct pcn_classify_key *key, __u8 state)
{
	key->word[PCN_CLASSIFY_PORTS] |= (__u64)state << 8;
}

/* Reads a packet that arrived on a port, with a traffic class from the metadata. Returns -1 if its
 * Ethernet header or a tag is incomplete. A packet with a malformed IP header does not count as IP;
 * one without ports (a later fragment, ICMP, a truncated header) matches no rule that specifies
 * ports. */
PCN_GLOBAL int pcn_classify_read(struct CTXTYPE *ctx, struct pcn_classify_key *key PCN_NONNULL,
				 __u32 fields, __u32 in_port, __u32 traffic_class)
{
	return pcn_classify_fill(ctx, key, fields, in_port, traffic_class);
}

#endif
