// SPDX-License-Identifier: Apache-2.0

package perf

// Hybrid network functions: a group of its own.

import (
	"github.com/polycube/polycube/test/perf/evnf"
)

// evnfParts are the parts of the group "evnf".
func evnfParts() []Part { return contestParts(evnf.Parts()) }
