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
	NoSlot      = Slots // the slot of a page that counts packets of no port
	Entries     = 65536
	slotSize    = 32 // sizeof(struct pcn_slot)
	slotShift   = 5
	slotTx      = 16     // offset of the counters of sent packets in a slot
	skipMark    = 0x9c5b // PCN_SKIP
	skipHost    = 0x9c5d // PCN_SKIP_HOST
	DefaultHops = 128    // PCN_MAX_HOPS
	// redirectIngress is BPF_F_INGRESS.
	redirectIngress = 1
)

// Component becomes one program per role: a connected part of the cube graph, or a segment of one that is too large,
// with everything that its code depends on.
type Component struct {
	Hook  cube.Hook
	Cubes []*Cube // by ascending ID
	// Page is the page of counters that most ports of the component have.
	Page uint16
	// Hops limits how often a packet may turn back, cross into another segment or re-enter.
	Hops int
	// Joined is true if packets come from other segments by edges that are data.
	Joined bool
	// Host is true for cubes between the netdevs and the host's stack. Packets of all netdevs enter at FromWire on
	// the way in, and at FromStack on the way out; nil if they enter in another segment.
	Host                bool
	FromWire, FromStack *Cube
	// Companion is true for the TC side of cubes at XDP.
	Companion bool
	// Trace is what trace sessions observe; nil for none.
	Trace *Trace
}

// Cube is one instance in a component.
type Cube struct {
	ID   uint16
	Name string
	// Service is the name of the cube's service, for error reports.
	Service     string
	Object      *Object
	Transparent bool
	// Rodata is where the instance's constants start in the component's constants.
	Rodata uint32
	// Maps are the instance's maps by name.
	Maps map[string]asm.FDer
	// Ports of a standard cube that code depends on: those with a cube as peer or with transparent cubes. Ports
	// that only lead to a netdev are data. By ascending index.
	Ports []*Port
	// Entry is true if packets from netdevs may enter here.
	Entry bool
	// Generic is true for a cube of type XDP_SKB.
	Generic bool
	// Alike is true if the cube stands for several: its number is data, which programs read where packets enter, and
	// nothing else of it differs. It is the only cube of its component.
	Alike bool
	// Stacks is true for a standard cube some of whose ports have a transparent cube that is data (pcn_stacks).
	Stacks bool
	// Shadow is true for a cube with a namespace, Span if that gets copies of all its traffic (TC).
	Shadow, Span bool
	// NextIn and NextOut are the next steps of a transparent cube's packets.
	NextIn, NextOut Next
	// Redirects is true for a transparent cube whose programs may redirect packets to its outputs.
	Redirects bool
	// Replies is true for a transparent cube whose ingress programs may send packets back to where they came from.
	Replies bool
	// Offers is true for a standard cube whose programs may offer packets to the transparent cubes of a port.
	Offers bool
	// OfferedBy is the standard cube on whose port a transparent cube is, if its programs may offer packets.
	// LastTaker is set for the outermost transparent cube of the port that takes offers.
	OfferedBy *Cube
	LastTaker bool
	// Programs by direction, in ascending order of their indexes; empty for those of the object alone: Ingress and
	// Egress, with index 0.
	Programs [2][]CubeProgram
	// Foreign is true for a cube of another segment: only ID, Name and Transparent are known, and the indexes of
	// its ports. Packets go there by a tail call.
	Foreign bool
}

// CubeProgram is one of a cube's programs in a direction. Packets enter at index 0; programs call
// each other by index.
type CubeProgram struct {
	Index uint8
	// Object contains the function and its constants.
	Object   *Object
	Function *Function
	// Rodata is where the constants of the object start in the component's constants.
	Rodata uint32
}

// Port is an edge that is code.
type Port struct {
	Index, Page, Slot uint16
	// Tcubes are the transparent cubes on the port, innermost first. Takes is true if one of them takes offers.
	Tcubes []*Cube
	Takes  bool
	// Peer is the cube at the other end and PeerPort its port; nil for a netdev or nothing. For the port of a
	// foreign cube only Index is known.
	Peer     *Cube
	PeerPort *Port
}

// NextKind is the next step after a transparent cube.
type NextKind uint8

// The steps after a transparent cube.
const (
	ToHook   NextKind = iota // the stack on ingress of a netdev, the wire on its egress
	ToCube                   // another transparent cube, in the same direction
	ToPort                   // the standard cube's ingress program, on port Port
	ToPeer                   // to the peer of port Port of cube Cube
	ToEntry                  // to the port whose peer is the netdev: port Port of cube Cube
	ToWire                   // to the netdev of the cube, by a redirect (XDP)
	ToParent                 // as the row of the cube in pcn_parents says: ToPort on ingress, out of the port on egress
)

// Next is the next step of a transparent cube's packets.
type Next struct {
	Kind NextKind
	Cube *Cube
	Port uint16
}

// Crossed reports whether packets come from cubes of other segments, through the resume program.
func (c *Component) Crossed() bool {
	foreign := func(c *Cube) bool { return c != nil && c.Foreign }
	return c.Joined || slices.ContainsFunc(c.Cubes, func(lc *Cube) bool {
		return foreign(lc.NextIn.Cube) || foreign(lc.NextOut.Cube) || slices.ContainsFunc(lc.Ports, func(p *Port) bool {
			return foreign(p.Peer) || slices.ContainsFunc(p.Tcubes, foreign)
		})
	})
}

// port returns the coded port with an index, or nil.
func (c *Cube) port(index uint16) *Port {
	i, ok := slices.BinarySearchFunc(c.Ports, index, func(p *Port, i uint16) int { return int(p.Index) - int(i) })
	if !ok {
		return nil
	}
	return c.Ports[i]
}

// has reports whether the cube has programs for the direction.
func (c *Cube) has(dir cube.Direction) bool { return c.Foreign || c.program(dir, 0) != nil }

// programs lists the cube's programs for a direction.
func (c *Cube) programs(dir cube.Direction) []CubeProgram {
	if c.Foreign || len(c.Programs[cube.Ingress])+len(c.Programs[cube.Egress]) > 0 {
		return c.Programs[dir]
	}
	f := c.Object.Functions[[...]string{Ingress, Egress}[dir]]
	if f == nil {
		return nil
	}
	return []CubeProgram{{Object: c.Object, Function: f, Rodata: c.Rodata}}
}

// program returns one of the cube's programs, or nil.
func (c *Cube) program(dir cube.Direction, index uint8) *CubeProgram {
	for _, p := range c.programs(dir) {
		if p.Index == index {
			return &p
		}
	}
	return nil
}

// site is one program of one cube.
type site struct {
	cube  *Cube
	dir   cube.Direction
	index uint8
}

// entrance is the first of a cube's programs in a direction.
func entrance(c *Cube, dir cube.Direction) site { return site{cube: c, dir: dir} }

func (s site) program() *CubeProgram { return s.cube.program(s.dir, s.index) }

// place is the position of a site's code in the driver. The sites are laid out twice: in order in the first sweep, in
// reverse order in the second. So a packet moves along the order in the first and against it in the second by plain
// forward jumps, and turning once is free; only turning again takes a tail call.
type place struct {
	site
	sweep int
}

// String is the label of the place's code.
func (p place) String() string {
	label := fmt.Sprintf("%s.%d", [...]string{"in", "out"}[p.dir], p.cube.ID)
	if p.index > 0 {
		label += fmt.Sprintf(":%d", p.index)
	}
	return label + [...]string{"", "'"}[p.sweep]
}

// successors lists the sites of the same component that may follow directly, hot paths first.
func (s site) successors() []site {
	c := s.cube
	out := s.siblings()
	switch {
	case c.Transparent && s.dir == cube.Ingress:
		out = append(out, c.NextIn.sites(s.dir)...)
	case c.Transparent:
		out = append(out, c.NextOut.sites(s.dir)...)
	case s.dir == cube.Ingress && c.has(cube.Egress):
		out = append(out, entrance(c, cube.Egress))
	default:
		for _, p := range c.Ports {
			out = append(out, p.behind()...)
		}
	}
	return slices.DeleteFunc(out, func(to site) bool { return to.cube.Foreign })
}

// siblings are the programs of the cube in the same direction with a higher index. A program may
// call the others, too, but that is not how programs are usually chained.
func (s site) siblings() []site {
	var out []site
	for _, p := range s.cube.programs(s.dir) {
		if p.Index > s.index {
			out = append(out, site{s.cube, s.dir, p.Index})
		}
	}
	return out
}

func (n Next) sites(dir cube.Direction) []site {
	switch n.Kind {
	case ToCube:
		return []site{entrance(n.Cube, dir)}
	case ToPort:
		return []site{entrance(n.Cube, cube.Ingress)}
	case ToPeer:
		if p := n.Cube.port(n.Port); p != nil && p.Peer != nil {
			return p.PeerPort.arrival(p.Peer)
		}
	case ToEntry:
		if p := n.Cube.port(n.Port); p != nil {
			return p.arrival(n.Cube)
		}
		return []site{entrance(n.Cube, cube.Ingress)}
	case ToHook, ToParent, ToWire:
	}
	return nil
}

// behind lists the sites that a packet leaving the port reaches first.
func (p *Port) behind() []site {
	if len(p.Tcubes) > 0 {
		return []site{entrance(p.Tcubes[0], cube.Egress)}
	}
	if p.Peer != nil {
		return p.PeerPort.arrival(p.Peer)
	}
	return nil
}

// arrival is the first site of a packet that enters cube c at this port. Into a cube of another segment it goes through
// that segment, even if the port's transparent cubes are in this one.
func (p *Port) arrival(c *Cube) []site {
	if n := len(p.Tcubes); n > 0 && !c.Foreign {
		return []site{entrance(p.Tcubes[n-1], cube.Ingress)}
	}
	return []site{entrance(c, cube.Ingress)}
}

// arrivals are all sites that a packet entering the cube at some port may reach first.
func (c *Cube) arrivals() []site {
	out := []site{}
	if !c.Transparent {
		for _, p := range c.Ports {
			if len(p.Tcubes) > 0 {
				out = append(out, p.arrival(c)...)
			}
		}
	}
	return append(out, entrance(c, cube.Ingress))
}

// order numbers the sites reachable from the roots so that as many edges as possible go forward: reverse postorder of a
// depth-first walk.
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
