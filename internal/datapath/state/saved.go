// SPDX-License-Identifier: Apache-2.0

package state

// A cube's programs outlive the daemon that linked them. What is needed to link them again, when neighbours change, must
// outlive it as well: objects and constants are pinned with the cube's maps. If a daemon cannot run a stored cube itself
// (its service is not loaded, its model refuses the configuration, its maps cannot be carried over), the cube continues to
// forward with these.

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// savedABI is the version of the framework for which an object was compiled. It changes with the meaning of verdicts and of
// functions of <pcn/core.h>. Whether struct pcn_md is the same can be read from the object.
const savedABI = 1

// Names of pins for the saved parts of a cube's programs. Each is followed by a hook; those of objects and constants also
// by a number.
const (
	pinPrograms  = "+programs-"
	pinObject    = "+object-"
	pinConstants = "+constants-"
)

// savedProgram is one of a cube's programs.
type savedProgram struct {
	Direction cube.Direction
	Index     int
	Function  string
	// Object is the number of its object. Own is set for the service's, not for one that the cube was given at run time.
	Object int
	Own    bool
}

// encodeSaved prepends the framework's version and the length to the bytes.
func encodeSaved(data []byte) []byte {
	out := binary.NativeEndian.AppendUint32(nil, savedABI)
	out = binary.NativeEndian.AppendUint32(out, uint32(len(data)))
	return append(out, data...)
}

func decodeSaved(raw []byte) ([]byte, error) {
	if len(raw) < 8 || int(binary.NativeEndian.Uint32(raw[4:])) != len(raw)-8 {
		return nil, fmt.Errorf("the saved programs are damaged: %w", cube.ErrInvalid)
	}
	if abi := binary.NativeEndian.Uint32(raw); abi != savedABI {
		return nil, fmt.Errorf("its programs are for version %d of the framework, this is %d: %w", abi, savedABI, cube.ErrUnsupported)
	}
	return raw[8:], nil
}

// save pins bytes in the cube's directory, unless the same are pinned there.
func (in *Instance) save(pin string, data []byte) error {
	if was, ok := in.saved[pin]; ok && bytes.Equal(was, data) {
		return nil
	}
	m, err := saving(data)
	if err != nil {
		return fmt.Errorf("cube %s: save %s: %w", in.spec.Name, pin, err)
	}
	defer func() { _ = m.Close() }() // the pin keeps it
	return in.savedAs(pin, data, m)
}

// savedAs pins a map that contains bytes.
func (in *Instance) savedAs(pin string, data []byte, m *ebpf.Map) error {
	if err := bpfmap.Repin(m, filepath.Join(in.dir, pin)); err != nil {
		return fmt.Errorf("cube %s: save %s: %w", in.spec.Name, pin, err)
	}
	in.saved[pin] = data
	return nil
}

// saving creates a map that contains bytes.
func saving(data []byte) (*ebpf.Map, error) {
	raw := encodeSaved(data)
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "pcn_saved", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(raw)), MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: raw}},
	})
}

// load reads what save has pinned.
func (in *Instance) load(pin string) ([]byte, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(in.dir, pin), nil)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", pin, err)
	}
	defer func() { _ = m.Close() }()
	raw, err := m.LookupBytes(uint32(0))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", pin, err)
	}
	return decodeSaved(raw)
}

// readSaved reads what is saved, and the declarations of maps in saved programs. What cannot be read is saved again; then,
// maps are only compared by their sizes.
func (in *Instance) readSaved(known *savedObjects) map[cube.Hook][]savedProgram {
	in.was, in.wasOwn = map[string]*ebpf.MapSpec{}, map[string]bool{}
	out := map[cube.Hook][]savedProgram{}
	for _, h := range abi.Hooks {
		list, err := in.load(pinPrograms + h.String())
		var programs []savedProgram
		if err != nil || json.Unmarshal(list, &programs) != nil {
			continue
		}
		in.saved[pinPrograms+h.String()] = list
		for _, pr := range programs {
			in.readObject(known, h, pr)
		}
		out[h] = programs
	}
	return out
}

// readObject reads the object of a program, once.
func (in *Instance) readObject(known *savedObjects, h cube.Hook, pr savedProgram) {
	pin := numbered(pinObject, h, pr.Object)
	if in.saved[pin] != nil {
		return
	}
	elf, err := in.load(pin)
	if err != nil {
		return
	}
	o, elf, err := known.parse(h, elf)
	in.saved[pin] = elf
	if data, err := in.load(numbered(pinConstants, h, pr.Object)); err == nil {
		in.saved[numbered(pinConstants, h, pr.Object)] = data
	}
	if err != nil {
		return
	}
	for name, spec := range o.Maps {
		in.was[name] = spec
		in.wasOwn[name] = in.wasOwn[name] || pr.Own
	}
}

// savedObjects caches parsed saved objects by the hash of their hook and bytes. A nil cache parses every object again.
type savedObjects struct {
	byHash map[[sha256.Size]byte]savedObject
}

type savedObject struct {
	object *link.Object
	elf    []byte
}

// parse parses a saved object, once for all cubes that have the same. It returns one copy of its bytes for all.
func (so *savedObjects) parse(h cube.Hook, elf []byte) (*link.Object, []byte, error) {
	if so == nil {
		o, err := link.ParseObject(h, elf)
		return o, elf, err
	}
	key := sha256.Sum256(append([]byte{byte(h)}, elf...))
	if known, ok := so.byHash[key]; ok {
		return known.object, known.elf, nil
	}
	o, err := link.ParseObject(h, elf)
	if err == nil {
		so.byHash[key] = savedObject{o, elf}
	}
	return o, elf, err
}

func numbered(pin string, h cube.Hook, n int) string { return fmt.Sprintf("%s%s-%d", pin, h, n) }

// Linked identifies a cube's constants for one object.
type Linked struct {
	ID     graph.CubeID
	Object *link.Object
}

// Keep is called once programs are in use: the successors of maps take over, and what another daemon needs to link the
// programs again is saved for the cubes that were linked. It cannot undo the change; errors are logged.
func (cs *State) Keep(g *graph.Graph, linked []LinkedCube) {
	var errs []error
	for _, in := range cs.due(g) {
		errs = append(errs, cs.takeOver(in))
		if !in.tidied && !in.frozen {
			errs = append(errs, in.tidy())
		}
		in.tidied = true
	}
	for _, l := range linked {
		if in := cs.byID[l.ID]; !in.frozen {
			for _, h := range in.hooks() {
				errs = append(errs, cs.savePrograms(in, g.Cubes[l.ID], h, l.Constants))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		cs.log.Error("save cubes' maps and programs for the next start", "err", err)
	}
}

// LinkedCube is a cube that was linked again, with the constants of its segment.
type LinkedCube struct {
	ID        graph.CubeID
	Constants map[Linked][]byte
}

// savePrograms saves the objects and constants of a cube's programs at a hook. constants are those of its segment.
func (cs *State) savePrograms(in *Instance, n *graph.Node, h cube.Hook, constants map[Linked][]byte) error {
	programs, err := cs.ProgramsOf(n, h)
	if err != nil {
		return err
	}
	var objects []*link.Object
	var list []savedProgram
	for _, pr := range programs {
		if _, ok := constants[Linked{n.ID, pr.Object}]; !ok {
			return nil // the TC side of a transparent XDP cube that is not on a netdev
		}
		at := slices.Index(objects, pr.Object)
		if at < 0 {
			at = len(objects)
			objects = append(objects, pr.Object)
		}
		list = append(list, savedProgram{pr.Direction, pr.Index, pr.Function.Name, at, pr.Object == in.objects[h]})
	}
	var errs []error
	for i, o := range objects {
		errs = append(errs,
			cs.saveObject(in, numbered(pinObject, h, i), o, h),
			in.save(numbered(pinConstants, h, i), constants[Linked{n.ID, o}]))
	}
	text, err := json.Marshal(list)
	errs = append(errs, err, in.save(pinPrograms+h.String(), text))
	for i := len(objects); in.saved[numbered(pinObject, h, i)] != nil; i++ {
		for _, pin := range []string{numbered(pinObject, h, i), numbered(pinConstants, h, i)} {
			delete(in.saved, pin)
			errs = append(errs, os.Remove(filepath.Join(in.dir, pin)))
		}
	}
	return errors.Join(errs...)
}

// saveObject saves an object, in one map for all cubes that use it.
func (cs *State) saveObject(in *Instance, pin string, o *link.Object, h cube.Hook) error {
	elf := cs.elfOf(in, o, h)
	if bytes.Equal(in.saved[pin], elf) {
		return nil
	}
	m, err := cs.savedObject(o, elf)
	if err != nil {
		return fmt.Errorf("cube %s: save %s: %w", in.spec.Name, pin, err)
	}
	defer func() { _ = m.Close() }() // the pin keeps it
	cs.savedAt[o] = filepath.Join(in.dir, pin)
	return in.savedAs(pin, elf, m)
}

// savedObject opens the map in which another cube has saved the object, or creates one.
func (cs *State) savedObject(o *link.Object, elf []byte) (*ebpf.Map, error) {
	if path := cs.savedAt[o]; path != "" {
		if m, err := ebpf.LoadPinnedMap(path, nil); err == nil {
			if raw, err := m.LookupBytes(uint32(0)); err == nil && bytes.Equal(raw, encodeSaved(elf)) {
				return m, nil
			}
			_ = m.Close() // that cube has other programs now
		}
	}
	return saving(elf)
}

// elfOf returns the ELF file of an object.
func (cs *State) elfOf(in *Instance, o *link.Object, h cube.Hook) []byte {
	if o == in.objects[h] {
		return in.elfs[h]
	}
	for key, given := range cs.given {
		if given == o {
			return unsafe.Slice(key.first, key.size)
		}
	}
	return nil
}

// tidy removes pins that the current programs do not use: maps that the service no longer declares, references to shared
// maps, and what a killed daemon left.
func (in *Instance) tidy() error {
	wanted := map[string]bool{}
	for name, d := range in.declared {
		if place := d.common(name); place != "" {
			wanted[refName(place)] = true
		} else {
			wanted[pinName(name)] = true
		}
	}
	entries, err := os.ReadDir(in.dir)
	if err != nil {
		return fmt.Errorf("read pins: %w", err)
	}
	dropped := map[string]bool{"+next": true}
	for name, own := range in.wasOwn {
		dropped[pinName(name)] = own
	}
	var errs []error
	for _, e := range entries {
		if pin := e.Name(); !wanted[pin] && (dropped[pin] || strings.Count(pin, "+") > 1) {
			errs = append(errs, os.Remove(filepath.Join(in.dir, pin)))
		}
	}
	return errors.Join(errs...)
}

// HoldCube opens a cube as an earlier daemon left it, with its programs, constants and maps. Only its links in the graph can
// change. The error wraps ErrNotFound if something is missing.
func (c *Cubes) HoldCube(spec Spec) error {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if old := cs.byID[spec.ID]; old != nil && old.spec.UUID == spec.UUID && !cs.inGraph(spec.ID) {
		cs.discard(old)
		cs.setCube(spec.ID, nil)
	}
	if err := cs.checkSpec(spec); err != nil {
		return err
	}
	spec.MapSizes, spec.Migrate = nil, nil
	in := cs.newInstance(spec, map[cube.Hook]*link.Object{}, nil)
	in.frozen, in.programs, in.constants = true, map[cube.Hook][]Program{}, map[*link.Object][]byte{}
	if err := cs.openFrozen(in); err != nil {
		cs.discard(in)
		return fmt.Errorf("cube %s: %w", spec.Name, err)
	}
	cs.setCube(spec.ID, in)
	return nil
}

// openFrozen fills an instance from its pins.
func (cs *State) openFrozen(in *Instance) error {
	own := in.spec.Type.Hook()
	for h, programs := range in.readSaved(cs.parsed) {
		if err := in.thaw(h, programs); err != nil {
			return err
		}
	}
	if in.objects[own] == nil {
		return fmt.Errorf("it has no saved programs for %s: %w", own, cube.ErrNotFound)
	}
	for name, d := range in.declared {
		pin := pinName(name)
		if place := d.common(name); place != "" {
			pin = refName(place)
		} else if space := in.chosenSpace(name); space != "" {
			d.scope, d.space = chosen, space
			in.declared[name], pin = d, refName(d.common(name))
		}
		m, err := ebpf.LoadPinnedMap(filepath.Join(in.dir, pin), nil)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("map %s: %w", name, cube.ErrNotFound)
		}
		if err != nil {
			return fmt.Errorf("open map %s: %w", name, err)
		}
		in.maps[name] = m
	}
	return nil
}

// thaw parses the saved objects of a hook and finds the programs in them.
func (in *Instance) thaw(h cube.Hook, programs []savedProgram) error {
	objects := map[int]*link.Object{}
	for _, pr := range programs {
		o := objects[pr.Object]
		if o == nil {
			data, ok := in.saved[numbered(pinConstants, h, pr.Object)]
			if !ok {
				return fmt.Errorf("the constants of object %d for %s: %w", pr.Object, h, cube.ErrNotFound)
			}
			var err error
			elf := in.saved[numbered(pinObject, h, pr.Object)]
			if o, err = link.ParseObject(h, elf); err == nil {
				err = sameMetadata(elf)
			}
			if err != nil {
				return err
			}
			declared, err := declarations(in.spec.Service, o)
			if err != nil {
				return err
			}
			maps.Copy(in.declared, declared)
			objects[pr.Object], in.constants[o] = o, data
			if pr.Own || in.objects[h] == nil {
				in.objects[h] = o
			}
		}
		f := o.Functions[pr.Function]
		if f == nil {
			return fmt.Errorf("program %s for %s: %w", pr.Function, h, cube.ErrNotFound)
		}
		slot := cube.ProgramSlot{Direction: pr.Direction, Index: pr.Index}
		in.programs[h] = append(in.programs[h], Program{slot, o, f})
	}
	return nil
}

// Keep protects the maps of a stored cube that cannot be opened: the first commit removes maps of cubes that are not open.
// An empty UUID, of a record that cannot be read, protects all maps.
func (c *Cubes) Keep(uuid string) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.retained[uuid] = true
}

// Forget removes the pins of a cube that is not open.
func (c *Cubes) Forget(uuid string) error {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !isPin(uuid) {
		return fmt.Errorf("%.80q is not a UUID: %w", uuid, cube.ErrInvalid)
	}
	for _, in := range cs.byID {
		if in.spec.UUID == uuid {
			return fmt.Errorf("cube %s is open: %w", in.spec.Name, cube.ErrInUse)
		}
	}
	delete(cs.retained, uuid)
	dir := filepath.Join(cs.dir, "cubes", uuid)
	if err := cs.removePins(dir); err != nil {
		cs.removeLater(dir, err)
	}
	return nil
}

// ForgetUnknown removes the maps of cubes that no longer exist, after the first commit.
func (cs *State) ForgetUnknown() {
	cs.parsed = nil
	entries, err := os.ReadDir(filepath.Join(cs.dir, "cubes"))
	if err != nil {
		cs.log.Warn("read pinned cubes", "err", err)
		return
	}
	known := maps.Clone(cs.retained)
	for _, in := range cs.byID {
		known[in.spec.UUID] = true
	}
	for _, e := range entries {
		if known[e.Name()] || cs.retained[""] {
			continue
		}
		cs.log.Info("removing the maps of a deleted cube", "uuid", e.Name())
		if err := bpfmap.RemoveAll(filepath.Join(cs.dir, "cubes", e.Name())); err != nil {
			cs.log.Warn("remove stale maps", "err", err)
		}
	}
	if err := dropCommons(cs.dir); err != nil {
		cs.log.Warn("remove stale shared maps", "err", err)
	}
}

// removePins removes the pins of a cube that is not open, and those of shared maps that no cube uses.
func (cs *State) removePins(dir string) error {
	return errors.Join(bpfmap.RemoveAll(dir), dropCommons(cs.dir))
}

// removeLater tries removePins again later, unless the cube was opened again.
func (cs *State) removeLater(dir string, err error) {
	cs.collect.Again(func() error {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		for _, in := range cs.byID {
			if in.dir == dir {
				return nil
			}
		}
		return cs.removePins(dir)
	}, err)
}
