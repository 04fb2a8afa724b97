// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Wider counters, and those of the version before may be dropped. */
#define TALLY_DISPOSABLE PCN_DISPOSABLE
#define TALLY_MEMBERS          \
	{                      \
		__u64 packets; \
		__u64 bytes;   \
	}
#include "tally.h"
