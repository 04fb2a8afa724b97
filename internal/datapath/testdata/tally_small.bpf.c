// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Room for one. */
#define TALLY_ENTRIES 1
#include "tally.h"
