// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// Names of the framework's maps (bpf/core/maps.h) that Go code uses.
const (
	mapEntries    = "pcn_entries"
	mapFar        = "pcn_far_entries"
	mapOutEntries = "pcn_out_entries"
	mapExits      = "pcn_exits"
	mapDevices    = "pcn_devices"
	mapCounters   = "pcn_counters"
	mapFates      = "pcn_fates"
	mapFloods     = "pcn_floods"
	mapBroadcasts = "pcn_broadcasts"
	mapDown       = "pcn_down"
	mapCubes      = "pcn_cubes"
	mapReturns    = "pcn_returns"
	mapAccounts   = "accounts"
)

var hooks = []cube.Hook{cube.TC, cube.XDP}

// framework is what all programs share: the framework's objects and maps.
type framework struct {
	objects map[cube.Hook]*link.Object
	roots   map[cube.Hook]*ebpf.CollectionSpec
	maps    map[string]*ebpf.Map               // shared by both hooks
	hook    map[cube.Hook]map[string]*ebpf.Map // of one hook: pcn_cubes, pcn_down
	downs   map[string]*ebpf.Program           // of our own interfaces, by name
}

// openFramework makes the framework's maps, or reopens those that are pinned in dir.
func openFramework(dir string) (*framework, error) {
	f := &framework{
		objects: map[cube.Hook]*link.Object{}, roots: map[cube.Hook]*ebpf.CollectionSpec{},
		maps: map[string]*ebpf.Map{}, hook: map[cube.Hook]map[string]*ebpf.Map{},
		downs: map[string]*ebpf.Program{},
	}
	for _, h := range hooks {
		if err := f.openHook(h, dir); err != nil {
			f.close()
			return nil, err
		}
	}
	accounts := &ebpf.MapSpec{
		Name: mapAccounts, Type: ebpf.Array, KeySize: 4, MaxEntries: link.Pages * link.Slots,
		ValueSize: uint32(unsafe.Sizeof(account{})),
	}
	m, err := openMap(filepath.Join(dir, mapAccounts), accounts)
	if err != nil {
		f.close()
		return nil, err
	}
	f.maps[mapAccounts] = m
	return f, nil
}

func (f *framework) openHook(h cube.Hook, dir string) error {
	elf, err := core.Objects.ReadFile("core." + h.String() + ".o")
	if err != nil {
		return fmt.Errorf("framework programs: %w (run make generate)", err)
	}
	if f.objects[h], err = link.ParseObject(h, elf); err != nil {
		return fmt.Errorf("framework programs: %w", err)
	}
	for name, spec := range f.objects[h].Maps {
		if f.maps[name] != nil {
			continue
		}
		if f.maps[name], err = openMap(filepath.Join(dir, name), spec); err != nil {
			return err
		}
	}
	if f.roots[h], err = loadSpec("root." + h.String() + ".o"); err != nil {
		return err
	}
	return f.openDown(h, dir)
}

// openDown loads the programs of the hook's TAP.
func (f *framework) openDown(h cube.Hook, dir string) error {
	spec, err := loadSpec("down." + h.String() + ".o")
	if err != nil {
		return err
	}
	f.hook[h] = map[string]*ebpf.Map{}
	for _, name := range []string{mapDown, mapCubes} {
		m, err := openMap(filepath.Join(dir, name+"-"+h.String()), spec.Maps[name])
		if err != nil {
			return err
		}
		f.hook[h][name] = m
	}
	if h == cube.TC {
		return f.loadDown("tc", spec.Programs["pcn_down_in"], h)
	}
	f.hook[h][mapReturns], err = openMap(filepath.Join(dir, mapReturns), spec.Maps[mapReturns])
	if err != nil {
		return err
	}
	// The TC program behind the XDP one shares that one's record.
	behind, err := loadSpec("down.tc.o")
	if err != nil {
		return err
	}
	return errors.Join(
		f.loadDown("xdp", spec.Programs["pcn_down_in"], h),
		f.loadDown("loop-in", spec.Programs["pcn_loop_in"], h),
		f.loadDown("loop-out", spec.Programs["pcn_loop_out"], h),
		f.loadDown("pass", behind.Programs["pcn_down_pass"], h),
	)
}

// loadDown loads one of the programs of our own interfaces, with the maps of a hook.
func (f *framework) loadDown(name string, spec *ebpf.ProgramSpec, h cube.Hook) error {
	p := spec.Copy()
	for _, maps := range []map[string]*ebpf.Map{f.maps, f.hook[h]} {
		for ref, m := range maps {
			if err := associate(p, ref, m); err != nil {
				return fmt.Errorf("binding %s: %w", spec.Name, err)
			}
		}
	}
	if p.Type == ebpf.XDP {
		p.Flags |= link.FlagFrags
	}
	prog, err := ebpf.NewProgram(p)
	if err != nil {
		return fmt.Errorf("loading %s: %w", spec.Name, err)
	}
	f.downs[name] = prog
	return nil
}

// associate binds the program's references to a map, if it has any.
func associate(p *ebpf.ProgramSpec, name string, m *ebpf.Map) error {
	err := p.Instructions.AssociateMap(name, m)
	if errors.Is(err, asm.ErrUnreferencedSymbol) {
		return nil
	}
	return err
}

func loadSpec(file string) (*ebpf.CollectionSpec, error) {
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

// linkMaps is what the linker may refer to for a hook.
func (f *framework) linkMaps() map[string]asm.FDer {
	out := make(map[string]asm.FDer, len(f.maps))
	for name, m := range f.maps {
		out[name] = m
	}
	return out
}

func (f *framework) close() {
	for _, m := range f.maps {
		_ = m.Close()
	}
	for _, h := range f.hook {
		for _, m := range h {
			_ = m.Close()
		}
	}
	for _, p := range f.downs {
		_ = p.Close()
	}
}

// openMap opens the map pinned at path, or creates and pins it. A pinned map of another
// layout is refused.
func openMap(path string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	switch {
	case err == nil:
		if err := spec.Compatible(m); err != nil {
			_ = m.Close()
			return nil, fmt.Errorf("map %s is there with another layout: %w", path, err)
		}
		return m, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("opening map %s: %w", path, err)
	}
	s := spec.Copy()
	s.Pinning = ebpf.PinNone
	if m, err = ebpf.NewMap(s); err != nil {
		return nil, fmt.Errorf("creating map %s: %w", spec.Name, err)
	}
	if err := m.Pin(path); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("pinning map %s: %w", spec.Name, err)
	}
	return m, nil
}

// ensureDir makes a directory that only we may enter.
func ensureDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating %s: %w", dir, err)
	}
	return nil
}
