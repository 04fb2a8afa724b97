// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// component is a connected part of the graph, the unit of linking.
type component struct {
	ids     []CubeID // ascending
	netdevs []*Netdev
	hook    cube.Hook
	// code is what the linker gets, companion the TC side of an XDP component whose
	// transparent cubes have egress on netdevs, else nil.
	code, companion *link.Component
	rodata          []byte
	// print holds all that the code depends on: equal prints need no relink.
	print string
	// egress is true if netdevs need a program on their TC egress.
	egress bool
	// frags is true if frames may lie in several buffers.
	frags bool
	gen   *generation
	// roots are the root programs that lead into this component, by kind.
	roots map[kind][]*root
	// note says why the component is not inlined.
	note string
}

// split cuts the graph into components.
func split(g *Graph) [][]CubeID {
	parent := map[CubeID]CubeID{}
	var find func(CubeID) CubeID
	find = func(id CubeID) CubeID {
		if parent[id] == id {
			return id
		}
		parent[id] = find(parent[id])
		return parent[id]
	}
	union := func(a, b CubeID) {
		if g.Cubes[a] != nil && g.Cubes[b] != nil {
			parent[find(a)] = find(b)
		}
	}
	for id := range g.Cubes {
		parent[id] = id
	}
	for id, n := range g.Cubes {
		for _, p := range n.Ports {
			if p.Peer.Cube != 0 {
				union(id, p.Peer.Cube)
			}
			for _, t := range p.Tcubes {
				union(id, t)
			}
			if dev := g.Netdevs[p.Peer.Netdev]; dev != nil {
				for _, t := range dev.Tcubes {
					union(id, t)
				}
			}
		}
	}
	for _, dev := range g.Netdevs {
		for _, t := range dev.Tcubes {
			union(dev.Tcubes[0], t)
		}
	}
	groups := map[CubeID][]CubeID{}
	for _, id := range slices.Sorted(maps.Keys(g.Cubes)) {
		groups[find(id)] = append(groups[find(id)], id)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b []CubeID) int { return cmp.Compare(a[0], b[0]) })
}

// builder makes a component's code description from the graph.
type builder struct {
	g     *Graph
	p     *Plane
	c     *component
	cubes map[CubeID]*link.Cube
	owner map[string]portRef // the port whose peer is a netdev
	print strings.Builder
}

type portRef struct {
	id   CubeID
	port *Port
}

// describe makes the component of the cubes.
func (p *Plane) describe(g *Graph, ids []CubeID) (*component, error) {
	b := &builder{
		g: g, p: p, cubes: map[CubeID]*link.Cube{}, owner: map[string]portRef{},
		c: &component{ids: ids, hook: g.Cubes[ids[0]].Type.Hook(), roots: map[kind][]*root{}},
	}
	b.c.code = &link.Component{Hook: b.c.hook, Hops: link.DefaultHops}
	if err := b.addCubes(); err != nil {
		return nil, err
	}
	b.addPorts()
	b.addNetdevs()
	for _, id := range ids {
		b.c.code.Cubes = append(b.c.code.Cubes, b.cubes[id])
	}
	if err := b.addCompanion(); err != nil {
		return nil, err
	}
	b.finish()
	return b.c, nil
}

func (b *builder) addCubes() error {
	for _, id := range b.c.ids {
		n, in := b.g.Cubes[id], b.p.cubes[id]
		if in == nil {
			return fmt.Errorf("cube %s: %w in the data plane", n.Name, cube.ErrNotFound)
		}
		if n.Type.Hook() != b.c.hook {
			return fmt.Errorf("cube %s is of type %s, but is linked to cubes of %s: %w", n.Name, n.Type, b.c.hook, cube.ErrInvalid)
		}
		o := in.objects[b.c.hook]
		offset, err := b.constants(o, n)
		if err != nil {
			return err
		}
		b.cubes[id] = &link.Cube{
			ID: uint16(id), Name: n.Name, Object: o, Transparent: in.spec.Transparent,
			Rodata: offset, Maps: in.linkMaps(), Entry: !in.spec.Transparent,
		}
		fmt.Fprintf(&b.print, "cube %d %s %p\n", id, in.spec.UUID, o)
		if err := b.addShadow(n); err != nil {
			return err
		}
	}
	return nil
}

// constants appends a cube's constants to the component's and returns where they start.
func (b *builder) constants(o *link.Object, n *Node) (uint32, error) {
	values := maps.Clone(n.Constants)
	if values == nil {
		values = map[string]any{}
	}
	if o.HasConstant(logLevelConstant) {
		values[logLevelConstant] = uint32(n.LogLevel)
	}
	shadowConstants(o, n, values)
	data, err := o.Constants(values)
	if err != nil {
		return 0, fmt.Errorf("cube %s: %w", n.Name, err)
	}
	offset := uint32(len(b.c.rodata)+15) &^ 15
	b.c.rodata = append(b.c.rodata, make([]byte, int(offset)-len(b.c.rodata))...)
	b.c.rodata = append(b.c.rodata, data...)
	return offset, nil
}

const logLevelConstant = "pcn_log_level"

// addPorts describes the ports that are code: those that lead to a cube, and those with
// transparent cubes.
func (b *builder) addPorts() {
	coded := map[*Port]*link.Port{}
	for _, id := range b.c.ids {
		n := b.g.Cubes[id]
		for _, index := range slices.Sorted(maps.Keys(n.Ports)) {
			p := n.Ports[index]
			if p.Peer.Netdev != "" {
				b.owner[p.Peer.Netdev] = portRef{id, p}
			}
			if len(p.Tcubes) == 0 && b.peerOf(id, p) == nil {
				continue
			}
			pg, place := slotAddress(p.Slot)
			lp := &link.Port{Index: index, Page: pg, Slot: place}
			for _, t := range p.Tcubes {
				lp.Tcubes = append(lp.Tcubes, b.cubes[t])
			}
			coded[p] = lp
			b.cubes[id].Ports = append(b.cubes[id].Ports, lp)
			fmt.Fprintf(&b.print, "port %d.%d slot %d tcubes %v peer %d.%d\n", id, index, p.Slot, p.Tcubes, p.Peer.Cube, p.Peer.Port)
			b.stackOnPort(id, p)
		}
	}
	for _, id := range b.c.ids {
		for _, p := range b.g.Cubes[id].Ports {
			if peer := b.peerOf(id, p); peer != nil {
				coded[p].Peer, coded[p].PeerPort = b.cubes[p.Peer.Cube], coded[peer]
			}
		}
	}
}

// peerOf returns the port at the other end of a link between cubes, if both ends agree.
func (b *builder) peerOf(id CubeID, p *Port) *Port {
	if p.Peer.Cube == 0 {
		return nil
	}
	n := b.g.Cubes[p.Peer.Cube]
	if n == nil {
		return nil
	}
	q := n.Ports[p.Peer.Port]
	if q == nil || q.Peer.Cube != id || q.Peer.Port != p.Index {
		return nil
	}
	return q
}

// stackOnPort chains the transparent cubes of a port: ingress from the outermost to the cube,
// egress from the innermost to the peer.
func (b *builder) stackOnPort(id CubeID, p *Port) {
	c := b.cubes[id]
	for i, t := range p.Tcubes {
		lt := b.cubes[t]
		lt.NextIn = link.Next{Kind: link.ToPort, Cube: c, Port: p.Index}
		if i > 0 {
			lt.NextIn = link.Next{Kind: link.ToCube, Cube: b.cubes[p.Tcubes[i-1]]}
		}
		lt.NextOut = link.Next{Kind: link.ToPeer, Cube: c, Port: p.Index}
		if i+1 < len(p.Tcubes) {
			lt.NextOut = link.Next{Kind: link.ToCube, Cube: b.cubes[p.Tcubes[i+1]]}
		}
	}
}

// addNetdevs chains the transparent cubes of netdevs and notes which netdevs the component has.
func (b *builder) addNetdevs() {
	for _, name := range slices.Sorted(maps.Keys(b.g.Netdevs)) {
		dev := b.g.Netdevs[name]
		ref, isPeer := b.owner[name]
		if !isPeer && (len(dev.Tcubes) == 0 || b.cubes[dev.Tcubes[0]] == nil) {
			continue
		}
		b.c.netdevs = append(b.c.netdevs, dev)
		if len(dev.Tcubes) == 0 {
			continue
		}
		b.c.egress = true
		fmt.Fprintf(&b.print, "netdev tcubes %v", dev.Tcubes)
		last := link.Next{Kind: link.ToHook}
		if isPeer {
			last = link.Next{Kind: link.ToEntry, Cube: b.cubes[ref.id], Port: ref.port.Index}
			fmt.Fprintf(&b.print, " port %d.%d", ref.id, ref.port.Index)
		}
		b.print.WriteByte('\n')
		for i, t := range dev.Tcubes {
			lt := b.cubes[t]
			lt.Entry = true
			lt.NextIn, lt.NextOut = last, link.Next{Kind: link.ToHook}
			if i+1 < len(dev.Tcubes) {
				lt.NextIn = link.Next{Kind: link.ToCube, Cube: b.cubes[dev.Tcubes[i+1]]}
			}
			if i > 0 {
				lt.NextOut = link.Next{Kind: link.ToCube, Cube: b.cubes[dev.Tcubes[i-1]]}
			}
		}
	}
}

// addCompanion describes the TC egress of an XDP component: the transparent cubes on netdevs,
// with the TC build of their programs and the same maps.
func (b *builder) addCompanion() error {
	if b.c.hook != cube.XDP || !b.c.egress {
		return nil
	}
	b.c.companion = &link.Component{Hook: cube.TC, Hops: link.DefaultHops}
	twins := map[*link.Cube]*link.Cube{}
	for _, c := range b.c.code.Cubes {
		if !c.Transparent || !c.Entry {
			continue
		}
		in := b.p.cubes[CubeID(c.ID)]
		o := in.objects[cube.TC]
		if o == nil {
			return fmt.Errorf("cube %s: the service has no TC programs, which its egress needs: %w", c.Name, cube.ErrUnsupported)
		}
		offset, err := b.constants(o, b.g.Cubes[CubeID(c.ID)])
		if err != nil {
			return err
		}
		twin := *c
		twin.Object, twin.Rodata, twin.NextIn = o, offset, link.Next{Kind: link.ToHook}
		twins[c] = &twin
		b.c.companion.Cubes = append(b.c.companion.Cubes, &twin)
	}
	for _, t := range twins {
		if t.NextOut.Kind == link.ToCube {
			t.NextOut.Cube = twins[t.NextOut.Cube]
		}
	}
	return nil
}

// finish chooses the page of counters and closes the fingerprint.
func (b *builder) finish() {
	for _, id := range b.c.ids {
		n := b.g.Cubes[id]
		if len(n.Ports) > 0 {
			first := n.Ports[slices.Min(slices.Collect(maps.Keys(n.Ports)))]
			b.c.code.Page, _ = slotAddress(first.Slot)
			break
		}
	}
	b.c.frags = b.c.hook == cube.XDP && b.p.needFrags(b.c.netdevs)
	fmt.Fprintf(&b.print, "page %d frags %t tap %d\n%x", b.c.code.Page, b.c.frags, b.p.opts.Taps[cube.TC], b.c.rodata)
	b.c.print = b.print.String()
}

// needFrags tells whether a netdev's frames may not fit one buffer at XDP.
func (p *Plane) needFrags(devs []*Netdev) bool {
	mtu := p.opts.MTU
	if mtu == nil {
		mtu = kernelMTU
	}
	limit := os.Getpagesize() - 640 // headroom, shared info and Ethernet header
	for _, d := range devs {
		n := d.MTU
		if n == 0 && d.Index != 0 {
			n, _ = mtu(d.Index) // a netdev that is gone by now has no frames
		}
		if n > limit {
			return true
		}
	}
	return false
}

func kernelMTU(ifindex int) (int, error) {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return 0, fmt.Errorf("netdev %d: %w", ifindex, err)
	}
	return l.Attrs().MTU, nil
}
