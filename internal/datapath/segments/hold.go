// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// A description that is used while cubes may be deleted.

// Hold gives the component its own descriptors of the cubes' maps, so that a cube deleted meanwhile does not close them
// during linking. The description belongs to the inliner.
func (c *Description) Hold() error {
	for _, lc := range c.LinkCubes() {
		held := make(map[string]asm.FDer, len(lc.Maps))
		for name, m := range lc.Maps {
			own, err := m.(*ebpf.Map).Clone()
			if err != nil {
				return fmt.Errorf("hold map %s: %w", name, err)
			}
			held[name] = own
		}
		lc.Maps = held
	}
	return nil
}

// GiveBack closes the descriptors that Hold opened.
func (c *Description) GiveBack() {
	for _, lc := range c.LinkCubes() {
		for _, m := range lc.Maps {
			_ = m.(*ebpf.Map).Close()
		}
		lc.Maps = nil
	}
}

// LinkCubes lists the component's cubes, including the companion's.
func (c *Description) LinkCubes() []*link.Cube {
	if c.companion == nil {
		return c.Code.Cubes
	}
	return append(slices.Clone(c.Code.Cubes), c.companion.Cubes...)
}

// ConstantAt returns the bytes of the constant that a program refers to, at an offset of the segment's. Those of
// strings never differ.
func (c *Description) ConstantAt(offset uint32) []byte {
	for _, lc := range c.LinkCubes() {
		for _, pr := range slices.Concat(lc.Programs[cube.Ingress], lc.Programs[cube.Egress]) {
			if offset < pr.Rodata {
				continue
			}
			if from, to, ok := pr.Object.ConstantAt(offset - pr.Rodata); ok && to <= uint32(len(c.Rodata))-pr.Rodata {
				return c.Rodata[pr.Rodata+from : pr.Rodata+to]
			}
		}
	}
	return nil
}

// DropCompanion omits the TC side.
func (c *Description) DropCompanion() { c.companion = nil }
