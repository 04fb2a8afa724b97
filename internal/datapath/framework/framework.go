// SPDX-License-Identifier: Apache-2.0

// Package framework contains what all programs share: the framework's own programs and maps, and the loop through which
// copies come back. It opens them once; others read and write the rows.
package framework

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/link"
)

// Framework contains what all programs share: the framework's objects and maps.
type Framework struct {
	Objects map[cube.Hook]*link.Object
	Roots   map[cube.Hook]*ebpf.CollectionSpec
	Maps    map[string]*ebpf.Map               // shared by both hooks
	Hook    map[cube.Hook]map[string]*ebpf.Map // of one hook: pcn_cubes, pcn_down
	Downs   map[string]*ebpf.Program           // of our own interfaces, by name
	Secret  uint64                             // marks frames for the stack of a netdev with generic XDP
}

// Open creates the framework's maps, or reopens those that are pinned in dir.
func Open(dir string) (*Framework, error) {
	f := &Framework{
		Objects: map[cube.Hook]*link.Object{}, Roots: map[cube.Hook]*ebpf.CollectionSpec{},
		Maps: map[string]*ebpf.Map{}, Hook: map[cube.Hook]map[string]*ebpf.Map{},
		Downs: map[string]*ebpf.Program{},
	}
	var err error
	if f.Secret, err = openSecret(dir); err != nil {
		return nil, err
	}
	for _, h := range abi.Hooks {
		if err := f.openHook(h, dir); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

func (f *Framework) openHook(h cube.Hook, dir string) error {
	elf, err := core.Objects.ReadFile("core." + h.String() + ".o")
	if err != nil {
		return fmt.Errorf("framework programs: %w (run make generate)", err)
	}
	if f.Objects[h], err = link.ParseObject(h, elf); err != nil {
		return fmt.Errorf("framework programs: %w", err)
	}
	for name, spec := range f.Objects[h].Maps {
		if f.Maps[name] != nil || name == abi.MapCubes {
			continue
		}
		if f.Maps[name], err = bpfmap.Open(filepath.Join(dir, name), spec); err != nil {
			return err
		}
	}
	if f.Roots[h], err = LoadSpec("root." + h.String() + ".o"); err != nil {
		return err
	}
	return f.openDown(h, dir)
}

// openDown loads the programs of the hook's own interfaces.
func (f *Framework) openDown(h cube.Hook, dir string) error {
	spec, err := LoadSpec("down." + h.String() + ".o")
	if err != nil {
		return err
	}
	f.Hook[h] = map[string]*ebpf.Map{}
	open := func(name, pin string, spec *ebpf.CollectionSpec) {
		if err == nil {
			f.Hook[h][name], err = bpfmap.Open(filepath.Join(dir, pin), spec.Maps[name])
		}
	}
	open(abi.MapDown, abi.MapDown+"-"+h.String(), spec)
	open(abi.MapCubes, abi.MapCubes+"-"+h.String(), spec)
	if h == cube.TC {
		return errors.Join(err, f.loadDown(h, spec, "tc", "pcn_down_in"), f.loadDown(h, spec, "span-end", "pcn_span_end"))
	}
	open(abi.MapReturns, abi.MapReturns, spec)
	// The TC program after the XDP one shares its record.
	behind, specErr := LoadSpec("down.tc.o")
	if err := errors.Join(err, specErr); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	return errors.Join(
		f.loadDown(h, spec, "xdp", "pcn_down_in"),
		f.loadDown(h, spec, "loop-in", "pcn_loop_in"),
		f.loadDown(h, spec, "loop-out", "pcn_loop_out"),
		f.loadDown(h, spec, "untag-out", "pcn_untag_out"),
		f.loadDown(h, behind, "pass", "pcn_down_pass"),
	)
}

// loadDown loads one of the programs of our own interfaces, with the maps of a hook.
func (f *Framework) loadDown(h cube.Hook, spec *ebpf.CollectionSpec, name, program string) error {
	if f.Hook[h][abi.MapDown] == nil {
		return nil // an error before this one
	}
	prog, err := f.LoadOne(spec, program, f.Hook[h], map[string]any{"pcn_secret": f.Secret})
	if err != nil {
		return err
	}
	f.Downs[name] = prog
	return nil
}

// LoadOne loads one program of an object, bound to the framework's maps and others, with those of the constants that the
// object has.
func (f *Framework) LoadOne(spec *ebpf.CollectionSpec, program string, others map[string]*ebpf.Map, constants map[string]any) (*ebpf.Program, error) {
	s := spec.Copy()
	s.Programs = map[string]*ebpf.ProgramSpec{program: s.Programs[program]}
	if s.Programs[program].Type == ebpf.XDP {
		s.Programs[program].Flags |= link.FlagFrags
	}
	for name, value := range constants {
		if v := s.Variables[name]; v != nil {
			if err := v.Set(value); err != nil {
				return nil, fmt.Errorf("%s: set %s: %w", program, name, err)
			}
		}
	}
	bound := map[string]*ebpf.Map{}
	for name := range s.Maps {
		if m := f.Maps[name]; m != nil {
			bound[name] = m
		}
		if m := others[name]; m != nil {
			bound[name] = m
		}
		if bound[name] == nil && !strings.HasPrefix(name, ".rodata") {
			delete(s.Maps, name) // of another program in the object
		}
	}
	c, err := ebpf.NewCollectionWithOptions(s, ebpf.CollectionOptions{MapReplacements: bound})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", program, err)
	}
	defer c.Close()
	return c.DetachProgram(program), nil
}

// openSecret reads the secret that marks frames for the stack, or creates one. It is pinned, because programs that
// outlive a daemon know it.
func openSecret(dir string) (uint64, error) {
	m, err := bpfmap.Open(filepath.Join(dir, "secret"), &ebpf.MapSpec{
		Name: "pcn_secret", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1,
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = m.Close() }()
	var secret uint64
	if err := m.Lookup(uint32(0), &secret); err != nil {
		return 0, fmt.Errorf("read the secret: %w", err)
	}
	if secret != 0 {
		return secret, nil
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = binary.NativeEndian.Uint64(random[:]) | 1
	if err := m.Put(uint32(0), secret); err != nil {
		return 0, fmt.Errorf("store the secret: %w", err)
	}
	return secret, nil
}

// LoadSpec reads one of the framework's object files.
func LoadSpec(file string) (*ebpf.CollectionSpec, error) {
	data, err := core.Objects.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("framework programs: %w (run make generate)", err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("framework programs: %s: %w", file, err)
	}
	return spec, nil
}

// LinkMaps returns the maps that the linker may refer to for a hook.
func (f *Framework) LinkMaps(h cube.Hook) map[string]asm.FDer {
	out := make(map[string]asm.FDer, len(f.Maps)+1)
	out[abi.MapCubes] = f.Hook[h][abi.MapCubes]
	for name, m := range f.Maps {
		out[name] = m
	}
	return out
}

// Close closes everything; pins stay.
func (f *Framework) Close() {
	for _, m := range f.Maps {
		_ = m.Close()
	}
	for _, h := range f.Hook {
		for _, m := range h {
			_ = m.Close()
		}
	}
	for _, p := range f.Downs {
		_ = p.Close()
	}
}
