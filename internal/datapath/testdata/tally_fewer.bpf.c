// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Counters for one port, and those of the version before may be dropped. */
#define TALLY_DISPOSABLE PCN_DISPOSABLE
#define TALLY_ENTRIES 1
#include "tally.h"
