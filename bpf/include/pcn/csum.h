// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Internet checksums (RFC 1071), updated in place as RFC 1624 says (equation 3). */
#ifndef PCN_CSUM_H
#define PCN_CSUM_H

#include <pcn/ctx.h>

/* Folds a 32-bit sum into the 16-bit checksum field. */
PCN_INLINE __u16 pcn_csum_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* The checksum after a 16-bit word changed from old to now; all in network byte order. */
PCN_INLINE __u16 pcn_csum_replace2(__u16 check, __be16 old, __be16 now)
{
	return pcn_csum_fold((__u32)(__u16)~check + (__u16)~old + now);
}

#endif
