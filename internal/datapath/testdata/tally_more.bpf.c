// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Counters for more ports, which may be dropped if it must be. */
#define TALLY_DISPOSABLE PCN_DISPOSABLE
#define TALLY_ENTRIES 128
#include "tally.h"
