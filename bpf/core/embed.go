// SPDX-License-Identifier: Apache-2.0

// Package core holds the framework's own eBPF programs, compiled by `make generate`.
package core

import "embed"

// Objects has core, root and down for each hook: core.tc.o, core.xdp.o and so on.
//
//go:embed *.o
var Objects embed.FS
