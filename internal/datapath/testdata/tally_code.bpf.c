// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Other code, the same maps. */
#define TALLY_STEP 10
#include "tally.h"
