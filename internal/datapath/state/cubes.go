// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// Spec describes a cube that is to be created.
type Spec struct {
	ID          graph.CubeID
	UUID        string
	Name        string
	Service     string
	Type        cube.Type
	Transparent bool
	// MapSizes overrides max_entries by map name.
	MapSizes map[string]uint32
	// Spaces are those of maps that the service declares as the cube's own, and that cubes of the service share.
	Spaces map[string]string
	// Migrate is the service's function; nil if it has none.
	Migrate func(cube.Migration) error
	// External marks a cube whose programs are not part of the daemon: they are verified on their own and called, never
	// inlined into those of others.
	External bool
}

// Instance is a cube's part of the fast path: the parsed objects of its service and its maps.
type Instance struct {
	spec     Spec
	objects  map[cube.Hook]*link.Object
	elfs     map[cube.Hook][]byte
	declared map[string]declaration // at the hooks that the cube uses
	maps     map[string]*ebpf.Map
	origins  map[string]origins.Origin // of the maps
	dir      string                    // where the maps are pinned
	commons  []string                  // the maps that it shares with others

	// was are the declarations of the maps in an earlier daemon's programs.
	was map[string]*ebpf.MapSpec
	// moves, late and olds are left to do once programs use the successors of maps.
	moves []move
	late  []succession
	olds  []*ebpf.Map
	// taken counts how often successors took over.
	taken int

	// saved are the pinned parts of its programs. wasOwn are the maps that the service declared.
	saved  map[string][]byte
	wasOwn map[string]bool
	tidied bool
	// transient are the maps that exist as long as a program uses them.
	transient map[string]bool
	// frozen marks a cube that runs with its saved programs and constants.
	frozen    bool
	programs  map[cube.Hook][]Program
	constants map[*link.Object][]byte
}

// CheckObject parses a service's objects, so that invalid ones are refused when the service is registered. New cubes use
// them.
func (c *Cubes) CheckObject(service string, objects map[cube.Hook][]byte) error {
	cs := c.state
	s, err := ParseService(service, objects)
	if err != nil {
		return err
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.services.forget(service)
	cs.services.parsed[service] = s
	return nil
}

// AddObjects adds a service whose objects are known to be valid. They are parsed when a cube needs them, since that takes up to
// 40 ms, and a daemon has many services and uses few.
func (c *Cubes) AddObjects(service string, objects map[cube.Hook][]byte) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.services.forget(service)
	cs.services.unparsed[service] = objects
}

// CreateCube creates the cube's maps, or opens those that an earlier daemon left pinned. Maps whose declaration changed get
// successors with their entries, or the cube is refused; in both cases, programs in use keep their maps.
func (c *Cubes) CreateCube(spec Spec) error {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	in, _, err := cs.open(spec)
	if err != nil {
		return bpfmap.Unpinned(cs.dir, err)
	}
	cs.setCube(spec.ID, in)
	return nil
}

// setCube sets the instance with a number; nil removes it.
func (cs *State) setCube(id graph.CubeID, in *Instance) {
	if in == nil {
		delete(cs.byID, id)
		cs.types.Delete(id)
		cs.floods.RemoveOwner(id)
		return
	}
	cs.byID[id] = in
	cs.types.Store(id, in.spec.Type)
	cs.floods.SetOwner(id, in.spec.Name, in.spec.Type, in.throughEgress(nil))
}

// ThroughEgress reports whether the copies of a cube's floods must pass its egress program.
func (cs *State) ThroughEgress(n *graph.Node) bool {
	in := cs.byID[n.ID]
	return in != nil && in.throughEgress(n)
}

// checkService checks that a service has the programs that a cube needs.
func checkService(spec Spec, service *Service) error {
	if service == nil || service.objects[spec.Type.Hook()] == nil {
		return fmt.Errorf("cube %s: service %s has no programs for %s: %w", spec.Name, spec.Service, spec.Type, cube.ErrUnsupported)
	}
	if !spec.Transparent {
		return nil
	}
	for h, o := range service.objects {
		if o.Functions[link.Egress] == nil {
			return fmt.Errorf("cube %s: the transparent service %s has no %s egress program: %w",
				spec.Name, spec.Service, h, cube.ErrInvalid)
		}
	}
	return nil
}

// checkSpec checks the numbers and names of a cube, which are used as indexes and pins.
func (cs *State) checkSpec(spec Spec) error {
	if spec.ID == 0 || spec.ID > graph.MaxCubeID {
		return fmt.Errorf("cube %s: id %d is not in 1..%d: %w", spec.Name, spec.ID, graph.MaxCubeID, cube.ErrInvalid)
	}
	if !isPin(spec.UUID) {
		return fmt.Errorf("cube %s: %.80q is not a UUID: %w", spec.Name, spec.UUID, cube.ErrInvalid)
	}
	if other := cs.byID[spec.ID]; other != nil {
		return fmt.Errorf("cube %s: id %d belongs to %s: %w", spec.Name, spec.ID, other.spec.Name, cube.ErrExists)
	}
	for _, other := range cs.byID {
		if other.spec.UUID == spec.UUID {
			return fmt.Errorf("cube %s: its UUID is that of %s: %w", spec.Name, other.spec.Name, cube.ErrExists)
		}
	}
	return nil
}

// isPin reports whether a name can be that of a directory of pins.
func isPin(name string) bool {
	return name != "" && len(name) <= 128 && !strings.ContainsAny(name, "./*?[\\\x00")
}

func (cs *State) newInstance(spec Spec, objects map[cube.Hook]*link.Object, elfs map[cube.Hook][]byte) *Instance {
	return &Instance{
		spec: spec, objects: objects, elfs: elfs, maps: map[string]*ebpf.Map{}, origins: map[string]origins.Origin{}, declared: map[string]declaration{},
		dir: filepath.Join(cs.dir, "cubes", spec.UUID), saved: map[string][]byte{}, transient: map[string]bool{},
	}
}

// hooks returns those whose objects the cube uses.
func (in *Instance) hooks() []cube.Hook {
	own := in.spec.Type.Hook()
	if in.spec.Transparent && own != cube.TC && in.objects[cube.TC] != nil {
		return []cube.Hook{own, cube.TC} // for the egress of netdevs
	}
	return []cube.Hook{own}
}

// declare collects the declarations of maps at the hooks that the cube uses.
func (in *Instance) declare(declared map[cube.Hook]map[string]declaration) error {
	for _, h := range in.hooks() {
		for name, d := range declared[h] {
			first, twice := in.declared[name]
			if !twice {
				in.declared[name] = d
				continue
			}
			if what := bpfmap.DeclaredOtherwise(first.spec, d.spec); what != "" || first.common(name) != d.common(name) {
				return fmt.Errorf("map %s: has a different declaration for %s (%s): %w", name, h, what, cube.ErrInvalid)
			}
		}
	}
	for name, n := range in.spec.MapSizes {
		d, ok := in.declared[name]
		if !ok {
			return fmt.Errorf("map %s: %w", name, cube.ErrNotFound)
		}
		d, err := d.sized(name, n)
		if err != nil {
			return err
		}
		in.declared[name] = d
	}
	for name, space := range in.spec.Spaces {
		d, err := in.declared[name].in(in.spec.Service, space)
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		in.declared[name] = d
	}
	return nil
}

// openMaps fills in.maps, and reports whether the maps existed. Existing ones are not changed; u removes those that it
// creates.
func (cs *State) openMaps(in *Instance, declared map[cube.Hook]map[string]declaration, u *undo.Stack) (reopened bool, err error) {
	if err := in.declare(declared); err != nil {
		return false, err
	}
	if _, err := os.Stat(in.dir); err == nil {
		reopened = true
		in.readSaved(cs.parsed)
	} else {
		if err := bpfmap.EnsureDir(in.dir); err != nil {
			return false, err
		}
		u.Push(func() error { return bpfmap.RemoveAll(in.dir) })
	}
	for _, name := range slices.Sorted(maps.Keys(in.declared)) {
		if err := cs.openOne(in, name, in.declared[name], u); err != nil {
			return false, err
		}
	}
	return reopened, nil
}

// addMaps creates the maps of an object given at run time that the cube does not have yet. They exist as long as the cube,
// so that an object that is used again finds its entries, unless they are transient.
func (cs *State) addMaps(in *Instance, o *link.Object, transient bool) error {
	declared, err := declarations(in.spec.Service, o)
	if err != nil {
		return err
	}
	var u undo.Stack
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		d, err := cs.owned(name, declared[name])
		if err != nil {
			return errors.Join(fmt.Errorf("map %s: %w", name, err), u.Run())
		}
		if is, ok := in.declared[name]; ok {
			if err := in.agree(name, is, d); err != nil {
				return errors.Join(err, u.Run())
			}
			continue
		}
		if err := cs.openOne(in, name, d, &u); err != nil {
			return errors.Join(err, u.Run())
		}
		u.Push(func() error {
			m := in.maps[name]
			delete(in.maps, name)
			delete(in.declared, name)
			return m.Close()
		})
	}
	for name := range declared {
		if transient && !in.isService(name) {
			in.transient[name] = true
		}
	}
	return nil
}

// agree refuses a declaration that differs from that of the cube's map of the same name.
func (in *Instance) agree(name string, is, d declaration) error {
	spec := d.spec
	if n := in.spec.MapSizes[name]; n != 0 {
		spec = spec.Copy()
		spec.MaxEntries = n
	}
	what := bpfmap.DeclaredOtherwise(is.spec, spec)
	if what == "" && is.common(name) != d.common(name) {
		what = "it is shared differently"
	}
	if what != "" {
		return fmt.Errorf("map %s has another layout in the cube: %s: %w", name, what, cube.ErrInvalid)
	}
	return nil
}

// openOne opens or creates a map in its declared scope.
func (cs *State) openOne(in *Instance, name string, d declaration, u *undo.Stack) error {
	d, err := cs.owned(name, d)
	if err != nil {
		return fmt.Errorf("map %s: %w", name, err)
	}
	if d.scope == private {
		err = in.openPrivate(name, d.spec, u)
	} else {
		err = cs.commons.openMap(in, name, d, u)
	}
	if err == nil {
		in.declared[name] = d
	}
	return err
}

// pin returns the path of the pin of a private map.
func (in *Instance) pin(name string) string { return filepath.Join(in.dir, pinName(name)) }

// openPrivate opens or creates a private map.
func (in *Instance) openPrivate(name string, spec *ebpf.MapSpec, u *undo.Stack) error {
	path := in.pin(name)
	m, fresh, err := bpfmap.OpenAnyLayout(path, spec)
	if err != nil {
		return err
	}
	if fresh {
		u.Push(func() error { return os.Remove(path) })
		in.maps[name], in.origins[name] = m, origins.Created
		return nil
	}
	in.origins[name] = origins.Adopted
	next, err := in.carry(name, m, spec, u)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	if next != m {
		in.settled(m)
		in.moves = append(in.moves, move{path: path, now: next})
	}
	in.maps[name] = next
	return nil
}

// Spec returns the description with which the cube was created.
func (in *Instance) Spec() Spec { return in.spec }

// Pending returns how many maps have successors that no program uses yet.
func (in *Instance) Pending() int { return len(in.moves) + len(in.late) + len(in.olds) }

// Object returns the cube's object for a hook, nil if there is none.
func (in *Instance) Object(h cube.Hook) *link.Object { return in.objects[h] }

// FrozenConstants returns the constants of a cube that runs as an earlier daemon left it; false for any other cube.
func (in *Instance) FrozenConstants(o *link.Object) ([]byte, bool) { return in.constants[o], in.frozen }

// Place is where a map that cubes share is, the same for all of them; "" for a map of the cube's own.
func (in *Instance) Place(name string) string {
	d, ok := in.declared[name]
	if !ok {
		return ""
	}
	return d.common(name)
}

// HasOwn reports whether one of some maps is the cube's alone. Constants are no such maps.
func (in *Instance) HasOwn(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		d, ok := in.declared[name]
		return ok && d.common(name) == ""
	})
}

// Specs returns the declarations of the cube's maps.
func (in *Instance) Specs() map[string]*ebpf.MapSpec {
	out := make(map[string]*ebpf.MapSpec, len(in.declared))
	for name, d := range in.declared {
		out[name] = d.spec
	}
	return out
}

// discard closes the maps of an instance; the pins remain.
func (cs *State) discard(in *Instance) {
	for _, m := range in.maps {
		_ = m.Close()
	}
	for _, m := range in.olds {
		_ = m.Close()
	}
	cs.commons.leave(in)
}

// remove closes the maps and removes their pins, and those of shared maps that no other cube uses. Pins that cannot be
// removed now are removed later.
func (cs *State) remove(in *Instance) {
	cs.discard(in)
	if err := cs.removePins(in.dir); err != nil {
		cs.removeLater(in.dir, fmt.Errorf("cube %s: %w", in.spec.Name, err))
	}
}

// LinkMaps returns the maps that the linker binds.
func (in *Instance) LinkMaps() map[string]asm.FDer {
	out := make(map[string]asm.FDer, len(in.maps))
	for name, m := range in.maps {
		out[name] = m
	}
	return out
}

// DeleteCube removes the cube's maps. The cube must not be in the committed graph any more. Pins that cannot be removed now
// are removed later.
func (c *Cubes) DeleteCube(id graph.CubeID) error {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	in := cs.byID[id]
	if in == nil {
		return fmt.Errorf("cube %d: %w", id, cube.ErrNotFound)
	}
	if cs.inGraph(id) {
		return fmt.Errorf("cube %s is still in the graph: %w", in.spec.Name, cube.ErrInUse)
	}
	cs.setCube(id, nil)
	cs.remove(in)
	return cs.floods.Forget(id)
}

// Map returns one of the cube's maps.
func (c *Cubes) Map(id graph.CubeID, name string) (*ebpf.Map, error) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	in, err := cs.having(id, name)
	if err != nil {
		return nil, err
	}
	return in.maps[name], nil
}

// Origin returns how one of the cube's maps was created.
func (c *Cubes) Origin(id graph.CubeID, name string) (origins.Origin, error) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	in, err := cs.having(id, name)
	if err != nil {
		return 0, err
	}
	return in.origins[name], nil
}

// Inner returns the declaration of the inner maps of one of the cube's maps of maps.
func (c *Cubes) Inner(id graph.CubeID, name string) (*ebpf.MapSpec, error) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	in, err := cs.having(id, name)
	if err != nil {
		return nil, err
	}
	inner := in.declared[name].spec.InnerMap
	if inner == nil {
		return nil, fmt.Errorf("cube %s: map %s has no inner maps: %w", in.spec.Name, name, cube.ErrInvalid)
	}
	return inner.Copy(), nil
}

// having returns the cube if it has a map of that name.
func (cs *State) having(id graph.CubeID, name string) (*Instance, error) {
	in := cs.byID[id]
	if in == nil {
		return nil, fmt.Errorf("cube %d: %w", id, cube.ErrNotFound)
	}
	if in.maps[name] == nil {
		return nil, fmt.Errorf("cube %s: map %s: %w", in.spec.Name, name, cube.ErrNotFound)
	}
	return in, nil
}

// throughEgress reports whether the copies of a cube's floods must pass its egress program; n may be nil.
func (in *Instance) throughEgress(n *graph.Node) bool {
	if n != nil {
		if p, named := n.Programs[cube.ProgramSlot{Direction: cube.Egress}]; named {
			return p.Function != ""
		}
	}
	o := in.objects[in.spec.Type.Hook()]
	return o != nil && o.Functions[link.Egress] != nil
}
