// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests that floods to the set of the frame's VLAN. */
#include "sets.h"
