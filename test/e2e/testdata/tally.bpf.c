// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A version of the cube shared by the upgrade tests. */
#include "../../../internal/datapath/testdata/tally.bpf.c"
