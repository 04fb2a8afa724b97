// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// A shadow cube's ports are interfaces in a namespace, each of them a veth whose outer end is here. The outer ends are
// data, like other netdevs: programs send packets to the namespace through the table of shadows, and packets from the
// namespace enter through a row of the port.

// Constants of the programs that the linker sets (pcn/config.h).
const (
	shadowConstant = "pcn_shadow"
	spanConstant   = "pcn_span"
)

// shadowConstants tells a program whether its cube has a namespace.
func shadowConstants(o *link.Object, n *graph.Node, values map[string]any) {
	flag := func(name string, on bool) {
		if !o.HasConstant(name) {
			return
		}
		values[name] = uint32(0)
		if on {
			values[name] = uint32(1)
		}
	}
	flag(shadowConstant, n.Shadow != nil)
	flag(spanConstant, n.Shadow != nil && n.Shadow.Span)
}

// addShadow describes a cube's namespace to the linker.
func (b *builder) addShadow(n *graph.Node) error {
	if n.Shadow == nil {
		return nil
	}
	if b.c.Hook != cube.TC {
		return fmt.Errorf("cube %s: only a TC cube can have a namespace, not one of type %s: %w", n.Name, n.Type, cube.ErrUnsupported)
	}
	c := b.cubes[n.ID]
	c.Shadow, c.Span = true, n.Shadow.Span
	fmt.Fprintf(&b.print, "shadow span %t\n", c.Span)
	return nil
}
