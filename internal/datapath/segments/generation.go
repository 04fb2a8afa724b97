// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/refusal"
)

// Mode is how components are linked.
type Mode string

// The modes: automatic is call mode at once, then inline in the background.
const (
	ModeAuto   Mode = "auto"
	ModeCall   Mode = "call"
	ModeInline Mode = "inline"
)

// Program identifies one of a generation's programs.
type Program struct {
	Hook cube.Hook
	Role link.Role
}

// Generation is one version of a component's programs. It owns its program array, so packets that are in it finish in
// it while the next one is entered already.
type Generation struct {
	// Mode is how the programs were linked.
	Mode link.Mode
	// Cost has the largest of each figure among the Programs.
	refusal.Cost
	// Programs are what each program costs.
	Programs map[Program]refusal.Cost
	// Size is the number of instructions of all programs.
	Size int
	// Maps is how many maps the program with the most of them uses.
	Maps int
	// LinkTime and LoadTime are the durations of the steps.
	LinkTime, LoadTime time.Duration

	// Shape is that of its segments.
	Shape string

	progs map[Program]*ebpf.Program
	// arrays contain the resume programs, by hook, at 0: for turning back.
	arrays map[cube.Hook]*ebpf.Map
	pins   []string
	// live are the constants, nil if they are frozen.
	live *liveConstants
	// members are the cubes for which programs of cubes that are alike are, otherwise nil.
	members *members
}

// Program returns the program of a hook that has a role, nil if there is none.
func (gen *Generation) Program(h cube.Hook, r link.Role) *ebpf.Program {
	return gen.progs[Program{h, r}]
}

// Build links and loads a component in a mode, its constants frozen.
func (m *Maker) Build(c *Description, mode link.Mode) (*Generation, error) {
	rodata, err := Freeze(c.Rodata)
	if err != nil {
		return nil, err
	}
	return m.build(c, mode, rodata, nil)
}

// BuildLive links and loads a component in call mode, its constants live.
func (m *Maker) BuildLive(c *Description) (*Generation, error) {
	rodata, live, err := makeLive(c.Rodata)
	if err != nil {
		return nil, err
	}
	return m.build(c, link.Call, rodata, live)
}

// build links and loads a component. The map of constants is closed, and live constants belong to the generation.
func (m *Maker) build(c *Description, mode link.Mode, rodata *ebpf.Map, live *liveConstants) (_ *Generation, err error) {
	defer func(began time.Time) { m.activity.done(mode, began, err) }(time.Now())
	gen := &Generation{
		Mode: mode, Shape: c.Shape, Programs: map[Program]refusal.Cost{}, progs: map[Program]*ebpf.Program{}, arrays: map[cube.Hook]*ebpf.Map{}, live: live,
	}
	defer func() { _ = rodata.Close() }()
	if err := m.makeArrays(gen, c); err != nil {
		m.Dispose(gen)
		return nil, err
	}
	start := time.Now()
	specs, err := m.Specs(c, Maps{gen.arrays, rodata, gen.memberMap()}, mode)
	gen.LinkTime = time.Since(start)
	if err == nil {
		start = time.Now()
		err = gen.load(specs, m.kernel.Frame)
		gen.LoadTime = time.Since(start)
	}
	for h, array := range gen.arrays {
		if err == nil {
			err = array.Put(uint32(0), gen.progs[Program{h, link.OnResume}])
		}
	}
	if err != nil {
		if refusal.As(err) == nil { // which says what is at fault
			err = fmt.Errorf("segment of %s, %s mode: %w", c.Code.Cubes[0].Name, mode, err)
		}
		m.Dispose(gen)
		return nil, err
	}
	return gen, nil
}

// ArraySpec is the program array of a generation.
var ArraySpec = &ebpf.MapSpec{Name: "pcn_generation", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1}

// makeArrays creates the program arrays of the segment's hook and its companion's.
func (m *Maker) makeArrays(gen *Generation, c *Description) error {
	pin := filepath.Join(m.dir, fmt.Sprint(m.sequence.Add(1)))
	used := []cube.Hook{c.Hook}
	if c.companion != nil {
		used = append(used, c.companion.Hook)
	}
	for _, h := range used {
		array, err := bpfmap.Open(pin+"-"+h.String(), ArraySpec)
		if err != nil {
			return err
		}
		gen.arrays[h], gen.pins = array, append(gen.pins, pin+"-"+h.String())
	}
	if !c.Alike {
		return nil
	}
	own, err := NewMembers()
	gen.members = &members{m: own}
	return err
}

// memberMap is the map of the generation's members, nil if it has none.
func (gen *Generation) memberMap() *ebpf.Map {
	if gen.members == nil {
		return nil
	}
	return gen.members.m
}

// Maps are those that belong to a generation: program arrays by hook, constants, and members, which only programs of cubes
// that are alike use.
type Maps struct {
	Arrays          map[cube.Hook]*ebpf.Map
	Rodata, Members *ebpf.Map
}

// Specs links all programs of the component, in parallel.
func (m *Maker) Specs(c *Description, own Maps, mode link.Mode) (map[Program]*ebpf.ProgramSpec, error) {
	roles := []link.Role{link.OnIngress, link.OnResume}
	if c.egress && c.companion == nil {
		roles = append(roles, link.OnEgress)
	}
	if !c.enterable() {
		roles = roles[1:]
	}
	parts := map[*link.Component][]link.Role{c.Code: roles}
	if c.companion != nil {
		parts[c.companion] = []link.Role{link.OnEgress, link.OnResume}
	}
	if c.companion != nil && c.companion.Host {
		parts[c.companion] = append(parts[c.companion], link.OnIngress)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	out, errs := map[Program]*ebpf.ProgramSpec{}, map[Program]error{}
	for lc, roles := range parts {
		core := m.core(lc, c, own)
		for _, role := range roles {
			wg.Go(func() {
				as := mode
				if role == link.OnResume && !lc.Crossed() {
					as = link.Call // entered rarely, and faster to load
				}
				spec, err := link.Program(lc, core, as, role)
				mu.Lock()
				defer mu.Unlock()
				if out[Program{lc.Hook, role}] = spec; err != nil {
					errs[Program{lc.Hook, role}] = err
				}
			})
		}
	}
	wg.Wait()
	return out, first(errs)
}

// core is the framework's part of the programs of a component's side.
func (m *Maker) core(lc *link.Component, c *Description, own Maps) *link.Core {
	return &link.Core{
		Object: m.fw.Objects[lc.Hook], Maps: m.fw.LinkMaps(lc.Hook), Rodata: own.Rodata,
		Generation: own.Arrays[lc.Hook], Members: own.Members, TapIndex: m.again(lc.Hook), Frags: c.Frags,
		Kernel: m.kernel,
	}
}

// again is the interface through which packets re-enter programs of a hook.
func (m *Maker) again(h cube.Hook) int {
	if h == cube.XDP {
		return m.loopOut
	}
	return m.tap
}

// enterable reports whether packets from netdevs can enter the component at all.
func (c *Description) enterable() bool {
	for _, lc := range c.Code.Cubes {
		if lc.Entry {
			return true
		}
	}
	return false
}

// load loads the programs in parallel, because the verifier takes most of the time. frame is how many bytes of stack a
// function counts for.
func (gen *Generation) load(specs map[Program]*ebpf.ProgramSpec, frame func(bytes int) int) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	errs := map[Program]error{}
	for key, spec := range specs {
		wg.Go(func() {
			prog, cost, err := refusal.Load(spec, frame)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[key] = fmt.Errorf("load the %s %s program: %w", key.Hook, key.Role, err)
				return
			}
			gen.progs[key], gen.Programs[key] = prog, cost
			gen.Cost = gen.Cost.Most(cost)
			gen.Size += cost.Instructions
			if info, err := prog.Info(); err == nil {
				used, _ := info.MapIDs()
				gen.Maps = max(gen.Maps, len(used))
			}
		})
	}
	wg.Wait()
	return first(errs)
}

// first returns the error of the first of the programs: a refused cube is in several of them, for the same reason.
func first(errs map[Program]error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[slices.MinFunc(slices.Collect(maps.Keys(errs)), Program.Compare)]
}

// Objects are the arrays and the programs of the generation.
func (gen *Generation) Objects() ([]*ebpf.Map, []*ebpf.Program) {
	return slices.Collect(maps.Values(gen.arrays)), slices.Collect(maps.Values(gen.progs))
}

// Release closes the descriptors; pins keep the programs running.
func (gen *Generation) Release() {
	for _, prog := range gen.progs {
		_ = prog.Close()
	}
	for _, array := range gen.arrays {
		_ = array.Close()
	}
	if gen.live != nil {
		gen.live.close()
	}
	if gen.members != nil {
		_ = gen.members.m.Close()
	}
}

// Share is the part of one of its cubes in the costs. Programs of cubes that are alike have the code of one of them.
func (gen *Generation) Share(name string) refusal.Share {
	if share, ok := gen.Cubes[name]; ok || gen.members == nil {
		return share
	}
	for _, share := range gen.Cubes {
		return share
	}
	return refusal.Share{}
}

// Live reports whether the constants of the programs can be written.
func (gen *Generation) Live() bool { return gen.live != nil }

// CanTake reports whether the programs can get other constants while they process packets: those that differ are
// written by one store.
func (gen *Generation) CanTake(constants []byte) bool {
	if gen.live == nil {
		return false
	}
	_, ok := gen.live.differingWord(constants)
	return ok
}

// SetConstants writes live constants, as many bytes as there were, and returns the previous ones.
func (gen *Generation) SetConstants(constants []byte) (before []byte) {
	before = gen.live.values
	gen.live.write(constants)
	return before
}

// Close closes the generation. Its arrays are cleared with the last pin and descriptor, so no packet may be inside any
// more.
func (gen *Generation) Close() error {
	gen.Release()
	var errs []error
	for _, pin := range gen.pins {
		errs = append(errs, bpfmap.RemovePin(pin))
	}
	return errors.Join(errs...)
}

// withoutDescriptors returns the real cause of an error that says that a feature is missing. The library returns it if
// it cannot probe the kernel because the process has no descriptor left.
func withoutDescriptors(err error) error {
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	fd, no := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if no != nil {
		return no
	}
	_ = unix.Close(fd)
	return err
}

// Compare orders programs.
func (k Program) Compare(other Program) int {
	return cmp.Or(cmp.Compare(k.Hook, other.Hook), cmp.Compare(k.Role, other.Role))
}
