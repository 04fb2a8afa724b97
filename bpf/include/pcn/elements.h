// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Elements of named sets that tries of prefixes cannot hold: those with ports, protocols or MAC addresses, and
 * those that expire, count packets, are exceptions, or were added by rules. They are in one hash for all sets. The
 * name of a set has a number (pcn/classify_addresses.h), and the number a slot, which the elements are of: so two sets
 * swap their elements by one store each. Go package ipset/elements writes them. Include <pcn/classify.h>. */
#ifndef PCN_ELEMENTS_H
#define PCN_ELEMENTS_H

#include <pcn/classify.h>
#include <pcn/elements_memory.h>
#include <pcn/flow.h>
#include <pcn/hash.h>
#include <pcn/time.h>

/* A search: the packet's key without the prefix, and its address. */
struct pcn_elements_work {
	struct pcn_element_key key;
	pcn_address address;
	__u64 left[2];
	__u32 options;
	__u32 bytes;
	__s32 found;
	__u32 zero;
};
PCN_MAP(elements_work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_elements_work, 1);

/* How a set is searched: in the low bits, whether the dimensions are those of the destination; then how many there are, and
 * flags. */
#define PCN_ELEMENTS_DIMENSIONS 8
#define PCN_ELEMENTS_REVERSED (1 << 16)	 /* only exceptions match */
#define PCN_ELEMENTS_UNCOUNTED (1 << 17) /* no packets are counted */

/* Internal: whether dimension n is that of the destination. */
PCN_INLINE __u32 pcn_elements_to(__u32 options, __u32 n)
{
	return options >> n & 1;
}

/* Internal: the port of a packet. -1 if it should have one, and has not. */
PCN_INLINE int pcn_elements_port(const struct pcn_flow *flow, __u32 to, __u32 kind)
{
	__u32 protocol = flow->protocol;
	__u16 port = bpf_ntohs(to ? flow->destination_port : flow->source_port);

	if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)
		return flow->has & PCN_FLOW_PORTS ? port : -1;
	if (kind == PCN_ELEMENTS_PORT || !(flow->has & PCN_FLOW_L4))
		return -1;
	if (protocol == IPPROTO_SCTP || protocol == IPPROTO_UDPLITE)
		return flow->has & PCN_FLOW_PORTS ? port : -1;
	if (flow->has & PCN_FLOW_ICMP)
		return flow->icmp_type << 8 | flow->icmp_code;
	return protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6 ? -1 : 0;
}

/* Internal: fills in the key of a packet, but for the prefix. 0 if the packet can be in the set. */
PCN_GLOBAL int pcn_elements_key(struct CTXTYPE *ctx, struct pcn_elements_work *w PCN_NONNULL,
				const struct pcn_flow *flow PCN_NONNULL,
				const struct pcn_elements_slot *s PCN_NONNULL, __u32 options)
{
	__u32 kind = s->kind, dimensions = options >> PCN_ELEMENTS_DIMENSIONS & 0xff;
	int port;

	__builtin_memset(&w->key, 0, sizeof(w->key));
	if (kind == PCN_ELEMENTS_MAC)
		return pcn_load_bytes(ctx, pcn_elements_to(options, 0) ? 0 : ETH_ALEN,
				      w->key.address, ETH_ALEN);
	if (kind == PCN_ELEMENTS_PORT) {
		port = pcn_elements_port(flow, pcn_elements_to(options, 0), kind);
		w->key.port = port;
		return port < 0;
	}
	if (!(flow->has & PCN_FLOW_IP) ||
	    !(flow->has & PCN_FLOW_IPV6) != !(s->flags & PCN_ELEMENTS_IPV6) || dimensions < kind)
		return -1;
	pcn_address_copy(w->address,
			 pcn_elements_to(options, 0) ? flow->destination : flow->source);
	if (kind == PCN_ELEMENTS_IP)
		return 0;
	port = pcn_elements_port(flow, pcn_elements_to(options, 1), kind);
	w->key.port = port;
	w->key.protocol = flow->protocol;
	if (kind == PCN_ELEMENTS_IP_PORT_IP)
		pcn_address_copy(w->key.second,
				 pcn_elements_to(options, 2) ? flow->destination : flow->source);
	return port < 0;
}

/* Internal: what an element says: 1 for a match, -1 for an exception, 0 if there is none. */
PCN_INLINE int pcn_elements_get(struct pcn_elements_work *w, __u32 flags)
{
	struct pcn_element *e = bpf_map_lookup_elem(&elements, &w->key);

	if (!e || (e->expires && pcn_time_coarse() >= e->expires))
		return 0;
	if (flags & PCN_ELEMENTS_COUNT && !(w->options & PCN_ELEMENTS_UNCOUNTED)) {
		__sync_fetch_and_add(&e->packets, 1);
		__sync_fetch_and_add(&e->bytes, w->bytes);
	}
	return e->flags & PCN_ELEMENT_NOMATCH ? -1 : 1;
}

/* Internal: looks the packet up among the prefixes of the longest length that is left. 1: it is over. */
static long pcn_elements_try(__u32 i, void *unused)
{
	__u32 zero = 0, host, skip;
	struct pcn_elements_work *w = bpf_map_lookup_elem(&elements_work, &zero);
	const struct pcn_elements_slot *s;
	__u64 low = ~0ULL, high = ~0ULL;

	(void)i;
	(void)unused;
	if (!w)
		return 1;
	skip = !w->left[0];
	if (!w->left[skip])
		return 1;
	host = pcn_trailing_zeros(w->left[skip]);
	w->left[skip] &= w->left[skip] - 1;
	low = skip ? 0 : ~0ULL << host;
	high = skip ? ~0ULL << host : ~0ULL;
	w->key.length = 128 - 64 * skip - host;
	w->key.address[0] = w->address[0] & bpf_htonl(high >> 32);
	w->key.address[1] = w->address[1] & bpf_htonl(high);
	w->key.address[2] = w->address[2] & bpf_htonl(low >> 32);
	w->key.address[3] = w->address[3] & bpf_htonl(low);
	s = bpf_map_lookup_elem(&elements_slots, &w->key.slot);
	w->found = s ? pcn_elements_get(w, s->flags) : 0;
	return w->found || !(w->left[0] | w->left[1]);
}

/* Internal: whether the elements of a slot have a packet: 1, -1 for an exception, 0 for no. */
PCN_INLINE int pcn_elements_search(struct CTXTYPE *ctx, const struct pcn_flow *flow, __u32 slot,
				   __u32 options)
{
	const struct pcn_elements_slot *s = bpf_map_lookup_elem(&elements_slots, &slot);
	__u32 zero = 0;
	struct pcn_elements_work *w = bpf_map_lookup_elem(&elements_work, &zero);

	if (!s || !w || pcn_elements_key(ctx, w, flow, s, options))
		return 0;
	w->key.slot = slot;
	w->options = options;
	w->bytes = pcn_frame_len(ctx) - flow->l3;
	if (s->kind >= PCN_ELEMENTS_MAC)
		return pcn_elements_get(w, s->flags);
	w->left[0] = s->lengths[0];
	w->left[1] = s->lengths[1];
	w->found = 0;
	if (!pcn_elements_try(0, NULL))
		bpf_loop(127, pcn_elements_try, NULL, 0);
	return w->found;
}

/* Internal: whether a trie of prefixes has an address of a packet, whose key has been read. */
PCN_INLINE int pcn_elements_trie(__u32 set, __u32 to)
{
	struct pcn_classify_key *key = pcn_classify_key();
	__u32 trie = 0;

	if (!key || !(key->word[PCN_CLASSIFY_LINK] & PCN_FLOW_IP))
		return 0;
	void *in = pcn_classify_tries_of(key, set, &trie);

	return in &&
	       pcn_classify_in_trie(in, key, trie, to ? PCN_CLASSIFY_DST : PCN_CLASSIFY_SRC) & 1;
}

/* Internal: whether a set, by its number, that is no set of sets has a packet. */
PCN_GLOBAL int pcn_elements_match(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
				  __u32 set, __u32 options)
{
	const __u64 *at = bpf_map_lookup_elem(&elements_of, &set);
	__u64 slot = at ? *(const volatile __u64 *)at : 0;

	if (slot & PCN_ELEMENTS_OF_SETS)
		return 0;
	if (!slot)
		return pcn_elements_trie(set, pcn_elements_to(options, 0)) &&
		       !(options & PCN_ELEMENTS_REVERSED);
	return pcn_elements_search(ctx, flow, slot, options) ==
	       (options & PCN_ELEMENTS_REVERSED ? -1 : 1);
}

/* Internal: whether one of the members of a set of sets has a packet; the first that says something decides. */
PCN_GLOBAL int pcn_elements_any(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
				__u32 slot, __u32 options)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_ELEMENTS_MEMBERS; i++) {
		const struct pcn_elements_slot *s = bpf_map_lookup_elem(&elements_slots, &slot);
		__u32 set = s ? s->member[i] : 0;

		if (!set)
			return 0;
		if (pcn_elements_match(ctx, flow, set, options))
			return 1;
	}
	return 0;
}

/* Whether a set, by its number, has a packet, whose key for the search has been read. A packet sees the set as it
 * was before a change of it, or after. */
PCN_INLINE int pcn_elements_test(struct CTXTYPE *ctx, const struct pcn_flow *flow, __u32 set,
				 __u32 options)
{
	const __u64 *at = bpf_map_lookup_elem(&elements_of, &set);
	__u64 is = at ? *(const volatile __u64 *)at : 0;

	if (is & PCN_ELEMENTS_OF_SETS)
		return pcn_elements_any(ctx, flow, is, options);
	return pcn_elements_match(ctx, flow, set, options);
}

/* How an element is added. */
#define PCN_ELEMENTS_RENEW (1 << 18)   /* one that is there lives on for the time of the new one */
#define PCN_ELEMENTS_TIMEOUT (1 << 19) /* for the time given, and not that of the set */

/* Internal: whether a packet can be an element of a slot: then its key is the work's. */
PCN_INLINE struct pcn_elements_work *pcn_elements_of_packet(struct CTXTYPE *ctx,
							    const struct pcn_flow *flow,
							    const struct pcn_elements_slot *s,
							    __u32 slot, __u32 options)
{
	__u32 zero = 0;
	struct pcn_elements_work *w = bpf_map_lookup_elem(&elements_work, &zero);

	if (!w || pcn_elements_key(ctx, w, flow, s, options))
		return NULL;
	w->key.slot = slot;
	if (s->kind < PCN_ELEMENTS_MAC) {
		pcn_address_copy(w->key.address, w->address);
		w->key.length = 128;
	}
	if (s->kind == PCN_ELEMENTS_PORT && (w->key.port < s->first || w->key.port > s->last))
		return NULL;
	return w;
}

/* Adds what a packet has to a set, by the set's number. A set that is full stays as it is, and counts the packet. */
PCN_GLOBAL int pcn_elements_add(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
				__u32 set, __u32 options, __u32 seconds)
{
	const __u64 *at = bpf_map_lookup_elem(&elements_of, &set);
	__u32 slot = at ? *(const volatile __u64 *)at : 0;
	struct pcn_elements_slot *s = bpf_map_lookup_elem(&elements_slots, &slot);
	struct pcn_element fresh = { .flags = PCN_ELEMENT_ADDED };
	struct pcn_elements_work *w;
	struct pcn_element *e;
	__u64 now = pcn_time_coarse();

	if (!slot || !s || s->kind == PCN_ELEMENTS_SETS)
		return 0;
	w = pcn_elements_of_packet(ctx, flow, s, slot, options);
	if (!w)
		return 0;
	if (!(options & PCN_ELEMENTS_TIMEOUT))
		seconds = s->timeout;
	if (s->flags & PCN_ELEMENTS_EXPIRE && seconds)
		fresh.expires = now + seconds * 1000000000ULL;
	e = bpf_map_lookup_elem(&elements, &w->key);
	if (e) { /* one that is over is as good as none */
		if (options & PCN_ELEMENTS_RENEW || (e->expires && now >= e->expires))
			e->expires = fresh.expires;
		return 0;
	}
	if (__sync_fetch_and_add(&s->count, 1) >= s->most ||
	    bpf_map_update_elem(&elements, &w->key, &fresh, BPF_NOEXIST)) {
		__sync_fetch_and_add(&s->count, -1);
		__sync_fetch_and_add(&s->refused, 1);
		return 0;
	}
	__sync_fetch_and_or(&s->lengths[0], 1);
	return 0;
}

/* Ends the life of the element that a packet has in a set, by the set's number; the control plane removes it. */
PCN_GLOBAL int pcn_elements_end(struct CTXTYPE *ctx, const struct pcn_flow *flow PCN_NONNULL,
				__u32 set, __u32 options)
{
	const __u64 *at = bpf_map_lookup_elem(&elements_of, &set);
	__u32 slot = at ? *(const volatile __u64 *)at : 0;
	struct pcn_elements_slot *s = bpf_map_lookup_elem(&elements_slots, &slot);
	struct pcn_elements_work *w;
	struct pcn_element *e;

	if (!slot || !s || s->kind == PCN_ELEMENTS_SETS)
		return 0;
	w = pcn_elements_of_packet(ctx, flow, s, slot, options);
	e = w ? bpf_map_lookup_elem(&elements, &w->key) : NULL;
	if (e) {
		e->expires = 1;
		*(volatile __u64 *)&s->ended = 1;
	}
	return 0;
}

#endif
