// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* The members of an entry are swapped: its size is the same. */
#define TALLY_MEMBERS          \
	{                      \
		__u32 bytes;   \
		__u32 packets; \
	}
#include "tally.h"
