// SPDX-License-Identifier: Apache-2.0

package trial

// How a cube in a trial load is connected, and with which maps.

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/state"
)

// The cubes of a trial: the one under test, and one at the other end. The linker begins with the last, so that the cube
// under test is where packets pass from the first sweep to the second: its programs are in the linked program twice.
const (
	hostCube  graph.CubeID = 1
	triedCube graph.CubeID = 2
)

// Frames of one MTU fit in one buffer at XDP, frames of the other need several.
const (
	plainMTU = 1500
	jumboMTU = 9000
)

// placement is a position in a graph that a cube can have.
type placement struct {
	name   string
	hook   cube.Hook
	shadow *graph.Shadow
	// host is set if the other cube is part of the graph, offers if the cube's offers have a receiver.
	host, offers bool
	// connect completes the graph.
	connect func(g *graph.Graph)
	// further lists the cube's programs other than pcn_ingress and pcn_egress.
	further []string
}

// placements are the positions to try. They are the same at TC and XDP, except that namespaces exist at TC only.
func (r *trier) placements() []placement {
	var out []placement
	add := func(s placement) {
		s.hook = r.hook
		s.further = r.further(0)
		out = append(out, s)
	}
	if r.t.Transparent {
		if r.service.Object(cube.TC) != nil { // its egress is at TC
			add(placement{name: "a cube on a netdev", connect: func(g *graph.Graph) {
				g.Netdevs["n0"] = &graph.Netdev{Name: "n0", Index: 1, MTU: plainMTU, Tcubes: []graph.CubeID{triedCube}}
			}})
		}
		add(placement{name: "a cube on a port", host: true, connect: func(g *graph.Graph) {
			g.Cubes[hostCube].Ports[0].Tcubes = []graph.CubeID{triedCube}
			toNetdev(g, hostCube, 0, jumboMTU)
			toNetdev(g, hostCube, 1, plainMTU)
		}})
	} else {
		netdevs := func(g *graph.Graph) {
			toNetdev(g, triedCube, 0, plainMTU)
			toNetdev(g, triedCube, 1, plainMTU)
		}
		add(placement{name: "a cube with netdevs as peers", connect: netdevs})
		add(placement{name: "a cube with another one as peer", host: true, connect: func(g *graph.Graph) {
			toNetdev(g, triedCube, 0, jumboMTU)
			g.Cubes[triedCube].Ports[1].Peer = graph.Peer{Cube: hostCube, Port: 0}
			g.Cubes[hostCube].Ports[0].Peer = graph.Peer{Cube: triedCube, Port: 1}
			toNetdev(g, hostCube, 1, plainMTU)
		}})
		if r.service.Object(r.hook).Reads(segments.OffersConstant) {
			add(placement{name: "a cube that offers packets", offers: true, connect: netdevs})
		}
		if r.hook == cube.TC && !r.t.External {
			add(placement{name: "a cube with a namespace", shadow: &graph.Shadow{}, connect: netdevs})
			add(placement{name: "a cube whose namespace gets copies", shadow: &graph.Shadow{Span: true}, connect: netdevs})
		}
	}
	for n := 1; len(r.further(n)) > 0; n++ {
		s := out[0]
		s.further = r.further(n)
		out = append(out, s)
	}
	return out
}

// further returns the n-th group of the object's further functions, as many as fit a cube beside pcn_ingress.
func (r *trier) further(n int) []string {
	all := r.service.Object(r.hook).Further
	const fit = cube.MaxPrograms - 1
	return all[min(n*fit, len(all)):min((n+1)*fit, len(all))]
}

// toNetdev gives a port a netdev as its peer.
func toNetdev(g *graph.Graph, id graph.CubeID, port uint16, mtu int) {
	name := fmt.Sprintf("n%d.%d", id, port)
	g.Netdevs[name] = &graph.Netdev{Name: name, Index: 1, MTU: mtu}
	g.Cubes[id].Ports[port].Peer = graph.Peer{Netdev: name}
}

// graph makes the graph of an attempt.
func (r *trier) graph(a attempt) *graph.Graph {
	typ := cube.TypeTC
	if r.hook == cube.XDP {
		typ = cube.TypeXDPDRV
	}
	g := &graph.Graph{Cubes: map[graph.CubeID]*graph.Node{}, Netdevs: map[string]*graph.Netdev{}}
	last := len(a.values) - 1
	n := &graph.Node{ID: triedCube, Name: r.t.Service, Type: typ, Shadow: a.at.shadow, LogLevel: trialLevels[a.values[last]],
		Constants: r.service.Object(r.hook).Switched(a.values[:last]),
		// Listed by name, so that constants missing from the object of the other hook are left out there.
		Programs: map[cube.ProgramSlot]cube.Program{{}: {Function: link.Ingress}}}
	for i, name := range a.at.further {
		n.Programs[cube.ProgramSlot{Index: i + 1}] = cube.Program{Function: name}
	}
	if !r.t.Transparent {
		n.Ports = twoPorts(0)
	}
	g.Cubes[triedCube] = n
	if a.at.offers {
		n.Constants[segments.OffersConstant] = uint32(1)
	}
	if a.at.host {
		g.Cubes[hostCube] = &graph.Node{ID: hostCube, Name: "peer", Type: typ, LogLevel: graph.LogInfo, Ports: twoPorts(2)}
	}
	a.at.connect(g)
	return g
}

func twoPorts(slot uint16) map[uint16]*graph.Port {
	return map[uint16]*graph.Port{0: {Index: 0, Name: "p0", Slot: slot}, 1: {Index: 1, Name: "p1", Slot: slot + 1}}
}

// describe makes the segment of an attempt.
func (r *trier) describe(a attempt) (*segments.Description, error) {
	g := r.graph(a)
	return r.m.Describe(graph.NewWiring(g), slices.Sorted(maps.Keys(g.Cubes)))
}

// maker makes a maker with a framework and the two cubes, without pins. done closes their maps.
func (r *trier) maker(as Like) (_ *segments.Maker, done func(), err error) {
	fw := &framework.Framework{Objects: as.Objects, Maps: map[string]*ebpf.Map{}, Hook: map[cube.Hook]map[string]*ebpf.Map{}}
	cubes := as.State.OnTrial()
	// Interfaces through which packets re-enter: their numbers are immediates, nothing is sent.
	m := segments.New(segments.Options{Framework: fw, State: cubes, Kernel: as.Kernel, Tap: 1, LoopOut: 1})
	done = func() {
		fw.Close()
		cubes.Close()
	}
	if err = tryFramework(fw); err == nil {
		err = r.tryCubes(cubes)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return m, done, nil
}

// tryFramework makes the maps of the framework.
func tryFramework(fw *framework.Framework) error {
	for _, h := range abi.Hooks {
		fw.Hook[h] = map[string]*ebpf.Map{}
		for name, spec := range fw.Objects[h].Maps {
			if fw.Maps[name] != nil {
				continue
			}
			m, err := ebpf.NewMap(small(spec))
			if err != nil {
				return fmt.Errorf("framework map %s: %w: %w", name, ErrUntried, err)
			}
			if name == abi.MapCubes {
				fw.Hook[h][name] = m
			} else {
				fw.Maps[name] = m
			}
		}
	}
	return nil
}

// tryCubes makes the cubes with their maps.
func (r *trier) tryCubes(cubes *state.State) error {
	host, err := coreObject("host", r.hook)
	if err != nil {
		return err
	}
	typ := cube.TypeTC
	if r.hook == cube.XDP {
		typ = cube.TypeXDPDRV
	}
	cubes.AddTried(state.Spec{ID: hostCube, Name: "peer", Type: typ}, map[cube.Hook]*link.Object{r.hook: host})
	spec := state.Spec{ID: triedCube, Name: r.t.Service, Service: r.t.Service, Type: typ, Transparent: r.t.Transparent}
	return cubes.AddTriedService(spec, r.service, func(spec *ebpf.MapSpec) (*ebpf.Map, error) { return ebpf.NewMap(small(spec)) })
}

// coreObject parses one of the framework's objects.
func coreObject(name string, h cube.Hook) (*link.Object, error) {
	elf, err := core.Objects.ReadFile(name + "." + h.String() + ".o")
	if err != nil {
		return nil, fmt.Errorf("framework programs: %w (run make generate)", err)
	}
	o, err := link.ParseObject(h, elf)
	if err != nil {
		return nil, fmt.Errorf("framework programs: %w", err)
	}
	return o, nil
}

// Sizes of maps in trial loads.
const (
	smallEntries = 16
	smallBytes   = 1 << 20
)

// small is a declaration whose map takes little memory. The size matters to the verifier for arrays only, because it
// knows that entries below the size exist: arrays keep their size unless they are large.
func small(spec *ebpf.MapSpec) *ebpf.MapSpec {
	s := spec.Copy()
	s.Pinning, s.Contents = ebpf.PinNone, nil
	switch s.Type {
	case ebpf.RingBuf:
		s.MaxEntries = min(s.MaxEntries, uint32(os.Getpagesize()))
	case ebpf.Array, ebpf.PerCPUArray, ebpf.ArrayOfMaps, ebpf.ProgramArray, ebpf.DevMap:
		entry := bpfmap.Bytes(s) / uint64(max(s.MaxEntries, 1))
		s.MaxEntries = min(s.MaxEntries, uint32(max(smallBytes/max(entry, 1), 1)))
	default:
		s.MaxEntries = min(s.MaxEntries, smallEntries)
	}
	if s.InnerMap != nil {
		s.InnerMap = small(s.InnerMap)
	}
	return s
}

// printOf is equal for programs that are the same to the verifier: of the constants, only those the program loads
// count.
func printOf(spec *ebpf.ProgramSpec, c *segments.Description, own segments.Maps) [32]byte {
	h := sha256.New()
	fmt.Fprintln(h, spec.Type, spec.Flags)
	var raw [16]byte
	for i := range spec.Instructions {
		ins := &spec.Instructions[i]
		binary.NativeEndian.PutUint64(raw[:], uint64(ins.OpCode)<<32|uint64(ins.Dst)<<24|uint64(ins.Src)<<16|uint64(uint16(ins.Offset)))
		binary.NativeEndian.PutUint64(raw[8:], uint64(ins.Constant))
		h.Write(raw[:])
		fmt.Fprint(h, ins.Symbol(), " ", ins.Reference(), " ")
		switch m := ins.Map(); {
		case m == nil:
		case m == own.Rodata:
			h.Write(c.ConstantAt(uint32(uint64(ins.Constant) >> 32)))
		case m == own.Arrays[cube.TC] || m == own.Arrays[cube.XDP]:
			fmt.Fprint(h, "generation")
		case m == own.Members:
			fmt.Fprint(h, "members")
		default:
			fmt.Fprintf(h, "%p", m)
		}
	}
	return [32]byte(h.Sum(nil))
}
