// SPDX-License-Identifier: Apache-2.0

// Package inject runs a packet through a copy of a part of the data plane, to predict its path. The packet is neither
// received nor sent, and nothing is learned or counted.
package inject

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/refusal"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/state"
	"github.com/polycube/polycube/internal/datapath/tables"
	"github.com/polycube/polycube/internal/kernel"
)

// Injection is a packet whose path is requested.
type Injection struct {
	Cube graph.CubeID
	// Port of a standard cube on which it would be received. A transparent cube gets the packet in a direction.
	Port      uint16
	Direction cube.Direction
	Frame     []byte
}

// Sandbox is a copy of a connected part of the graph: its own framework, with the present rows that lead to netdevs;
// its own programs; and maps with the contents of the cubes' maps. Packets run through it by BPF_PROG_TEST_RUN, which
// neither sends nor receives.
type Sandbox struct {
	from From
	g    *graph.Graph
	hook cube.Hook
	// transparent says that the cube that gets the packet is transparent.
	transparent bool
	rows        *tables.Rows
	segments    []*segments.Description
	specs       map[graph.CubeID]map[string]*ebpf.MapSpec
	fw          map[string]*ebpf.Map
	clones      map[ebpf.MapID]*ebpf.Map // of cubes' maps, by the original
	progs       map[graph.CubeID]*ebpf.Program
	owned       []interface{ Close() error }
}

// Limits of an injection.
const (
	injectRuns  = 256 // of programs: the packet and its copies
	sandboxRing = 1 << 20
)

// From is the data plane to copy a part of.
type From struct {
	Graph     *graph.Graph
	Wiring    *graph.Wiring
	Segments  [][]graph.CubeID // in use
	Maker     *segments.Maker
	State     *state.State
	Tables    *tables.Tables
	Framework *framework.Framework
	Kernel    kernel.Features
	// Copies returns the frames for the ports of a set that a cube floods a packet to.
	Copies func(id graph.CubeID, in uint16, words [4]uint32, frame []byte) iter.Seq2[uint16, []byte]
}

// Run returns what the cubes would do with a packet, as records of its steps (struct pcn_record), followed by those of
// its copies. Nothing is learned, sent or counted.
func (s *Sandbox) Run(ctx context.Context, at Injection) ([][]byte, error) {
	if err := errors.Join(s.makeFramework(), ctx.Err()); err != nil {
		return nil, err
	}
	if err := s.copyMaps(ctx); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	return s.runAll(ctx, at)
}

// New describes the cube's part of the graph, and keeps the cubes' maps open.
func New(from From, id graph.CubeID) (*Sandbox, error) {
	if from.Graph == nil || from.Graph.Cubes[id] == nil {
		return nil, fmt.Errorf("cube %d: %w", id, cube.ErrNotFound)
	}
	s := &Sandbox{
		from: from, g: &graph.Graph{Cubes: map[graph.CubeID]*graph.Node{}, Netdevs: from.Graph.Netdevs, Trace: &link.Trace{Sessions: []link.Session{{}}}},
		hook: from.Graph.Cubes[id].Type.Hook(), transparent: from.State.Cube(id).Spec().Transparent,
		specs: map[graph.CubeID]map[string]*ebpf.MapSpec{}, fw: map[string]*ebpf.Map{},
		clones: map[ebpf.MapID]*ebpf.Map{}, progs: map[graph.CubeID]*ebpf.Program{},
	}
	for other, n := range from.Graph.Cubes {
		copied := *n
		if n.Shadow != nil {
			copied.Shadow = &graph.Shadow{Ends: n.Shadow.Ends} // a span's copies would be sent
		}
		s.g.Cubes[other] = &copied
	}
	w := graph.NewWiring(s.g)
	w.SetApartLike(from.Wiring)
	s.rows = from.Tables.Derive(w, nil)
	stacks, links := w.Edges()
	var part []graph.CubeID
	for _, ids := range w.Split(slices.Concat(stacks, links, w.Redirects())) {
		if slices.Contains(ids, id) {
			part = ids
		}
	}
	for _, ids := range from.Segments {
		if !slices.Contains(part, ids[0]) {
			continue
		}
		described, err := from.Maker.Describe(w, ids)
		if err == nil {
			described.DropCompanion() // packets that leave through a netdev have left
			err = described.Hold()
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("copy the programs: %w", err)
		}
		s.segments = append(s.segments, described)
	}
	for _, other := range part {
		s.specs[other] = from.State.Cube(other).Specs()
	}
	return s, nil
}

func (s *Sandbox) own(m interface{ Close() error }) { s.owned = append(s.owned, m) }

// Close frees the copy.
func (s *Sandbox) Close() {
	for _, c := range s.segments {
		c.GiveBack()
	}
	for _, m := range s.owned {
		_ = m.Close()
	}
}

// newMap creates a map that belongs to the sandbox alone.
func (s *Sandbox) newMap(spec *ebpf.MapSpec) (*ebpf.Map, error) {
	fresh := spec.Copy()
	fresh.Pinning, fresh.Contents = ebpf.PinNone, nil
	m, err := bpfmap.New(fresh)
	if err != nil {
		return nil, fmt.Errorf("copy map %s: %w", spec.Name, err)
	}
	s.own(m)
	return m, nil
}

// makeFramework creates maps of the framework with the rows that lead to netdevs.
func (s *Sandbox) makeFramework() error {
	for name, spec := range s.from.Framework.Objects[s.hook].Maps {
		spec = spec.Copy()
		if spec.Type == ebpf.RingBuf {
			spec.MaxEntries = sandboxRing
		}
		var err error
		if s.fw[name], err = s.newMap(spec); err != nil {
			return err
		}
	}
	now, err := cube.Time()
	if err != nil {
		return err
	}
	if err := s.fw[abi.MapTracing].Put(uint32(0), now+uint64(time.Hour)); err != nil {
		return fmt.Errorf("prepare the trace: %w", err)
	}
	return s.writeRows()
}

// writeRows writes where the cubes' ports lead. A flood's row has no netdevs and no interface of ours, so that no copy
// is made: the copies are run separately.
func (s *Sandbox) writeRows() error {
	t := s.rows
	var errs []error
	for _, c := range s.segments {
		for _, id := range c.IDs {
			for index := range uint16(link.MaxPorts) { // ports, or outputs
				key := abi.ExitKey(id, index)
				if row, ok := t.Exits[key]; ok {
					errs = append(errs, s.fw[abi.MapExits].Put(key, row))
				}
				if ifindex, ok := t.Devices[key]; ok {
					errs = append(errs, s.fw[abi.MapDevices].Put(key, ifindex))
				}
				if ifindex, ok := t.Shadows[key]; ok {
					errs = append(errs, s.fw[abi.MapShadows].Put(key, ifindex))
				}
			}
			if row, ok := t.Stacks[uint32(id)]; ok {
				errs = append(errs, s.fw[abi.MapStacks].Put(uint32(id), row))
			}
			if row, ok := t.Parents[uint32(id)]; ok {
				errs = append(errs, s.fw[abi.MapParents].Put(uint32(id), row))
			}
			if at, ok := t.Floods[uint32(id)]; ok {
				row := *at
				row.Count, row.Tap, row.Copies, row.Group, row.SimplePorts = 0, 0, 0, 0, abi.PortSet{}
				errs = append(errs, s.fw[abi.MapFloods].Put(uint32(id), row))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("copy the tables: %w", err)
	}
	return nil
}

// copyMaps gives the cubes their own maps, with the current contents of theirs. A map shared by cubes is one map here
// too.
func (s *Sandbox) copyMaps(ctx context.Context) error {
	for _, c := range s.segments {
		for _, lc := range c.Code.Cubes {
			if lc.Foreign {
				continue
			}
			own := make(map[string]asm.FDer, len(lc.Maps))
			for _, name := range slices.Sorted(maps.Keys(lc.Maps)) {
				if err := ctx.Err(); err != nil {
					return fmt.Errorf("copy maps: %w", err)
				}
				m, err := s.copyMap(s.specs[graph.CubeID(lc.ID)][name], lc.Maps[name].(*ebpf.Map))
				if err != nil {
					return fmt.Errorf("cube %s, map %s: %w", lc.Name, name, err)
				}
				own[name] = m
			}
			for _, held := range lc.Maps {
				_ = held.(*ebpf.Map).Close()
			}
			lc.Maps = own
		}
	}
	return nil
}

func (s *Sandbox) copyMap(spec *ebpf.MapSpec, from *ebpf.Map) (*ebpf.Map, error) {
	info, err := from.Info()
	if err != nil {
		return nil, fmt.Errorf("read its layout: %w", err)
	}
	id, _ := info.ID()
	if m := s.clones[id]; m != nil {
		return m.Clone()
	}
	if spec == nil {
		spec = &ebpf.MapSpec{Name: info.Name, Type: info.Type, KeySize: info.KeySize, ValueSize: info.ValueSize, Flags: info.Flags}
	}
	spec = spec.Copy()
	spec.MaxEntries = info.MaxEntries
	m, err := s.newMap(spec)
	if err != nil {
		return nil, err
	}
	s.clones[id] = m
	if spec.InnerMap != nil {
		err = s.copyInside(from, m, spec.InnerMap)
	} else if copyable(spec.Type) {
		err = bpfmap.Copy(from, m, nil)
	}
	if err != nil {
		return nil, err
	}
	return m.Clone()
}

// copyInside copies maps of maps deeply: a program could write to the inner maps.
func (s *Sandbox) copyInside(from, to *ebpf.Map, inner *ebpf.MapSpec) error {
	return bpfmap.EachKey(from, func(key []byte) error {
		var inside *ebpf.Map
		err := from.Lookup(key, &inside)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil // it was deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("read the inner map: %w", err)
		}
		defer func() { _ = inside.Close() }()
		m, err := s.copyMap(inner, inside)
		if err != nil {
			return err
		}
		defer func() { _ = m.Close() }()
		return bpfmap.PutInner(to, key, m)
	})
}

// copyable reports the types of maps whose entries can be read and written; others start empty.
func copyable(t ebpf.MapType) bool {
	return slices.Contains([]ebpf.MapType{
		ebpf.Hash, ebpf.Array, ebpf.PerCPUHash, ebpf.PerCPUArray, ebpf.LRUHash, ebpf.LRUCPUHash, ebpf.LPMTrie,
	}, t)
}

// load links the segments as functions and loads their resume programs, which lead to each other.
func (s *Sandbox) load() error {
	for _, c := range s.segments {
		rodata, err := segments.Freeze(c.Rodata)
		if err != nil {
			return err
		}
		s.own(rodata)
		array, err := s.newMap(segments.ArraySpec)
		if err != nil {
			return err
		}
		own := make(map[string]asm.FDer, len(s.fw))
		for name, m := range s.fw {
			own[name] = m
		}
		spec, err := link.Program(c.Code, &link.Core{Object: s.from.Framework.Objects[s.hook], Maps: own, Rodata: rodata,
			Generation: array, Frags: c.Frags, Kernel: s.from.Kernel}, link.Call, link.OnResume)
		if err != nil {
			return fmt.Errorf("copy the programs: %w", err)
		}
		prog, _, err := refusal.Load(spec, s.from.Kernel.Frame)
		if err != nil {
			return fmt.Errorf("load the copy of the programs: %w", err)
		}
		s.own(prog)
		errs := []error{array.Put(uint32(0), prog)}
		for _, id := range c.IDs {
			s.progs[id] = prog
			errs = append(errs, s.fw[abi.MapCubes].Put(uint32(id), prog))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("join the copies of the programs: %w", err)
		}
	}
	return nil
}

// run is one run of a program: the packet, or a copy.
type run struct {
	cube   graph.CubeID
	target uint16 // enum pcn_target
	port   uint16
	frame  []byte
	hops   uint16
}

// Values of enum pcn_target.
const (
	targetRX, targetTX, targetIn, targetOut = 0, 1, 2, 4
)

// runAll runs the packet, then its copies, and theirs.
func (s *Sandbox) runAll(ctx context.Context, at Injection) ([][]byte, error) {
	first := run{cube: at.Cube, target: targetRX, port: at.Port, frame: at.Frame}
	if s.transparent {
		first.target = targetIn
		if at.Direction == cube.Egress {
			first.target = targetOut
		}
	}
	ring, err := ringbuf.NewReader(s.fw[abi.MapRing])
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer func() { _ = ring.Close() }()
	var out [][]byte
	work := []run{first}
	for n := 0; len(work) > 0; n++ {
		if n == injectRuns {
			return out, fmt.Errorf("more than %d copies: %w", injectRuns, cube.ErrFull)
		}
		if err := ctx.Err(); err != nil {
			return out, fmt.Errorf("injecting: %w", err)
		}
		r := work[0]
		work = work[1:]
		if err := s.run(r); err != nil {
			return out, err
		}
		records, err := drain(ring)
		if err != nil {
			return out, err
		}
		out = append(out, records...)
		work = append(work, s.copies(r, records)...)
	}
	return out, nil
}

// run runs a program on a frame; the resume record is written for every CPU, whichever it runs on.
func (s *Sandbox) run(r run) error {
	var row [72]byte // struct pcn_resume
	e := binary.NativeEndian
	at := 0 // md.in_port
	if r.target == targetTX || r.target == targetOut {
		at = 2
	}
	e.PutUint16(row[at:], r.port)
	e.PutUint16(row[6:], r.hops)
	e.PutUint32(row[8:], uint32(len(r.frame)))
	e.PutUint32(row[40:], s.origin(r))
	e.PutUint16(row[64:], uint16(r.cube))
	e.PutUint16(row[66:], r.target)
	rows := make([][]byte, ebpf.MustPossibleCPU())
	for i := range rows {
		rows[i] = row[:]
	}
	if err := s.fw["pcn_resumes"].Put(uint32(0), rows); err != nil {
		return fmt.Errorf("prepare the run: %w", err)
	}
	if _, err := s.progs[r.cube].Run(&ebpf.RunOptions{Data: r.frame, DataOut: make([]byte, len(r.frame)+512)}); err != nil {
		return fmt.Errorf("run the programs on the packet: %w", err)
	}
	return nil
}

// origin is the netdev where the packet would have been received, 0 for none.
func (s *Sandbox) origin(r run) uint32 {
	if p := s.g.Cubes[r.cube].Ports[r.port]; p != nil && r.target == targetRX {
		if dev := s.g.Netdevs[p.Peer.Netdev]; dev != nil {
			return uint32(dev.Index)
		}
	}
	return 0
}

// drain reads the records of the steps of a run.
func drain(ring *ringbuf.Reader) ([][]byte, error) {
	ring.SetDeadline(time.Unix(1, 0)) // existing records, without waiting
	var out [][]byte
	for {
		r, err := ring.Read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return out, nil
		case err != nil:
			return out, fmt.Errorf("read the trace: %w", err)
		case len(r.RawSample) >= recordSize && binary.NativeEndian.Uint16(r.RawSample) == recordStep:
			out = append(out, r.RawSample)
		}
	}
}
