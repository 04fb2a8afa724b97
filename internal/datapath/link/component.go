// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// Limits and layouts shared with the C headers; a test compares them with the objects' types.
const (
	MaxCubes    = 1024  // PCN_MAX_CUBES
	MaxPorts    = 512   // PCN_MAX_PORTS, per cube
	Pages       = 16    // PCN_PAGES
	Slots       = 1000  // of ports per page; PCN_SLOTS is one more
	NoSlot      = Slots // the place in a page that counts what belongs to no port
	Entries     = 65536
	slotSize    = 32 // sizeof(struct pcn_slot)
	slotShift   = 5
	slotTx      = 16     // where the counters of sent packets start in a slot
	skipMark    = 0x9c5b // PCN_SKIP
	DefaultHops = 128    // PCN_MAX_HOPS
)

// Component is a connected part of the cube graph, with all that its code depends on.
type Component struct {
	Hook  cube.Hook
	Cubes []*Cube // by ascending ID
	// Page is the page of counters that most ports of the component have.
	Page uint16
	// Hops bounds how often a packet may turn back or enter again.
	Hops int
}

// Cube is one instance in a component.
type Cube struct {
	ID          uint16
	Name        string
	Object      *Object
	Transparent bool
	// Rodata is where the instance's constants start in the component's constants.
	Rodata uint32
	// Maps are the instance's maps by name.
	Maps map[string]asm.FDer
	// Ports of a standard cube that code must know: those with a cube as peer or with
	// transparent cubes. Ports that only lead to a netdev are data. By ascending index.
	Ports []*Port
	// Entry is true if packets from netdevs may enter here.
	Entry bool
	// Shadow is true for a cube with a namespace, Span if that gets copies of all its traffic (TC).
	Shadow, Span bool
	// NextIn and NextOut say where a transparent cube's packets go on.
	NextIn, NextOut Next
}

// Port is an edge that is code.
type Port struct {
	Index, Page, Slot uint16
	// Tcubes are the transparent cubes on the port, innermost first.
	Tcubes []*Cube
	// Peer is the cube at the other end and PeerPort its port; nil for a netdev or nothing.
	Peer     *Cube
	PeerPort *Port
}

// NextKind says what follows a transparent cube.
type NextKind uint8

// What follows a transparent cube.
const (
	ToHook  NextKind = iota // the stack on ingress of a netdev, the wire on its egress
	ToCube                  // another transparent cube, in the same direction
	ToPort                  // the standard cube's ingress program, on port Port
	ToPeer                  // what is behind port Port of cube Cube
	ToEntry                 // what the netdev is the peer of: port Port of cube Cube
)

// Next is where a transparent cube's packets go on.
type Next struct {
	Kind NextKind
	Cube *Cube
	Port uint16
}

// port returns the coded port with an index, or nil.
func (c *Cube) port(index uint16) *Port {
	i, ok := slices.BinarySearchFunc(c.Ports, index, func(p *Port, i uint16) int { return int(p.Index) - int(i) })
	if !ok {
		return nil
	}
	return c.Ports[i]
}

// has tells whether the cube has a program for the direction.
func (c *Cube) has(dir cube.Direction) bool { return c.function(dir) != nil }

func (c *Cube) function(dir cube.Direction) *Function {
	if dir == cube.Ingress {
		return c.Object.Functions[Ingress]
	}
	return c.Object.Functions[Egress]
}

// site is one program of one cube.
type site struct {
	cube *Cube
	dir  cube.Direction
}

// place is where the code of a site stands in the driver. The sites are laid out twice: in
// order in the first sweep, in reverse order in the second. So a packet goes up the order in
// the first and down in the second by plain forward jumps, and turns once for nothing; only
// turning up again takes a tail call.
type place struct {
	site
	sweep int
}

// String is the label of the place's code.
func (p place) String() string {
	return fmt.Sprintf("%s.%d%s", [...]string{"in", "out"}[p.dir], p.cube.ID, [...]string{"", "'"}[p.sweep])
}

// successors lists the sites that may follow directly, hot paths first.
func (s site) successors() []site {
	c := s.cube
	if c.Transparent {
		next := c.NextIn
		if s.dir == cube.Egress {
			next = c.NextOut
		}
		return next.sites(s.dir)
	}
	if s.dir == cube.Ingress && c.has(cube.Egress) {
		return []site{{c, cube.Egress}}
	}
	var out []site
	for _, p := range c.Ports {
		out = append(out, p.behind()...)
	}
	return out
}

func (n Next) sites(dir cube.Direction) []site {
	switch n.Kind {
	case ToCube:
		return []site{{n.Cube, dir}}
	case ToPort:
		return []site{{n.Cube, cube.Ingress}}
	case ToPeer:
		if p := n.Cube.port(n.Port); p != nil && p.Peer != nil {
			return p.PeerPort.arrival(p.Peer)
		}
	case ToEntry:
		if p := n.Cube.port(n.Port); p != nil {
			return p.arrival(n.Cube)
		}
		return []site{{n.Cube, cube.Ingress}}
	case ToHook:
	}
	return nil
}

// behind lists the sites that a packet leaving the port meets first.
func (p *Port) behind() []site {
	if len(p.Tcubes) > 0 {
		return []site{{p.Tcubes[0], cube.Egress}}
	}
	if p.Peer != nil {
		return p.PeerPort.arrival(p.Peer)
	}
	return nil
}

// arrival is the site that a packet entering cube c at this port meets first.
func (p *Port) arrival(c *Cube) []site {
	if n := len(p.Tcubes); n > 0 {
		return []site{{p.Tcubes[n-1], cube.Ingress}}
	}
	return []site{{c, cube.Ingress}}
}

// arrivals are all sites that a packet entering the cube at some port may meet first.
func (c *Cube) arrivals() []site {
	out := []site{}
	if !c.Transparent {
		for _, p := range c.Ports {
			if len(p.Tcubes) > 0 {
				out = append(out, p.arrival(c)...)
			}
		}
	}
	return append(out, site{c, cube.Ingress})
}

// order numbers the sites reachable from the roots so that as many edges as possible go
// forward: reverse postorder of a depth-first walk.
func order(roots []site) ([]site, map[site]int) {
	seen, post := map[site]bool{}, []site{}
	var walk func(site)
	walk = func(s site) {
		if seen[s] {
			return
		}
		seen[s] = true
		next := s.successors()
		for i := len(next) - 1; i >= 0; i-- {
			walk(next[i])
		}
		post = append(post, s)
	}
	for i := len(roots) - 1; i >= 0; i-- {
		walk(roots[i])
	}
	slices.Reverse(post)
	index := make(map[site]int, len(post))
	for i, s := range post {
		index[s] = i
	}
	return post, index
}
