// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A hash with a random seed, for tables whose keys come from packets: whoever does not know the seed cannot make keys
 * collide. In Go: package sketch. */
#ifndef PCN_HASH_H
#define PCN_HASH_H

#include <pcn/ctx.h>

/* Random bits, one word for each word of a key. */
struct pcn_hash_seed {
	__u64 word[3];
};

/* Changes each bit of the result with a probability of one half if one bit of x changes. No two numbers have the same
 * result. */
PCN_INLINE __u64 pcn_hash_mix(__u64 x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return x ^ x >> 32;
}

/* The hash of three words. Each is mixed completely, by itself, so that the processor does all of them at once. In Go:
 * sketch.Seed.Words. */
PCN_INLINE __u64 pcn_hash_words(const struct pcn_hash_seed *seed, __u64 a, __u64 b, __u64 c)
{
	return pcn_hash_mix(pcn_hash_mix(a ^ seed->word[0]) + pcn_hash_mix(b ^ seed->word[1]) +
			    pcn_hash_mix(c ^ seed->word[2]));
}

/* The hash of an address (pcn_address) and a number, such as a port, or 0. In Go: sketch.Seed.Hash. */
PCN_INLINE __u64 pcn_hash_address(const struct pcn_hash_seed *seed, const __be32 *address,
				  __u64 number)
{
	return pcn_hash_words(seed, (__u64)address[0] << 32 | address[1],
			      (__u64)address[2] << 32 | address[3], number);
}

/* The number of zeros below the lowest bit of x that is set, for x other than 0; without a branch. */
PCN_INLINE __u32 pcn_trailing_zeros(__u64 x)
{
	__u32 zeros = 0;

#pragma unroll
	for (int shift = 32; shift; shift >>= 1) {
		__u64 none = ((x & ((1ull << shift) - 1)) - 1) >> 63; /* 1 if all of these are 0 */

		zeros += none * shift;
		x >>= none * shift;
	}
	return zeros;
}

#endif
