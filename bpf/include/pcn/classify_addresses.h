// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Named sets of addresses, which all cubes of a daemon share. Go package classifier writes them into
 * the memory of the rules, as tries of prefixes. Before a search, a bit for each set that the rules
 * match tells whether it contains the packet's address. Include <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_ADDRESSES_H
#define PCN_CLASSIFY_ADDRESSES_H

#include <pcn/classify_key.h>
#include <pcn/classify_tree.h>

/* Internal: a node in a reference, which otherwise is a prefix, and where its nibble of the address is. */
#define PCN_CLASSIFY_NODE (1u << 31)
#define PCN_CLASSIFY_NIBBLE 18
/* Internal: the longest path of a trie, a node for each nibble. */
#define PCN_CLASSIFY_NIBBLES 32

/* Internal: whether a trie has a prefix of an address, which is in a word of the key and, for IPv6, in the
 * third one after it. A node selects by a nibble and skips those that all its prefixes have in common, so
 * the prefix at the end is compared as a whole. */
PCN_GLOBAL int pcn_classify_in_trie(struct pcn_classify_part *m PCN_NONNULL,
				    const struct pcn_classify_key *key PCN_NONNULL, __u32 reference,
				    __u32 word)
{
	const __u64 *high = &key->word[word & 3], *low = high + 3;
	const void *address = high;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_NIBBLES && reference & PCN_CLASSIFY_NODE; i++) {
		__u32 nibble = reference >> PCN_CLASSIFY_NIBBLE;
		/* 3 words after the other half, without a branch */
		__u64 half = *(const __u64 *)(address + (nibble & 16) + (nibble >> 1 & 8));

		reference = pcn_classify_at(m, reference)
				    ->node.child[half >> (60 - 4 * (nibble & 15)) & 15];
	}
	if (!reference)
		return 0;
	const struct pcn_classify_prefix *prefix = &pcn_classify_at(m, reference)->prefix;

	return !(((*high & prefix->mask[0]) ^ prefix->value[0]) |
		 ((*low & prefix->mask[1]) ^ prefix->value[1]));
}

/* Internal: the memory of a set, and its trie for an IP packet; NULL if it is empty. */
PCN_INLINE void *pcn_classify_tries_of(const struct pcn_classify_key *key, __u32 set, __u32 *trie)
{
	const struct pcn_classify_addresses *addresses =
		bpf_map_lookup_elem(&classify_addresses, &set);
	__u64 at = addresses ? *(const volatile __u64 *)&addresses->at : 0;
	void *m = at ? pcn_classify_memory(at >> 32) : NULL;

	if (!m)
		return NULL;
	const struct pcn_classify_address_tries *tries = &pcn_classify_at(m, at)->tries;

	*trie = key->word[PCN_CLASSIFY_LINK] & PCN_FLOW_IPV6 ? tries->ipv6 : tries->ipv4;
	return *trie ? m : NULL;
}

/* Internal: sets the bit of a set that the rules match in the word of the mark, if the set has the address. */
PCN_INLINE void pcn_classify_set_bit(void *in, struct pcn_classify_key *key, __u32 trie, __u32 used)
{
	__u32 word = used & PCN_CLASSIFY_OF_DESTINATION ? PCN_CLASSIFY_DST : PCN_CLASSIFY_SRC;
	__u64 has = pcn_classify_in_trie(in, key, trie, word);

	key->word[PCN_CLASSIFY_MARK] |= (has & 1) << (32 + (used >> PCN_CLASSIFY_BIT));
}

/* Internal: the i-th use of a set by the rules; 0 after the last one. Linux 6.1 knows a mask better than a comparison. */
PCN_INLINE __u32 pcn_classify_used(const struct pcn_classify_block *block, __u32 i)
{
	asm volatile("" : "+r"(i));
	return block->used[i & (PCN_CLASSIFY_USED_SETS - 1)];
}

/* Internal: sets the bits of the i-th use of a set by the rules, and the next one if it is of the same set: where the set is is
 * read once for both addresses, so a packet sees it before a change or after. Returns 0 after the last one. A
 * function of its own, so that the verifier checks it once. */
PCN_GLOBAL int pcn_classify_use(struct pcn_classify_part *m PCN_NONNULL,
				struct pcn_classify_key *key PCN_NONNULL, __u32 forest, __u32 i)
{
	const struct pcn_classify_block *block = pcn_classify_at(m, forest - 1);
	const __u32 set = PCN_CLASSIFY_ADDRESSES - 1;
	__u32 used, trie = 0, next = 0;

	if (i >= PCN_CLASSIFY_USED_SETS)
		return 0;
	used = pcn_classify_used(block, i);
	if (!used)
		return 0;
	if (i && !((pcn_classify_used(block, i - 1) ^ used) & set))
		return 1; /* done with the one before */
	void *in = pcn_classify_tries_of(key, used & set, &trie);
	if (!in)
		return 1;
	pcn_classify_set_bit(in, key, trie, used);
	if (i + 1 < PCN_CLASSIFY_USED_SETS)
		next = pcn_classify_used(block, i + 1);
	if (next && !((next ^ used) & set))
		pcn_classify_set_bit(in, key, trie, next);
	return 1;
}

/* Internal: writes the bits of the sets that the rules match, which are in the block before the forest, to
 * the upper half of the word of the mark. */
PCN_GLOBAL int pcn_classify_sets_of(struct pcn_classify_part *m PCN_NONNULL,
				    struct pcn_classify_key *key PCN_NONNULL, __u32 forest)
{
	key->word[PCN_CLASSIFY_MARK] = (__u32)key->word[PCN_CLASSIFY_MARK];
	if (!(key->word[PCN_CLASSIFY_LINK] & PCN_FLOW_IP))
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PCN_CLASSIFY_USED_SETS; i++) {
		if (!pcn_classify_use(m, key, forest, i))
			break;
	}
	return 0;
}

#endif
