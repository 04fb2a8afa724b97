// SPDX-License-Identifier: Apache-2.0

package perf

// Load balancers: a group of its own.

import (
	"github.com/polycube/polycube/test/perf/balancers"
)

// balancerParts are the parts of the group "balancers".
func balancerParts() []Part { return contestParts(balancers.Parts()) }
