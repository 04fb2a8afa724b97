// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/netdevs"
	"github.com/polycube/polycube/internal/datapath/state"
)

// Description is a segment in the linker's form.
type Description struct {
	IDs []graph.CubeID // ascending
	// Netdevs are those whose received packets enter here, OutNetdevs those whose sent packets do.
	Netdevs, OutNetdevs []*graph.Netdev
	Hook                cube.Hook
	// Code is the input of the linker, companion the TC side of an XDP segment whose transparent cubes have egress
	// on netdevs, otherwise nil.
	Code, companion *link.Component
	Rodata          []byte
	// Print contains everything that the code depends on: equal prints need no relink. Shape is the same without
	// the values of constants.
	Print, Shape string
	// Alike is true if other cubes may have the same programs: their code and their print depend on nothing of this cube.
	Alike bool
	// egress is true if there are transparent cubes of netdevs, which see TC egress, too.
	egress bool
	// Frags is true if frames may be in several buffers.
	Frags bool
	// Constants are those of its cubes.
	Constants map[state.Linked][]byte
	// Used contains other dependencies of the description, by cube.
	Used []state.UsedCube
}

// builder creates a segment's code description from the graph.
type builder struct {
	*graph.Wiring
	m     *Maker
	c     *Description
	cubes map[graph.CubeID]*link.Cube
	ports map[*graph.Port]*link.Port
	local map[graph.CubeID]bool
	print strings.Builder
}

// Describe creates the segment of the cubes.
func (m *Maker) Describe(w *graph.Wiring, ids []graph.CubeID) (*Description, error) {
	b := &builder{
		Wiring: w, m: m, cubes: map[graph.CubeID]*link.Cube{}, ports: map[*graph.Port]*link.Port{}, local: map[graph.CubeID]bool{},
		c: &Description{IDs: ids, Hook: w.Graph.Cubes[ids[0]].Type.Hook(),
			Constants: map[state.Linked][]byte{}},
	}
	b.c.Code = &link.Component{Hook: b.c.Hook, Hops: link.DefaultHops}
	b.c.Alike = b.alike(ids)
	if err := b.addCubes(); err != nil {
		return nil, err
	}
	b.addPorts()
	b.addNetdevs()
	for _, id := range ids {
		b.addStack(id)
		b.c.Code.Cubes = append(b.c.Code.Cubes, b.cubes[id])
	}
	if err := b.addCompanion(); err != nil {
		return nil, err
	}
	b.finish()
	return b.c, nil
}

func (b *builder) addCubes() error {
	for _, id := range b.c.IDs {
		n, in := b.Graph.Cubes[id], b.m.state.Cube(id)
		if in == nil {
			return fmt.Errorf("cube %s: %w in the data plane", n.Name, cube.ErrNotFound)
		}
		if b.Stack[id].Host && n.Type == cube.TypeXDPSKB {
			return fmt.Errorf("cube %s is of type %s, which is not faster than TC: cubes at the host are of type TC or XDP_DRV: %w", n.Name, n.Type, cube.ErrUnsupported)
		}
		if n.Type.Hook() != b.c.Hook {
			return fmt.Errorf("cube %s is of type %s, but is connected to cubes of type %s: %w", n.Name, n.Type, b.c.Hook, cube.ErrInvalid)
		}
		lc := &link.Cube{
			ID: uint16(id), Name: n.Name, Service: in.Spec().Service, Transparent: in.Spec().Transparent,
			Maps: in.LinkMaps(), Entry: !in.Spec().Transparent, Generic: n.Type == cube.TypeXDPSKB, Alike: b.c.Alike,
		}
		if err := b.addPrograms(lc, n, b.c.Hook); err != nil {
			return err
		}
		b.cubes[id], b.local[id] = lc, true
		b.c.Code.Joined = b.c.Code.Joined || len(b.ToCube[id]) > 0
		b.c.Used = append(b.c.Used, in.Used())
		if b.c.Alike {
			fmt.Fprintf(&b.print, "cubes of type %s %d\n", n.Type, n.Maps)
		} else {
			fmt.Fprintf(&b.print, "cube %d %s %d\n", id, in.Spec().UUID, n.Maps)
		}
		if err := b.addShadow(n); err != nil {
			return err
		}
	}
	return nil
}

// addPrograms gives a cube its programs for a hook.
func (b *builder) addPrograms(lc *link.Cube, n *graph.Node, h cube.Hook) error {
	offsets := map[*link.Object]uint32{}
	programs, err := b.m.state.ProgramsOf(n, h)
	if err != nil {
		return err
	}
	for _, pr := range programs {
		if _, there := offsets[pr.Object]; !there {
			if offsets[pr.Object], err = b.constants(pr.Object, n); err != nil {
				return err
			}
		}
		if pr.Object.Reads(link.OutputsConstant) {
			if !lc.Transparent {
				return fmt.Errorf("cube %s: its programs call pcn_pkt_redirect, which is for transparent cubes: "+
					"to send a packet out of a port, use pcn_pkt_send: %w", n.Name, cube.ErrInvalid)
			}
			lc.Redirects = true
		}
		if pr.Object.Reads(link.RepliesConstant) {
			if !lc.Transparent {
				return fmt.Errorf("cube %s: its programs call pcn_pkt_reply, which is for transparent cubes: "+
					"to send a packet back, use pcn_pkt_send with md->in_port: %w", n.Name, cube.ErrInvalid)
			}
			lc.Replies = true
		}
		lc.Offers = lc.Offers || pr.Object.IsSet(b.c.Constants[state.Linked{ID: n.ID, Object: pr.Object}], OffersConstant)
		lc.Programs[pr.Direction] = append(lc.Programs[pr.Direction], link.CubeProgram{
			Index: uint8(pr.Index), Object: pr.Object, Function: pr.Function, Rodata: offsets[pr.Object],
		})
		fmt.Fprintf(&b.print, "program %s %d.%d %p offers %t\n", h, pr.Direction, pr.Index, pr.Function, lc.Offers)
	}
	return nil
}

// cube returns the linker's view of a cube, a foreign one if it is not in this segment.
func (b *builder) cube(id graph.CubeID) *link.Cube {
	if b.cubes[id] == nil {
		b.cubes[id] = &link.Cube{
			ID: uint16(id), Name: b.Graph.Cubes[id].Name, Generic: b.Graph.Cubes[id].Type == cube.TypeXDPSKB, Foreign: true,
		}
	}
	return b.cubes[id]
}

// port returns the linker's view of a port.
func (b *builder) port(id graph.CubeID, p *graph.Port) *link.Port {
	if lp := b.ports[p]; lp != nil {
		return lp
	}
	pg, place := abi.SlotAddress(p.Slot)
	lp := &link.Port{Index: p.Index, Page: pg, Slot: place}
	b.ports[p] = lp
	for _, t := range p.Tcubes {
		lp.Tcubes = append(lp.Tcubes, b.cube(t))
		lp.Takes = lp.Takes || b.takesOffers(t)
	}
	if peer := b.PeerOf(id, p); peer != nil {
		lp.Peer, lp.PeerPort = b.cube(p.Peer.Cube), b.port(p.Peer.Cube, peer)
	}
	return lp
}

// constants appends a cube's constants to the component's and returns where they start.
func (b *builder) constants(o *link.Object, n *graph.Node) (uint32, error) {
	values := map[string]any{}
	for name, v := range n.Constants {
		if o.HasConstant(name) || len(n.Programs) == 0 {
			values[name] = v
		}
	}
	if o.HasConstant(logLevelConstant) {
		values[logLevelConstant] = uint32(n.LogLevel)
	}
	if o.HasConstant(kernelSkbConstant) && !b.m.kernel.SkbOfContext {
		values[kernelSkbConstant] = uint32(0)
	}
	if o.HasConstant(kernelCTConstant) && !b.m.kernel.ConnectionLookup {
		values[kernelCTConstant] = uint32(0)
	}
	shadowConstants(o, n, values)
	b.offersConstant(o, n, values)
	data, err := o.Constants(values)
	if as, frozen := b.m.state.Cube(n.ID).FrozenConstants(o); frozen {
		data, err = as, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cube %s: %w", n.Name, err)
	}
	b.c.Constants[state.Linked{ID: n.ID, Object: o}] = data
	offset := uint32(len(b.c.Rodata)+15) &^ 15
	b.c.Rodata = append(b.c.Rodata, make([]byte, int(offset)-len(b.c.Rodata))...)
	b.c.Rodata = append(b.c.Rodata, data...)
	return offset, nil
}

// Constants of the headers that the linker sets.
const (
	logLevelConstant  = "pcn_log_level"
	kernelSkbConstant = "pcn_kernel_skb" // of <pcn/csum.h>
	kernelCTConstant  = "pcn_kernel_ct"  // of cube efw
)

// addPorts describes the ports that are code: those that lead to a cube, and those with
// transparent cubes.
func (b *builder) addPorts() {
	for _, id := range b.c.IDs {
		n := b.Graph.Cubes[id]
		for _, index := range slices.Sorted(maps.Keys(n.Ports)) {
			p := n.Ports[index]
			if len(p.Tcubes) == 0 && b.PeerOf(id, p) == nil || b.data(id, p) {
				continue
			}
			b.cubes[id].Ports = append(b.cubes[id].Ports, b.port(id, p))
			b.printPort(id, p)
		}
	}
}

// printPort adds to the fingerprint what the code of a port depends on.
func (b *builder) printPort(id graph.CubeID, p *graph.Port) {
	fmt.Fprintf(&b.print, "port %d.%d slot %d peer %d.%d %t tcubes", id, p.Index, p.Slot,
		p.Peer.Cube, p.Peer.Port, b.local[p.Peer.Cube])
	for _, t := range p.Tcubes {
		fmt.Fprintf(&b.print, " %d %t %t", t, b.local[t], b.takesOffers(t))
	}
	b.print.WriteByte('\n')
}

// addForeignPort adds the port of a cube in another segment whose transparent cubes are in this one.
func (b *builder) addForeignPort(c *link.Cube, ref graph.PortRef) {
	i, there := slices.BinarySearchFunc(c.Ports, ref.Port.Index, func(p *link.Port, index uint16) int { return cmp.Compare(p.Index, index) })
	if !there {
		c.Ports = slices.Insert(c.Ports, i, b.port(ref.ID, ref.Port))
		b.printPort(ref.ID, ref.Port)
	}
}

// addStack chains a transparent cube to its neighbours. On a port, ingress goes from the outermost to the cube, egress
// from the innermost to the peer; on a netdev, ingress continues to the port whose peer it is, or the stack, and egress
// to the wire.
func (b *builder) addStack(id graph.CubeID) {
	at, there := b.Stack[id]
	if !there {
		return
	}
	lt := b.cubes[id]
	if b.Apart[id] {
		lt.Entry, b.c.Code.Joined = true, true
		lt.NextIn, lt.NextOut = link.Next{Kind: link.ToParent}, link.Next{Kind: link.ToParent}
		b.printNext(lt.NextIn)
		return
	}
	inward, outward := at.I-1, at.I+1
	if at.Dev == nil {
		c := b.cube(at.Port.ID)
		if c.Foreign {
			b.addForeignPort(c, at.Port)
		}
		lt.NextIn = link.Next{Kind: link.ToPort, Cube: c, Port: at.Port.Port.Index}
		lt.NextOut = link.Next{Kind: link.ToPeer, Cube: c, Port: at.Port.Port.Index}
		b.addOffers(lt, at)
	} else {
		inward, outward = at.I+1, at.I-1
		lt.Entry, b.c.egress = true, true
		lt.NextIn, lt.NextOut = link.Next{Kind: link.ToHook}, link.Next{Kind: link.ToHook}
		b.addHost(lt, at)
		if b.c.Hook == cube.XDP {
			lt.NextOut.Kind = link.ToWire
			b.c.Code.Joined = b.c.Code.Joined || !at.Host && (b.Owner[at.Dev.Name].Port != nil || len(b.ToNetdev[at.Dev.Name]) > 0)
		}
		if ref, isPeer := b.Owner[at.Dev.Name]; isPeer {
			lt.NextIn = link.Next{Kind: link.ToEntry, Cube: b.cube(ref.ID), Port: ref.Port.Index}
		}
	}
	if inward >= 0 && inward < len(at.Chain) {
		lt.NextIn = link.Next{Kind: link.ToCube, Cube: b.cube(at.Chain[inward])}
	}
	if outward >= 0 && outward < len(at.Chain) {
		lt.NextOut = link.Next{Kind: link.ToCube, Cube: b.cube(at.Chain[outward])}
	}
	b.printNext(lt.NextIn)
	b.printNext(lt.NextOut)
}

// addHost notes where packets enter cubes at the host's stack.
func (b *builder) addHost(lt *link.Cube, at graph.Stacked) {
	if !at.Host {
		return
	}
	b.c.Code.Host = true
	if at.I == 0 {
		b.c.Code.FromWire = lt
	}
	if at.I == len(at.Chain)-1 {
		b.c.Code.FromStack = lt
	}
	fmt.Fprintf(&b.print, "host %d of %d\n", at.I, len(at.Chain))
}

func (b *builder) printNext(n link.Next) {
	fmt.Fprintf(&b.print, "next %d", n.Kind)
	if n.Cube != nil {
		fmt.Fprintf(&b.print, " %d.%d %t", n.Cube.ID, n.Port, n.Cube.Foreign)
	}
	b.print.WriteByte('\n')
}

// addNetdevs records which netdevs lead into the segment.
func (b *builder) addNetdevs() {
	for _, dev := range b.Netdevs {
		in, out := b.Enters(dev)
		if b.local[in] {
			b.c.Netdevs = append(b.c.Netdevs, dev)
		}
		if b.local[out] {
			b.c.OutNetdevs = append(b.c.OutNetdevs, dev)
		}
	}
}

// addCompanion describes the TC side of an XDP component: the transparent cubes on netdevs, on the way out, and those at the
// host's stack also on the way in, for netdevs without XDP. They have the TC build of their programs and the same maps.
func (b *builder) addCompanion() error {
	if b.c.Hook != cube.XDP || !b.c.egress {
		return nil
	}
	b.c.companion = &link.Component{Hook: cube.TC, Hops: link.DefaultHops, Companion: true}
	twins := map[*link.Cube]*link.Cube{}
	for _, c := range b.c.Code.Cubes {
		if !c.Transparent || !c.Entry {
			continue
		}
		if b.m.state.Cube(graph.CubeID(c.ID)).Object(cube.TC) == nil {
			return fmt.Errorf("cube %s: the service has no TC programs, which its egress needs: %w", c.Name, cube.ErrUnsupported)
		}
		twin := *c
		twin.Programs = [2][]link.CubeProgram{}
		if !b.c.Code.Host {
			twin.NextIn = link.Next{Kind: link.ToHook}
		}
		if err := b.addPrograms(&twin, b.Graph.Cubes[graph.CubeID(c.ID)], cube.TC); err != nil {
			return err
		}
		twins[c] = &twin
		b.c.companion.Cubes = append(b.c.companion.Cubes, &twin)
	}
	b.c.companion.Host, b.c.companion.FromWire, b.c.companion.FromStack = b.c.Code.Host, twins[b.c.Code.FromWire], twins[b.c.Code.FromStack]
	for _, t := range twins {
		for _, next := range []*link.Next{&t.NextIn, &t.NextOut} {
			if next.Kind == link.ToCube && !next.Cube.Foreign {
				next.Cube = twins[next.Cube]
			}
		}
		if t.NextOut.Kind == link.ToWire {
			t.NextOut.Kind = link.ToHook
		}
	}
	return nil
}

// finish chooses the page of counters and closes the fingerprint.
func (b *builder) finish() {
	for _, id := range b.c.IDs {
		n := b.Graph.Cubes[id]
		if len(n.Ports) > 0 {
			first := n.Ports[slices.Min(slices.Collect(maps.Keys(n.Ports)))]
			b.c.Code.Page, _ = abi.SlotAddress(first.Slot)
			break
		}
	}
	for _, lc := range b.c.Code.Cubes {
		if lc.Stacks {
			fmt.Fprintf(&b.print, "stacks %d\n", lc.ID)
		}
	}
	b.trace()
	b.c.Frags = b.c.Hook == cube.XDP && (b.c.Code.Host || netdevs.NeedFrags(b.c.Netdevs, b.m.askMTU))
	fmt.Fprintf(&b.print, "page %d frags %t tap %d joined %t\n", b.c.Code.Page, b.c.Frags, b.m.again(b.c.Hook), b.c.Code.Joined)
	shape := b.print.Len()
	fmt.Fprintf(&b.print, "%x", b.c.Rodata)
	b.c.Print = b.print.String()
	b.c.Shape = b.c.Print[:shape]
}
