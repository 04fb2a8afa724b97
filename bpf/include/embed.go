// SPDX-License-Identifier: Apache-2.0

// Package include has the headers of eBPF programs, for those that are compiled at run time.
package include

import "embed"

// Headers are the files below pcn/.
//
//go:embed pcn/*.h
var Headers embed.FS
