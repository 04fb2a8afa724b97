// SPDX-License-Identifier: Apache-2.0

package classifier

// Flows of subscribers in the form of the program.

import (
	"slices"

	"github.com/polycube/polycube/sdf"
)

// list returns the flows of a subscriber, by precedence.
func (s *Subscriber) list() (*sdf.List, error) {
	sorted := slices.SortedFunc(slices.Values(s.Flows), func(a, b Flow) int { return int(int64(a.Precedence) - int64(b.Precedence)) })
	flows, classes := make([]sdf.Flow, len(sorted)), make([]uint32, len(sorted))
	for i := range sorted {
		flows[i], classes[i] = sorted[i].flow(), sorted[i].Class
	}
	return sdf.NewList(flows, classes)
}

// flow returns what packets of the flow are.
func (f *Flow) flow() sdf.Flow {
	is := sdf.Flow{L4Proto: (*uint8)(f.L4Proto), RemotePort: f.RemotePort, LocalPort: f.LocalPort, DSCP: f.DSCP, QFI: f.QFI}
	if f.Remote != nil {
		is.Remote = &f.Remote.Prefix
	}
	return is
}
