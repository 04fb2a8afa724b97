// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Finding the first of the rules of a group that may match, without branches: which one it is is
 * unpredictable. Include <pcn/classify.h>. */
#ifndef PCN_CLASSIFY_BITS_H
#define PCN_CLASSIFY_BITS_H

#include <pcn/classify_tree.h>

/* Internal: the number of trailing zero bits of a non-zero number. */
PCN_INLINE __u64 pcn_classify_lowest(__u64 x)
{
	x = (x & -x) - 1; /* one bit set for each trailing zero; count them */
	x -= x >> 1 & 0x5555555555555555;
	x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return x * 0x0101010101010101 >> 56;
}

/* Internal: 1 if a number is 0, else 0, without a branch. */
PCN_INLINE __u64 pcn_classify_is_zero(__u64 x)
{
	x |= -x;
	asm("" : "+r"(x)); /* else clang makes branches of it */
	x = (x >> 63) ^ 1;
	asm("" : "+r"(x));
	return x;
}

_Static_assert(PCN_CLASSIFY_BITS == 4, "four words, one after the other");

/* Internal: removes the first of the bits that are set and returns its number, a meaningless one if none is. */
PCN_INLINE __u64 pcn_classify_first(__u64 *bits)
{
	__u64 a = bits[0], b = bits[1], x = bits[2], y = bits[3];
	__u64 no_a = pcn_classify_is_zero(a), no_b = no_a & pcn_classify_is_zero(b);
	__u64 no_x = no_b & pcn_classify_is_zero(x);
	__u64 word = a | (b & -no_a) | (x & -no_b) | (y & -no_x);

	bits[0] = a & (a - 1);
	bits[1] = b & (b - no_a);
	bits[2] = x & (x - no_b);
	bits[3] = y & (y - no_x);
	return (no_a + no_b + no_x) * 64 + pcn_classify_lowest(word);
}

#endif
