// SPDX-License-Identifier: Apache-2.0

package datapath

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

// Mode says how components are linked.
type Mode string

// The modes: automatic is call mode at once, then inline in the background.
const (
	ModeAuto   Mode = "auto"
	ModeCall   Mode = "call"
	ModeInline Mode = "inline"
)

// program identifies one of a generation's programs.
type program struct {
	hook cube.Hook
	role link.Role
}

// generation is one version of a component's programs. It owns its program array, so packets
// that are in it finish in it while the next one is entered already.
type generation struct {
	mode  link.Mode
	progs map[program]*ebpf.Program
	// arrays hold the resume programs, by hook, at 0: for turning back.
	arrays map[cube.Hook]*ebpf.Map
	pins   []string
	insns  int
	// maps is how many maps the program with the most of them uses.
	maps int
	// verified is the number of instructions that the verifier looked at.
	verified int
	// linked and loaded are the times that the steps took.
	linked, loaded time.Duration
}

// Program returns the program of a hook that has a role, nil if there is none.
func (gen *generation) Program(h cube.Hook, r link.Role) *ebpf.Program {
	return gen.progs[program{h, r}]
}

// build links and loads a component in a mode.
func (m *maker) build(c *description, mode link.Mode) (_ *generation, err error) {
	defer func(began time.Time) { m.activity.done(mode, began, err) }(time.Now())
	gen := &generation{mode: mode, progs: map[program]*ebpf.Program{}, arrays: map[cube.Hook]*ebpf.Map{}}
	rodata, err := freeze(c.rodata)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rodata.Close() }()
	if err := m.makeArrays(gen, c); err != nil {
		m.dispose(gen)
		return nil, err
	}
	start := time.Now()
	specs, err := m.specs(c, gen.arrays, rodata, mode)
	gen.linked = time.Since(start)
	if err == nil {
		start = time.Now()
		err = gen.load(specs)
		gen.loaded = time.Since(start)
	}
	for h, array := range gen.arrays {
		if err == nil {
			err = array.Put(uint32(0), gen.progs[program{h, link.OnResume}])
		}
	}
	if err != nil {
		if refusal.As(err) == nil { // which says whose fault it is
			err = fmt.Errorf("segment of %s, %s mode: %w", c.code.Cubes[0].Name, mode, err)
		}
		m.dispose(gen)
		return nil, err
	}
	return gen, nil
}

// generationSpec is the program array of a generation.
var generationSpec = &ebpf.MapSpec{Name: "pcn_generation", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1}

// makeArrays makes the program arrays of the segment's hook and its companion's.
func (m *maker) makeArrays(gen *generation, c *description) error {
	pin := filepath.Join(m.dir, fmt.Sprint(m.sequence.Add(1)))
	used := []cube.Hook{c.hook}
	if c.companion != nil {
		used = append(used, c.companion.Hook)
	}
	for _, h := range used {
		array, err := bpfmap.Open(pin+"-"+h.String(), generationSpec)
		if err != nil {
			return err
		}
		gen.arrays[h], gen.pins = array, append(gen.pins, pin+"-"+h.String())
	}
	return nil
}

// specs links all programs of the component. arrays are the program arrays by hook.
func (m *maker) specs(c *description, arrays map[cube.Hook]*ebpf.Map, rodata *ebpf.Map, mode link.Mode) (map[program]*ebpf.ProgramSpec, error) {
	out := map[program]*ebpf.ProgramSpec{}
	add := func(lc *link.Component, roles ...link.Role) error {
		core := &link.Core{
			Object: m.fw.Objects[lc.Hook], Maps: m.fw.LinkMaps(lc.Hook), Rodata: rodata,
			Generation: arrays[lc.Hook], TapIndex: m.again(lc.Hook), Frags: c.frags,
			Kernel: m.kernel,
		}
		for _, role := range roles {
			as := mode
			if role == link.OnResume {
				as = link.Call // entered rarely, and faster to load
			}
			spec, err := link.Program(lc, core, as, role)
			if err != nil {
				return err
			}
			out[program{lc.Hook, role}] = spec
		}
		return nil
	}
	roles := []link.Role{link.OnIngress, link.OnResume}
	if c.egress && c.companion == nil {
		roles = append(roles, link.OnEgress)
	}
	if !c.enterable() {
		roles = roles[1:]
	}
	if err := add(c.code, roles...); err != nil || c.companion == nil {
		return out, err
	}
	return out, add(c.companion, link.OnEgress, link.OnResume)
}

// again is the interface by which packets enter programs of a hook again.
func (m *maker) again(h cube.Hook) int {
	if h == cube.XDP {
		return m.loopOut
	}
	return m.tap
}

// enterable tells whether packets from netdevs can enter the component at all.
func (c *description) enterable() bool {
	for _, lc := range c.code.Cubes {
		if lc.Entry {
			return true
		}
	}
	return false
}

// load loads the programs, side by side, since the verifier is what takes the time.
func (gen *generation) load(specs map[program]*ebpf.ProgramSpec) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	errs := map[program]error{}
	for key, spec := range specs {
		wg.Go(func() {
			prog, err := refusal.Load(spec)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[key] = fmt.Errorf("loading the %s %s program: %w", key.hook, key.role, err)
				return
			}
			gen.progs[key] = prog
			gen.insns = max(gen.insns, len(spec.Instructions))
			if info, err := prog.Info(); err == nil {
				n, _ := info.VerifiedInstructions()
				gen.verified = max(gen.verified, int(n))
				used, _ := info.MapIDs()
				gen.maps = max(gen.maps, len(used))
			}
		})
	}
	wg.Wait()
	return first(errs)
}

// first is the error of the first of the programs: a cube that the verifier refuses is in several of them, for one reason.
func first(errs map[program]error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[slices.MinFunc(slices.Collect(maps.Keys(errs)), program.compare)]
}

// objects are the arrays and the programs of the generation.
func (gen *generation) objects() ([]*ebpf.Map, []*ebpf.Program) {
	return slices.Collect(maps.Values(gen.arrays)), slices.Collect(maps.Values(gen.progs))
}

// freeze makes the constants a map that nobody can write, so the verifier knows their values.
func freeze(data []byte) (*ebpf.Map, error) {
	if len(data) == 0 {
		data = make([]byte, 16)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "pcn_rodata", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(data)), MaxEntries: 1,
		Flags: flagRdonlyProg, Contents: []ebpf.MapKV{{Key: uint32(0), Value: data}},
	})
	if err != nil {
		return nil, fmt.Errorf("constants: %w", withoutDescriptors(err))
	}
	if err := m.Freeze(); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("freezing constants: %w", err)
	}
	return m, nil
}

const flagRdonlyProg = 1 << 7 // BPF_F_RDONLY_PROG

// release closes the descriptors; pins keep the programs running.
func (gen *generation) release() {
	for _, prog := range gen.progs {
		_ = prog.Close()
	}
	for _, array := range gen.arrays {
		_ = array.Close()
	}
}

// close lets the generation go. Its arrays empty with the last pin and descriptor, so no
// packet may be inside any more.
func (gen *generation) close() error {
	gen.release()
	var errs []error
	for _, pin := range gen.pins {
		errs = append(errs, bpfmap.RemovePin(pin))
	}
	return errors.Join(errs...)
}

// withoutDescriptors returns the reason for an error that says a feature is missing. The library
// says so of a kernel that it cannot ask, because the process has no descriptor left.
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

// compare orders programs.
func (k program) compare(other program) int {
	return cmp.Or(cmp.Compare(k.hook, other.hook), cmp.Compare(k.role, other.role))
}
