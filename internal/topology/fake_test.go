// SPDX-License-Identifier: Apache-2.0

package topology

// Fakes of the layers around the topology: a data plane that records what it is given and fails where a test wants it to,
// netdevs that a test creates, and two small services.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

var errInjected = errors.New("injected")

// fakePlane is a data plane in memory.
type fakePlane struct {
	mu sync.Mutex
	// cubes are pinned and outlive a manager; opened are those of the current one.
	cubes    map[datapath.CubeID]datapath.Spec
	opened   map[datapath.CubeID]bool
	graph    *datapath.Graph
	open     int // changes neither committed nor aborted
	prepared int
	sent     []cube.PacketOut
	// fail is called before each step; a test makes it return an error or block.
	fail func(step string) error
	// refuse checks a graph that is prepared.
	refuse func(*datapath.Graph) error
	// holds is set while the programs of earlier managers exist; kept are the UUIDs that are protected.
	holds bool
	kept  []string
	// tried are the services whose programs were loaded on trial.
	tried []datapath.Trial
}

func newFakePlane() *fakePlane {
	return &fakePlane{cubes: map[datapath.CubeID]datapath.Spec{}, opened: map[datapath.CubeID]bool{}, graph: unit.NewSnapshot().Graph()}
}

func (f *fakePlane) step(name string) error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(name)
}

func (f *fakePlane) setFail(fail func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *fakePlane) CreateCube(s datapath.Spec) error {
	if err := errors.Join(f.step("CreateCube"), f.step("CreateCube "+s.Name)); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.cubes[s.ID]; ok && old.UUID != s.UUID {
		return fmt.Errorf("cube %d is another one: %w", s.ID, cube.ErrExists)
	}
	if f.opened[s.ID] {
		return fmt.Errorf("cube %d is open: %w", s.ID, cube.ErrExists)
	}
	f.cubes[s.ID], f.opened[s.ID] = s, true
	return nil
}

func (f *fakePlane) DeleteCube(id datapath.CubeID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.opened[id] {
		return fmt.Errorf("cube %d: %w", id, cube.ErrNotFound)
	}
	if f.graph.Cubes[id] != nil {
		return fmt.Errorf("cube %d is in the graph: %w", id, cube.ErrInUse)
	}
	delete(f.cubes, id)
	delete(f.opened, id)
	return nil
}

func (f *fakePlane) Map(id datapath.CubeID, name string) (*ebpf.Map, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.opened[id] || name != "fdb" {
		return nil, fmt.Errorf("cube %d map %s: %w", id, name, cube.ErrNotFound)
	}
	return nil, nil
}

func (f *fakePlane) Floods(datapath.CubeID) map[uint32][]cube.FloodMember { return nil }
func (f *fakePlane) SetFloods(datapath.CubeID, map[uint32][]cube.FloodMember, bool) error {
	return f.step("SetFloods")
}

func (f *fakePlane) Origin(id datapath.CubeID, name string) (origins.Origin, error) {
	return 0, fmt.Errorf("cube %d map %s: %w", id, name, cube.ErrNotFound)
}

func (f *fakePlane) Inner(id datapath.CubeID, name string) (*ebpf.MapSpec, error) {
	return nil, fmt.Errorf("cube %d map %s: %w", id, name, cube.ErrNotFound)
}

func (f *fakePlane) ResizeMaps(id datapath.CubeID, sizes map[string]uint32) (func() error, error) {
	if err := f.step("ResizeMaps"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.cubes[id]
	if maps.Equal(was.MapSizes, sizes) {
		return nil, nil
	}
	is := was
	is.MapSizes = sizes
	f.cubes[id] = is
	return func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cubes[id] = was
		return nil
	}, nil
}

// ReplaceCube opens a cube again; the last specification applies.
func (f *fakePlane) ReplaceCube(s datapath.Spec) (datapath.Replacement, error) {
	if err := errors.Join(f.step("ReplaceCube"), f.step("ReplaceCube "+s.Name)); err != nil {
		return datapath.Replacement{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was, there := f.cubes[s.ID]
	opened := f.opened[s.ID]
	s.Migrate = nil
	f.cubes[s.ID], f.opened[s.ID] = s, true
	return datapath.Replacement{Relink: true, Settle: func() {}, Back: func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cubes[s.ID], f.opened[s.ID] = was, opened
		if !there {
			delete(f.cubes, s.ID)
		}
	}}, nil
}

func (f *fakePlane) HoldCube(s datapath.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if was, ok := f.cubes[s.ID]; !f.holds || !ok || was.UUID != s.UUID {
		delete(f.opened, s.ID)
		return fmt.Errorf("cube %d: %w", s.ID, cube.ErrNotFound)
	}
	f.opened[s.ID] = true
	return nil
}

func (f *fakePlane) Keep(uuid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, uuid)
}

func (f *fakePlane) Forget(uuid string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.cubes {
		if s.UUID == uuid && !f.opened[id] {
			delete(f.cubes, id)
		}
	}
	return nil
}

type fakeChange struct {
	f    *fakePlane
	g    *datapath.Graph
	done bool
}

func (f *fakePlane) Prepare(ctx context.Context, g *datapath.Graph) (Change, error) {
	if err := f.step("Prepare"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(g); err != nil {
			return nil, err
		}
	}
	for id := range g.Cubes {
		if !f.opened[id] {
			return nil, fmt.Errorf("cube %d has no maps: %w", id, cube.ErrNotFound)
		}
	}
	f.open++
	f.prepared++
	return &fakeChange{f: f, g: g}, ctx.Err()
}

func (c *fakeChange) Commit() error {
	c.f.mu.Lock()
	if c.done {
		c.f.mu.Unlock()
		return errors.New("committed or aborted before")
	}
	c.done = true
	c.f.open--
	c.f.mu.Unlock()
	err := c.f.step("Commit")
	if err == nil {
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		c.f.graph = c.g
	}
	return err
}

func (c *fakeChange) Abort() {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.done {
		panic("aborted after its end")
	}
	c.done = true
	c.f.open--
}

func (f *fakePlane) PortCounters(slot uint16) (datapath.PortCounters, error) {
	return datapath.PortCounters{RxPackets: uint64(slot)}, nil
}

func (f *fakePlane) Fates(id datapath.CubeID) ([]datapath.Fate, error) {
	return []datapath.Fate{{Name: "pass", Packets: uint64(id)}}, nil
}

func (f *fakePlane) Status(datapath.CubeID) datapath.CubeStatus {
	return datapath.CubeStatus{Mode: "inline"}
}

// HasFunction gives filters an egress program, and bridges none.
func (f *fakePlane) HasFunction(service string, _ cube.Hook, name string) bool {
	return service == "toyfilter" && name == "pcn_egress"
}

func (f *fakePlane) CheckObject(string, map[cube.Hook][]byte) error { return f.step("CheckObject") }

func (*fakePlane) AddObjects(string, map[cube.Hook][]byte) {}

func (f *fakePlane) Try(_ context.Context, t datapath.Trial) (datapath.TrialReport, error) {
	f.mu.Lock()
	f.tried = append(f.tried, t)
	f.mu.Unlock()
	return datapath.TrialReport{Programs: len(t.Objects)}, f.step("Try")
}

func (f *fakePlane) Send(_ datapath.CubeID, _ bool, p *cube.PacketOut) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, *p)
	return nil
}

// now returns the graph in use.
func (f *fakePlane) now() *datapath.Graph {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.graph
}

// fakeNetdevs are devices in memory.
type fakeNetdevs struct {
	mu    sync.Mutex
	infos map[string]netdev.Info
	// ours are the addresses that Put added, flaps the carrier's changes, by index.
	ours  map[int][]netip.Prefix
	flaps map[int]uint32
	// refuse checks each change; puts counts those that were made.
	refuse func(netdev.Settings) error
	puts   int
}

func newFakeNetdevs(names ...string) *fakeNetdevs {
	f := &fakeNetdevs{infos: map[string]netdev.Info{}, ours: map[int][]netip.Prefix{}, flaps: map[int]uint32{}}
	for i, name := range names {
		f.infos[name] = netdev.Info{Name: name, Index: 10 + i, Up: true, Carrier: true, Kind: "veth"}
	}
	return f
}

func (f *fakeNetdevs) List() ([]netdev.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	infos := slices.Collect(maps.Values(f.infos))
	slices.SortFunc(infos, func(a, b netdev.Info) int { return a.Index - b.Index })
	return infos, nil
}

func (f *fakeNetdevs) Get(name string) (netdev.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, ok := f.infos[name]
	if !ok {
		return info, fmt.Errorf("%s: %w", name, netdev.ErrNotFound)
	}
	return info, nil
}

func (f *fakeNetdevs) Status(name string) (netdev.Status, error) {
	info, err := f.Get(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	return netdev.Status{Index: info.Index, Up: info.Up, MAC: info.MAC, Addresses: info.Addresses, Ours: f.ours[info.Index],
		Flaps: f.flaps[info.Index]}, err
}

func (f *fakeNetdevs) TakesRedirects(name string) (netdev.Readiness, error) {
	info, err := f.Get(name)
	if info.Kind == "physical" { // like one of virtio
		return netdev.Readiness{WithProgram: true, Reason: "only while a cube is attached to it"}, err
	}
	return netdev.Readiness{OK: info.Carrier, Reason: "the other end is down"}, err
}

func (f *fakeNetdevs) Put(index int, d netdev.Settings) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, info := range f.infos {
		if info.Index != index {
			continue
		}
		if f.refuse != nil {
			if err := f.refuse(d); err != nil {
				return err
			}
		}
		f.puts++
		if d.MAC != nil {
			info.MAC = d.MAC
		}
		ours := slices.DeleteFunc(slices.Clone(d.Remove), func(p netip.Prefix) bool { return !slices.Contains(f.ours[index], p) })
		info.Addresses = append(world.Without(info.Addresses, ours), d.Add...)
		f.ours[index] = append(world.Without(f.ours[index], ours), d.Add...)
		f.infos[name] = info
	}
	return nil
}

func (f *fakeNetdevs) set(info netdev.Info) netdev.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.infos[info.Name] = info
	return info
}

func (f *fakeNetdevs) remove(name string) netdev.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.infos[name]
	delete(f.infos, name)
	return info
}
