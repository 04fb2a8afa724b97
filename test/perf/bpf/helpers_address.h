// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The cases of helpers for addresses. Included by helpers.h, which has the macros. */
#ifndef HELPERS_ADDRESS_H
#define HELPERS_ADDRESS_H

/* Addresses of both families in one type. */
PCN_INLINE void address(__u32 what)
{
	pcn_address a = { 1, 2, 3, 4 }, b = { 5, 6, 7, 8 };
	struct in6_addr from = {};

	EACH
	{
		for (int word = 0; word < 4; word++) {
			HIDE(b[word]);
			HIDE(from.in6_u.u6_addr32[word]);
		}
		if (what == COST_pcn_address_set4)
			pcn_address_set4(a, b[0]);
		else if (what == COST_pcn_address_set6)
			pcn_address_set6(a, &from);
		else if (what == COST_pcn_address_copy)
			pcn_address_copy(a, b);
		else
			KEEP(pcn_address_same(a, b));
		KEEP(a[0] ^ a[1] ^ a[2] ^ a[3]);
	}
}

#endif
