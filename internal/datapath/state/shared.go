// SPDX-License-Identifier: Apache-2.0

package state

// Maps that cubes share exist as long as a cube uses them. Their users are recorded in the bpffs: each user's directory has a
// pin of the map, in addition to the map's own pin. So the count is also right after a restart, and for cubes that could
// not be restored.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// common is an open map that cubes share.
type common struct {
	spec *ebpf.MapSpec
	m    *ebpf.Map
	// move is set as long as the map's predecessor, with another layout, may have the pin.
	move   *move
	origin origins.Origin
	// by is the name of the cube that opened it first.
	by    string
	users int
}

// commons are the open maps that cubes share.
type commons struct {
	dir     string // of the Plane's pins
	byPlace map[string]*common
}

// moved reports whether any of the maps at these places has a successor that has not taken over.
func (cm *commons) moved(places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool { return cm.byPlace[place].move != nil })
}

// refName returns the name of the pin of a shared map in a user's directory. No name of a map begins with a plus sign.
func refName(place string) string { return "+" + strings.ReplaceAll(pinName(place), "/", "+") }

// owned returns the declaration that applies: for an imported map, that of the owner.
func (cs *State) owned(name string, d declaration) (declaration, error) {
	if d.scope != extern {
		return d, nil
	}
	owner, err := cs.services.get(d.space)
	if err != nil {
		return d, err
	}
	if owner == nil {
		return d, fmt.Errorf("it belongs to service %s, which is not loaded: %w", d.space, cube.ErrNotFound)
	}
	for _, o := range owner.declared {
		theirs, ok := o[name]
		if !ok || theirs.scope != public {
			continue
		}
		mine := d.spec.Copy()
		mine.MaxEntries, mine.Flags, mine.Tags = theirs.spec.MaxEntries, theirs.spec.Flags, theirs.spec.Tags
		if what := bpfmap.DeclaredOtherwise(theirs.spec, mine); what != "" {
			return d, fmt.Errorf("service %s has a different declaration: %s: %w", d.space, what, cube.ErrInvalid)
		}
		return theirs, nil
	}
	return d, fmt.Errorf("service %s has no public map of that name: %w", d.space, cube.ErrNotFound)
}

// openMap opens a map that the cube shares with others, or creates it.
func (cm *commons) openMap(in *Instance, name string, d declaration, u *undo.Stack) error {
	place := d.common(name)
	c := cm.byPlace[place]
	if c == nil {
		var err error
		if c, err = cm.makeMap(in, name, place, d, u); err != nil {
			return err
		}
	} else if what := bpfmap.DeclaredOtherwise(c.spec, d.spec); what != "" {
		return fmt.Errorf("%s is in use by %s as %s: %w", place, c.by, what, cube.ErrInUse)
	}
	m, err := c.m.Clone()
	if err != nil {
		return fmt.Errorf("open %s: %w", place, err)
	}
	in.maps[name], in.origins[name] = m, c.origin
	if c.origin == origins.Created && c.users > 0 {
		in.origins[name] = origins.Adopted // it may have entries of others
	}
	c.users++
	in.commons = append(in.commons, place)
	return in.refer(refName(place), m, u)
}

// refer pins a shared map in its user's directory.
func (in *Instance) refer(ref string, m *ebpf.Map, u *undo.Stack) error {
	path := filepath.Join(in.dir, ref)
	is, err := ebpf.LoadPinnedMap(path, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		u.Push(func() error { return os.Remove(path) })
		return bpfmap.PinAlso(m, path)
	case err != nil:
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = is.Close() }()
	if eq, err := equalMaps(is, m); err != nil || eq {
		return err
	}
	in.moves = append(in.moves, move{path: path, now: m}) // it was carried over
	return nil
}

func equalMaps(a, b *ebpf.Map) (bool, error) {
	one, err := a.Info()
	if err != nil {
		return false, fmt.Errorf("identify a map: %w", err)
	}
	two, err := b.Info()
	if err != nil {
		return false, fmt.Errorf("identify a map: %w", err)
	}
	x, _ := one.ID()
	y, _ := two.ID()
	return x == y, nil
}

// makeMap opens the pinned map, or creates it.
func (cm *commons) makeMap(in *Instance, name, place string, d declaration, u *undo.Stack) (*common, error) {
	path := filepath.Join(cm.dir, place)
	for _, dir := range []string{filepath.Dir(filepath.Dir(path)), filepath.Dir(path)} {
		if err := bpfmap.EnsureDir(dir); err != nil {
			return nil, err
		}
	}
	c := &common{spec: d.spec, by: in.spec.Name}
	m, fresh, err := bpfmap.OpenAnyLayout(path, d.spec)
	if err != nil {
		return nil, err
	}
	in.origins[name] = origins.Adopted
	if fresh {
		in.origins[name] = origins.Created
	}
	if c.m, err = in.carry(name, m, d.spec, u); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	c.origin = in.origins[name]
	if c.m != m {
		c.move = &move{path: path, now: c.m}
		in.settled(m)
	}
	cm.byPlace[place] = c
	u.Push(func() error {
		delete(cm.byPlace, place)
		_ = c.m.Close()
		if !fresh {
			return nil
		}
		return removeCommon(path)
	})
	return c, nil
}

// Common returns how many shared maps are open.
func (cs *State) Common() int { return len(cs.commons.byPlace) }

// removeCommon removes the pin of a shared map, and its directory if that is empty.
func removeCommon(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	_ = os.Remove(filepath.Dir(path)) // unless it has other pins
	return nil
}

// leave ends an instance's use of shared maps. The pins remain.
func (cm *commons) leave(in *Instance) {
	for _, place := range in.commons {
		c := cm.byPlace[place]
		if c == nil {
			continue
		}
		if c.users--; c.users == 0 {
			_ = c.m.Close()
			delete(cm.byPlace, place)
		}
	}
	in.commons = nil
}

// dropCommons removes the shared maps of a Plane's directory to which no cube's directory refers.
func dropCommons(dir string) error {
	used, err := references(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, kind := range []string{"shared", "public", chosenDir} {
		spaces, err := os.ReadDir(filepath.Join(dir, kind))
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("read %s maps: %w", kind, err))
			}
			continue
		}
		for _, space := range spaces {
			list, err := os.ReadDir(filepath.Join(dir, kind+"/"+space.Name()))
			if err != nil {
				errs = append(errs, fmt.Errorf("read %s maps: %w", kind, err))
				continue
			}
			for _, e := range list {
				place := kind + "/" + space.Name() + "/" + e.Name()
				if !used[refName(place)] {
					errs = append(errs, removeCommon(filepath.Join(dir, place)))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// references returns the names of all pins of shared maps in cubes' directories.
func references(dir string) (map[string]bool, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "cubes", "*", "+*+*+*"))
	if err != nil {
		return nil, fmt.Errorf("read cubes' maps: %w", err)
	}
	used := map[string]bool{}
	for _, path := range paths {
		used[filepath.Base(path)] = true
	}
	return used, nil
}

// chosenSpace returns the space in which a map of the cube's own is, as its pins say; "" for a map that it does not share.
func (in *Instance) chosenSpace(name string) string {
	prefix, suffix := "+"+chosenDir+"+", "+"+pinName(name)
	refs, err := filepath.Glob(filepath.Join(in.dir, prefix+"*"+suffix))
	if err != nil || len(refs) != 1 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(refs[0]), prefix), suffix)
}
