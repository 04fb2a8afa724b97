// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Wider counters. */
#define TALLY_MEMBERS          \
	{                      \
		__u64 packets; \
		__u64 bytes;   \
	}
#include "tally.h"
