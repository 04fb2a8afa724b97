// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The rule that a packet matches first, among any number of rules over fields of its headers. Go
 * package `classifier` compiles rules to search trees, and puts these into the maps that
 * PCN_CLASSIFIER declares; what is here reads a packet's fields and walks the trees.
 *
 *	PCN_CLASSIFIER(rules);
 *	...
 *	struct pcn_classify_key key;
 *	struct pcn_classify_match match;
 *
 *	if (pcn_classify_read(ctx, md, &key, rules_fields))
 *		return pcn_pkt_drop(ctx, md, X_TRUNCATED);
 *	if (!pcn_classify_rules(&key, &match))
 *		return pcn_pkt_drop(ctx, md, X_NO_RULE);
 *	... match.result is what the control plane gave to the rule ... */
#ifndef PCN_CLASSIFY_H
#define PCN_CLASSIFY_H

#include <pcn/config.h>
#include <pcn/ip.h>
#include <pcn/map.h>
#include <pcn/md.h>
#include <pcn/vlan.h>

/* What rules look at, as words in host byte order; Go package classifier knows the places. Words
 * up to PCN_CLASSIFY_PORTS are those that most rules look at. */
enum pcn_classify_word {
	PCN_CLASSIFY_LINK, /* in_port:16 vlan:16 ethertype:16 protocol:8 enum pcn_classify_kind:8 */
	PCN_CLASSIFY_SRC,  /* IPv4 address in the upper half, or the upper half of one of IPv6 */
	PCN_CLASSIFY_DST,
	PCN_CLASSIFY_PORTS, /* source port:16 destination port:16 TCP flags:8 dscp:8 state:8 0:8 */
	PCN_CLASSIFY_SRC_LOW, /* lower half of an IPv6 address */
	PCN_CLASSIFY_DST_LOW,
	PCN_CLASSIFY_SRC_MAC, /* first byte in the uppermost of 48 bits */
	PCN_CLASSIFY_DST_MAC,
	PCN_CLASSIFY_MARK, /* traffic class of the metadata */
	PCN_CLASSIFY_WORDS,
};

/* What there is in a packet, and so what a rule can be about. */
enum pcn_classify_kind {
	PCN_CLASSIFY_IPV6 = 0x80,      /* an IP header that is whole, of IPv6 */
	PCN_CLASSIFY_IP = 0x40,	       /* an IP header that is whole */
	PCN_CLASSIFY_PROTOCOL = 0x20,  /* the protocol behind it, and its extensions, is known */
	PCN_CLASSIFY_HAS_PORTS = 0x10, /* a header with ports, which no later fragment has */
	PCN_CLASSIFY_FRAGMENT = 0x08,  /* a fragment, the first or a later one */
};

/* The vlan of an untagged packet. */
#define PCN_CLASSIFY_UNTAGGED 0xffff

struct pcn_classify_key {
	__u64 word[PCN_CLASSIFY_WORDS];
};

/* What PCN_CLASSIFIER's NAME_fields says that rules look at: the rest is not read. */
enum pcn_classify_fields {
	PCN_CLASSIFY_READ_VLAN = 1,
	PCN_CLASSIFY_READ_MAC = 2,
	PCN_CLASSIFY_READ_IP = 4,
	PCN_CLASSIFY_READ_PORTS = 8,
	PCN_CLASSIFY_READ_TCP = 16,
};

/* The rule that matched. */
struct pcn_classify_match {
	__u32 result; /* what the control plane gave to the rule */
	__u32 order;  /* its place among the rules */
};

#define PCN_CLASSIFY_BRANCHES 8
#define PCN_CLASSIFY_LEAF 14
#define PCN_CLASSIFY_TREES 7
#define PCN_CLASSIFY_DEPTH 12
/* In the reference to a rule: it looks at more than the first four words. */
#define PCN_CLASSIFY_LONG 0x80000000

/* Internal: all of a set of rules is blocks of a cache line each. A branch: a field of the key, as
 * two shifts that cut it out of its word, leads to one of the blocks from `first` on: the i-th if
 * i of the values are less than the field. */
struct pcn_classify_branch {
	__u32 first;
	__u8 word; /* of the key; PCN_CLASSIFY_WORDS: this is a leaf */
	__u8 left;
	__u8 right;
	__u8 zero;
	__u64 value[PCN_CLASSIFY_BRANCHES - 1];
};

/* Internal: a leaf has rules in their order; more of them are in the block `next`. */
struct pcn_classify_leaf {
	__u32 next;
	__u8 word;
	__u8 count;
	__u16 zero;
	__u32 rule[PCN_CLASSIFY_LEAF];
};

/* Internal: a rule is a value and a mask of each word, but for ports, which are first one and
 * number of those that follow. Behind one that is LONG there are two struct pcn_classify_more. */
struct pcn_classify_rule {
	__u64 value[3];
	__u64 mask[3];
	__u16 source, sources;
	__u16 destination, destinations;
	__u32 order;
	__u32 result;
};

/* Internal: value and mask of three further words: what follows the ports, and the words behind. */
struct pcn_classify_more {
	__u64 value[3];
	__u64 mask[3];
	__u64 zero[2];
};

/* Internal: the trees of a set, by the best place that a rule in them has. */
struct pcn_classify_forest {
	__u32 count;
	__u32 none; /* a place behind those of all rules */
	struct {
		__u32 root;
		__u32 order;
	} tree[PCN_CLASSIFY_TREES];
};

/* Internal: block 0 says where the forest is; 0: there are no rules. */
struct pcn_classify_head {
	__u32 forest;
	__u32 zero[15];
};

struct pcn_classify_block {
	union {
		struct pcn_classify_head head;
		struct pcn_classify_forest forest;
		struct pcn_classify_branch branch;
		struct pcn_classify_leaf leaf;
		struct pcn_classify_rule rule;
		struct pcn_classify_more more;
	};
};

_Static_assert(sizeof(struct pcn_classify_block) == 64, "a block is a cache line");

/* Internal: a block for the declaration of a map: of a struct that is named there alone, clang
 * writes no size. */
typedef __u64 pcn_classify_bytes[8];

/* Internal: a block of a set. */
PCN_INLINE struct pcn_classify_block *pcn_classify_at(void *set, __u32 at)
{
	return bpf_map_lookup_elem(set, &at);
}

/* Internal: a number that the verifier does not know. It would follow each for itself. */
PCN_INLINE __u64 pcn_classify_any(__u64 value, __u64 unknown)
{
	asm volatile("%0 ^= %1; %0 ^= %1" : "+r"(value) : "r"(unknown));
	return value;
}

/* Internal: the branch for a key. */
PCN_INLINE __u32 pcn_classify_next(const struct pcn_classify_branch *branch,
				   const struct pcn_classify_key *key, __u64 word)
{
	/* Less than 2^63, so the sign of a difference tells which is less. */
	__u64 field = key->word[word] << (branch->left & 63) >> (branch->right & 63);
	__u32 at = branch->first;

#pragma unroll
	for (int i = 0; i < PCN_CLASSIFY_BRANCHES - 1; i++)
		at += (branch->value[i] - field) >> 63;
	return at;
}

/* Internal: the leaf of a tree that has what the key can match. */
PCN_INLINE struct pcn_classify_leaf *
pcn_classify_descend(void *set, const struct pcn_classify_key *key, __u32 *at)
{
#pragma clang loop unroll(disable)
	for (int depth = 0; depth <= PCN_CLASSIFY_DEPTH; depth++) {
		struct pcn_classify_block *block = pcn_classify_at(set, *at);

		if (!block)
			return NULL;
		__u64 word = block->branch.word;
		if (word >= PCN_CLASSIFY_WORDS)
			return &block->leaf;
		*at = pcn_classify_next(&block->branch, key, word);
	}
	return NULL;
}

/* Internal: 0 if further words of a key are those of a rule. */
PCN_INLINE __u64 pcn_classify_more_differs(void *set, const struct pcn_classify_key *key, __u32 at)
{
	struct pcn_classify_block *a = pcn_classify_at(set, at);
	struct pcn_classify_block *b = pcn_classify_at(set, at + 1);

	if (!a || !b)
		return 1;
	const struct pcn_classify_more *m = &a->more, *n = &b->more;
	return ((key->word[PCN_CLASSIFY_PORTS] & m->mask[0]) ^ m->value[0]) |
	       ((key->word[PCN_CLASSIFY_SRC_LOW] & m->mask[1]) ^ m->value[1]) |
	       ((key->word[PCN_CLASSIFY_DST_LOW] & m->mask[2]) ^ m->value[2]) |
	       ((key->word[PCN_CLASSIFY_SRC_MAC] & n->mask[0]) ^ n->value[0]) |
	       ((key->word[PCN_CLASSIFY_DST_MAC] & n->mask[1]) ^ n->value[1]) |
	       ((key->word[PCN_CLASSIFY_MARK] & n->mask[2]) ^ n->value[2]);
}

/* Internal: the rule, if the key is what it says. One branch: which part differs is as good as
 * random, and each branch would double the verifier's work for each rule. */
PCN_INLINE struct pcn_classify_rule *pcn_classify_try(void *set, const struct pcn_classify_key *key,
						      __u32 reference)
{
	__u32 at = reference & ~PCN_CLASSIFY_LONG;
	struct pcn_classify_block *block = pcn_classify_at(set, at);

	if (!block)
		return NULL;
	struct pcn_classify_rule *rule = &block->rule;
	__u64 ports = key->word[PCN_CLASSIFY_PORTS];
	__u64 source = (__u16)((ports >> 48) - rule->source);
	__u64 destination = (__u16)((ports >> 32) - rule->destination);
	__u64 differs = ((key->word[PCN_CLASSIFY_LINK] & rule->mask[0]) ^ rule->value[0]) |
			((key->word[PCN_CLASSIFY_SRC] & rule->mask[1]) ^ rule->value[1]) |
			((key->word[PCN_CLASSIFY_DST] & rule->mask[2]) ^ rule->value[2]) |
			(rule->sources - source) >> 63 | (rule->destinations - destination) >> 63;

	if (!differs && reference & PCN_CLASSIFY_LONG)
		differs = pcn_classify_more_differs(set, key, at + 1);
	return differs ? NULL : rule;
}

/* Internal: makes a rule the match if it comes before the one so far. */
PCN_INLINE void pcn_classify_found(struct pcn_classify_match *match,
				   const struct pcn_classify_rule *rule)
{
	if (rule->order >= match->order)
		return;
	match->order = rule->order;
	match->result = rule->result;
}

/* Internal: what is searched without calls: trees, and rules of a leaf. Most sets have no more, and
 * each takes the verifier some hundred instructions. */
#define PCN_CLASSIFY_FAST_TREES 3
#define PCN_CLASSIFY_FAST_RULES 8

/* Internal: the first rules of a leaf; false if there are more of them and none matched. */
PCN_INLINE int pcn_classify_scan(void *set, const struct pcn_classify_key *key,
				 const struct pcn_classify_leaf *leaf,
				 struct pcn_classify_match *match)
{
	__u32 count = leaf->count;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_FAST_RULES; i++) {
		if (i >= count)
			return 1;
		struct pcn_classify_rule *rule = pcn_classify_try(set, key, leaf->rule[i]);
		if (rule) {
			pcn_classify_found(match, rule);
			return 1;
		}
	}
	return count <= PCN_CLASSIFY_FAST_RULES;
}

/* Internal: what is left of a search, and how far that has come. */
struct pcn_classify_walk {
	void *set;
	const struct pcn_classify_key *key;
	struct pcn_classify_match *match;
	__u32 tree;
	__u32 rule;
	__u32 at;
	__u32 zero;
	__u32 next[8]; /* by tree: the block that is left of it, 0: none */
};

/* Internal: bpf_loop's turn: the next tree, a branch, the next block of a leaf, or a rule. The
 * verifier goes through this for each way in, so a turn does as little as possible. */
static long pcn_classify_turn(__u64 turn, struct pcn_classify_walk *walk)
{
	__u64 tree = pcn_classify_any(walk->tree, turn), i = pcn_classify_any(walk->rule, turn);

	if (!walk->at) {
		if (tree >= PCN_CLASSIFY_TREES)
			return 1;
		walk->tree = tree + 1;
		walk->at = walk->next[tree];
		return 0;
	}
	struct pcn_classify_block *block = pcn_classify_at(walk->set, walk->at);
	if (!block)
		return 1;
	__u64 word = block->branch.word;
	if (word < PCN_CLASSIFY_WORDS) {
		walk->at = pcn_classify_next(&block->branch, walk->key, word);
		return 0;
	}
	if (i >= PCN_CLASSIFY_LEAF || i >= block->leaf.count) {
		walk->at = block->leaf.next;
		walk->rule = 0;
		return 0;
	}
	walk->rule = i + 1;
	struct pcn_classify_rule *rule =
		pcn_classify_try(walk->set, walk->key, block->leaf.rule[i]);
	if (!rule)
		return 0;
	walk->at = 0;
	walk->rule = 0;
	pcn_classify_found(walk->match, rule);
	return 0;
}

/* Internal: searches what is left. */
PCN_INLINE int pcn_classify_go_on(struct pcn_classify_walk *walk)
{
	return bpf_loop(1 << 23, pcn_classify_turn, walk, 0);
}

/* Internal: pcn_classify in a set. */
PCN_INLINE int pcn_classify_search(void *set, const struct pcn_classify_key *key,
				   struct pcn_classify_match *match)
{
	struct pcn_classify_block *head = pcn_classify_at(set, 0);
	struct pcn_classify_block *block = head ? pcn_classify_at(set, head->head.forest) : NULL;

	if (!block || !head->head.forest)
		return 0;
	struct pcn_classify_walk walk = { .set = set, .key = key, .match = match };
	struct pcn_classify_forest *forest = &block->forest;
	__u32 count = forest->count, none = forest->none, left = 0;

	match->order = none;
	match->result = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_FAST_TREES; i++) {
		if (i >= count || forest->tree[i].order > match->order)
			break;
		__u32 at = forest->tree[i].root;
		struct pcn_classify_leaf *leaf = pcn_classify_descend(set, key, &at);
		if (!leaf)
			break;
		__u64 done = pcn_classify_any(pcn_classify_scan(set, key, leaf, match), at);
		walk.next[i] = at & (done - 1);
		left |= walk.next[i];
	}
	if (!left && (count <= PCN_CLASSIFY_FAST_TREES ||
		      forest->tree[PCN_CLASSIFY_FAST_TREES].order > match->order))
		return match->order != none;
#pragma unroll
	for (int i = PCN_CLASSIFY_FAST_TREES; i < PCN_CLASSIFY_TREES; i++)
		walk.next[i] = forest->tree[i].root;
	pcn_classify_go_on(&walk);
	return match->order != none;
}

/* PCN_CLASSIFIER(rules); declares what a set of rules is in: maps of three sizes, of which the
 * constant NAME_size tells the one in use and NAME_slot where in it, and the constant NAME_fields.
 * The control plane has classifier.New(env, "rules"). It is searched by
 *
 *	int pcn_classify_rules(const struct pcn_classify_key *key, struct pcn_classify_match *match)
 *
 * which is 1 and the rule that is first among those that match, or 0. It is a function for itself,
 * as the verifier then looks at it once and not for all that may be known about a packet. */
#define PCN_CLASSIFIER(name)                                              \
	PCN_CONFIG(__u32, name##_size) = 0;                               \
	PCN_CONFIG(__u32, name##_slot) = 0;                               \
	PCN_CONFIG(__u32, name##_fields) = 0;                             \
	PCN_CLASSIFY_MAP(name##_small, 1 << 10);                          \
	PCN_CLASSIFY_MAP(name##_medium, 1 << 14);                         \
	PCN_CLASSIFY_MAP(name##_large, 1 << 18);                          \
	__attribute__((noinline)) int pcn_classify_##name(                \
		const struct pcn_classify_key *key PCN_NONNULL,           \
		struct pcn_classify_match *match PCN_NONNULL)             \
	{                                                                 \
		__u32 slot = name##_slot;                                 \
		void *set;                                                \
		if (name##_size == 0)                                     \
			set = bpf_map_lookup_elem(&name##_small, &slot);  \
		else if (name##_size == 1)                                \
			set = bpf_map_lookup_elem(&name##_medium, &slot); \
		else                                                      \
			set = bpf_map_lookup_elem(&name##_large, &slot);  \
		return set && pcn_classify_search(set, key, match);       \
	}                                                                 \
	_Static_assert(1, "")

/* Internal: two slots, so that programs with new constants begin with a set of their own. */
#define PCN_CLASSIFY_MAP(name, blocks)                                                         \
	PCN_MAP_OF_MAPS(name, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, 2, BPF_MAP_TYPE_ARRAY, __u32, \
			pcn_classify_bytes, blocks, BPF_F_MMAPABLE)

/* Internal: what is behind an IP header. At TC what is not in the first bytes is pulled there. */
PCN_INLINE void pcn_classify_transport(struct pcn_cursor *c, struct pcn_classify_key *key,
				       __u32 fields, __u8 protocol, __u8 fragment)
{
	__u64 *link = &key->word[PCN_CLASSIFY_LINK];

	*link |= (__u64)protocol << 8 | PCN_CLASSIFY_PROTOCOL;
	if (fragment)
		*link |= PCN_CLASSIFY_FRAGMENT;
	if (!(fields & PCN_CLASSIFY_READ_PORTS) || fragment == PCN_FRAGMENT_LATER ||
	    !pcn_has_ports(protocol))
		return;
	void *header = c->pos;
	struct pcn_ports *ports = pcn_parse_ports(c);
	if (!ports)
		return;
	*link |= PCN_CLASSIFY_HAS_PORTS;
	key->word[PCN_CLASSIFY_PORTS] |=
		(__u64)bpf_ntohs(ports->source) << 48 | (__u64)bpf_ntohs(ports->destination) << 32;
	if (fields & PCN_CLASSIFY_READ_TCP && protocol == IPPROTO_TCP && header + 14 <= c->end)
		key->word[PCN_CLASSIFY_PORTS] |= (__u64)((__u8 *)header)[13] << 24;
}

/* Internal: the fields of an IPv4 packet. */
PCN_INLINE void pcn_classify_ipv4(struct pcn_cursor *c, struct pcn_classify_key *key, __u32 fields)
{
	struct iphdr *ip = pcn_parse_ipv4(c);

	if (!ip)
		return;
	key->word[PCN_CLASSIFY_LINK] |= PCN_CLASSIFY_IP;
	key->word[PCN_CLASSIFY_SRC] = (__u64)bpf_ntohl(ip->saddr) << 32;
	key->word[PCN_CLASSIFY_DST] = (__u64)bpf_ntohl(ip->daddr) << 32;
	key->word[PCN_CLASSIFY_PORTS] = (__u64)(ip->tos >> 2) << 16;
	__u8 protocol = ip->protocol, fragment = pcn_ipv4_fragment(ip);
	if (pcn_skip_ipv4_options(c, ip))
		fields = 0; /* there is no header behind it */
	pcn_classify_transport(c, key, fields, protocol, fragment);
}

/* Internal: the fields of an IPv6 packet, whose header is `at` bytes from the frame's beginning. */
PCN_NOINLINE int pcn_classify_ipv6(struct CTXTYPE *ctx, struct pcn_classify_key *key, __u32 at,
				   __u32 fields)
{
	struct pcn_cursor cursor = { pcn_data(ctx) + (at & 31), pcn_data_end(ctx) }, *c = &cursor;
	struct ipv6hdr *ip = pcn_parse_ipv6(c);
	struct pcn_ipv6_payload found = {};

	if (!ip)
		return 0;
	const __be32 *src = ip->saddr.in6_u.u6_addr32, *dst = ip->daddr.in6_u.u6_addr32;
	key->word[PCN_CLASSIFY_LINK] |= PCN_CLASSIFY_IP | PCN_CLASSIFY_IPV6;
	key->word[PCN_CLASSIFY_SRC] = (__u64)bpf_ntohl(src[0]) << 32 | bpf_ntohl(src[1]);
	key->word[PCN_CLASSIFY_SRC_LOW] = (__u64)bpf_ntohl(src[2]) << 32 | bpf_ntohl(src[3]);
	key->word[PCN_CLASSIFY_DST] = (__u64)bpf_ntohl(dst[0]) << 32 | bpf_ntohl(dst[1]);
	key->word[PCN_CLASSIFY_DST_LOW] = (__u64)bpf_ntohl(dst[2]) << 32 | bpf_ntohl(dst[3]);
	key->word[PCN_CLASSIFY_PORTS] = (__u64)((ip->priority << 4 | ip->flow_lbl[0] >> 4) >> 2)
					<< 16;
	if (pcn_has_ports(ip->nexthdr) || ip->nexthdr == IPPROTO_ICMPV6)
		found.protocol = ip->nexthdr; /* most packets have no extension headers */
	else if (pcn_skip_ipv6_extensions(c, ip->nexthdr, &found))
		return 0;
	pcn_classify_transport(c, key, fields, found.protocol, found.fragment);
	return 0;
}

/* Internal: bytes that are made readable at TC: two tags, IPv6 with extensions, TCP up to flags. */
#define PCN_CLASSIFY_BYTES (14 + 8 + 40 + 64 + 14)

/* Internal: opens a cursor. At TC headers may lie outside of what can be read directly. */
PCN_INLINE void pcn_classify_open(struct pcn_cursor *c, struct CTXTYPE *ctx, __u32 fields)
{
#ifdef PCN_TC
	__u32 there = pcn_data_end(ctx) - pcn_data(ctx), all = ctx->len;

	if (fields & PCN_CLASSIFY_READ_IP && there < PCN_CLASSIFY_BYTES && there < all)
		bpf_skb_pull_data(ctx, all < PCN_CLASSIFY_BYTES ? all : PCN_CLASSIFY_BYTES);
#else
	(void)fields;
#endif
	c->pos = pcn_data(ctx);
	c->end = pcn_data_end(ctx);
}

/* Reads what rules look at: `fields` is NAME_fields of PCN_CLASSIFIER. -1: there is no Ethernet
 * header. Packet pointers that were read before are invalid then. A packet whose IP header is not
 * well formed is none of IP, one without ports (a later fragment, ICMP, a header that is cut off)
 * matches no rule that looks at ports. */
PCN_INLINE int pcn_classify_read(struct CTXTYPE *ctx, const struct pcn_md *md,
				 struct pcn_classify_key *key, __u32 fields)
{
	struct pcn_cursor c;
	__u64 vlan = PCN_CLASSIFY_UNTAGGED;

	__builtin_memset(key, 0, sizeof(*key));
#ifdef PCN_TC
	if (ctx->vlan_present)
		vlan = ctx->vlan_tci & PCN_VLAN_VID_MASK;
#endif
	pcn_classify_open(&c, ctx, fields);
	struct ethhdr *eth = pcn_parse_eth(&c);
	if (!eth)
		return -1;
	__be16 proto = eth->h_proto;
	if (fields & PCN_CLASSIFY_READ_MAC) {
		key->word[PCN_CLASSIFY_SRC_MAC] = bpf_cpu_to_be64(pcn_mac(eth->h_source)) >> 16;
		key->word[PCN_CLASSIFY_DST_MAC] = bpf_cpu_to_be64(pcn_mac(eth->h_dest)) >> 16;
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		struct pcn_vlan_hdr *tag = NULL;
		if (pcn_is_vlan_proto(proto))
			tag = pcn_cursor_take(&c, sizeof(*tag));
		if (!tag)
			break;
		if (vlan == PCN_CLASSIFY_UNTAGGED)
			vlan = bpf_ntohs(tag->tci) & PCN_VLAN_VID_MASK;
		proto = tag->proto;
	}
	key->word[PCN_CLASSIFY_LINK] =
		(__u64)md->in_port << 48 | vlan << 32 | (__u64)bpf_ntohs(proto) << 16;
	key->word[PCN_CLASSIFY_MARK] = md->traffic_class;
	if (!(fields & PCN_CLASSIFY_READ_IP))
		return 0;
	/* One way on, however many tags there were. */
	__u32 at = pcn_classify_any(c.pos - pcn_data(ctx), proto) & 31;
	c.pos = pcn_data(ctx) + at;
	if (proto == bpf_htons(ETH_P_IP))
		pcn_classify_ipv4(&c, key, fields);
	else if (proto == bpf_htons(ETH_P_IPV6))
		pcn_classify_ipv6(ctx, key, at, fields);
	return 0;
}

#endif
