// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"time"
)

// Timings are how long the steps to the programs of a component took, for benchmarks and logs.
type Timings struct {
	Linked time.Duration // writing the instructions
	Loaded time.Duration // the kernel's verifier and JIT
}

// Timings returns those of the programs that a cube's packets run now; zero while there are none.
func (p *Plane) Timings(id CubeID) Timings {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.parts {
		if slices.Contains(c.ids, id) && c.gen != nil {
			return Timings{Linked: c.gen.linked, Loaded: c.gen.loaded}
		}
	}
	return Timings{}
}
