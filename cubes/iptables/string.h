// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The search for a pattern in a packet. */
#ifndef IPTABLES_STRING_H
#define IPTABLES_STRING_H

#include <pcn/cube.h>

#include "rule.h"

/* The longest pattern. */
#define IPTABLES_PATTERN_MAX 64
/* Where a pattern begins, at most: the length of a superframe. */
#define IPTABLES_STRING_MAX 65536

/* A search. */
struct iptables_search {
	struct CTXTYPE *ctx;
	const __u8 *pattern; /* in lower case, if the case of letters does not count */
	__u32 length;
	__u32 fold;
	__u32 at; /* the first byte */
	__u32 found;
};

PCN_MAP(string_bytes, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u8[IPTABLES_PATTERN_MAX], 1);

PCN_INLINE __u8 iptables_lower(__u8 c, __u32 fold)
{
	return fold && c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* Internal: compares the pattern with the bytes at one place; 1 ends the search. */
static long iptables_compare(__u32 i, struct iptables_search *s)
{
	__u32 zero = 0;
	__u8 *bytes = bpf_map_lookup_elem(&string_bytes, &zero);
	__s64 length = s->length;

	asm volatile("" : "+r"(length));
	if (!bytes || length < 1 || length > IPTABLES_PATTERN_MAX ||
	    pcn_load_bytes(s->ctx, s->at + i, bytes, length))
		return 1;
#pragma clang loop unroll(disable)
	for (__u32 n = 0; n < IPTABLES_PATTERN_MAX; n++) {
		if (n >= length)
			break;
		if (iptables_lower(bytes[n], s->fold) != s->pattern[n])
			return 0;
	}
	s->found = 1;
	return 1;
}

/* Whether the packet has the pattern, which begins at the offset span[0] from the IP header or later and ends at span[1]
 * or before. */
PCN_GLOBAL int iptables_has_string(struct CTXTYPE *ctx, const struct iptables_test *t PCN_NONNULL,
				   __u32 l3)
{
	__u32 length = pcn_frame_len(ctx), first = l3 + t->span[0], end = l3 + t->span[1];
	struct iptables_search s = { .ctx = ctx,
				     .pattern = t->pattern,
				     .length = t->number,
				     .fold = t->value,
				     .at = first };

	end = end < length ? end : length;
	if (first + s.length > end || end - first - s.length >= IPTABLES_STRING_MAX)
		return 0;
	bpf_loop(end - first - s.length + 1, iptables_compare, &s, 0);
	return s.found;
}

#endif
