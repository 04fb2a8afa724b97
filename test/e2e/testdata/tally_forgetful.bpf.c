// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A version that the verifier refuses if the mark is 77. */
#define TALLY_FORGETS 77
#include "../../../internal/datapath/testdata/tally.h"
