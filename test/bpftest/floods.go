// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// SetFloods finds the netdevs of the lab also when a cube's timer or handler calls it, outside its namespace.
func (p *plane) SetFloods(id datapath.CubeID, sets map[uint32][]cube.FloodMember, only bool) error {
	return p.in.Do(func() error { return p.Plane.SetFloods(id, sets, only) })
}
