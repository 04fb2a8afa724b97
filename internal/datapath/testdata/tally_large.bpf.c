// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A larger table. */
#define TALLY_ENTRIES 128
#include "tally.h"
