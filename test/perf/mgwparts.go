// SPDX-License-Identifier: Apache-2.0

package perf

// Mobile gateways: a group of its own.

import (
	"github.com/polycube/polycube/test/perf/mgw"
)

// mgwParts are the parts of the group "mgw".
func mgwParts() []Part { return contestParts(mgw.Parts()) }
