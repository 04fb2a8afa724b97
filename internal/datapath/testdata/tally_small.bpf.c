// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A table for one entry. */
#define TALLY_ENTRIES 1
#include "tally.h"
