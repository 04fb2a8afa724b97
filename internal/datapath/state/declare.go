// SPDX-License-Identifier: Apache-2.0

package state

// What a cube's object says about its maps is not trusted: names become pins, types and sizes
// become kernel memory. All of it is checked once, when the service registers.

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/link"
)

// scope says who has a map.
type scope uint8

const (
	private scope = iota // one instance
	shared               // all who name the namespace
	public               // all instances of the declaring service, and importers
	extern               // an importer of a public map
)

// Tags that PCN_MAP_SHARED, PCN_MAP_PUBLIC and PCN_MAP_EXTERN of <pcn/map.h> leave in the object.
const (
	tagPrefix = "pcn_"
	tagShared = "pcn_shared:"
	tagPublic = "pcn_public"
	tagExtern = "pcn_extern:"
)

// declaration is a map as an object declares it.
type declaration struct {
	spec  *ebpf.MapSpec
	scope scope
	// space is the namespace, or the service that a public map belongs to; "" for a private map.
	space string
}

// common is the place under the plane's directory of a map that cubes have in common, "" for a
// private one. Namespaces and services are kept apart.
func (d declaration) common(name string) string {
	switch d.scope {
	case shared:
		return "shared/" + d.space + "/" + name
	case public, extern:
		return "public/" + d.space + "/" + name
	case private:
	}
	return ""
}

// Limits of what an object may declare.
const (
	maxMapBytes = 1 << 30 // of one map, counting what entries take at least
	maxMapName  = 64
)

var (
	mapName   = regexp.MustCompile(`^\.?[A-Za-z_][A-Za-z0-9_.]*$`)
	spaceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)
)

// mapTypes are those that a cube may have. The others lead packets past the framework (maps of
// programs, devices, CPUs and sockets) or belong to something that a cube is not.
var mapTypes = []ebpf.MapType{
	ebpf.Hash, ebpf.Array, ebpf.PerCPUHash, ebpf.PerCPUArray, ebpf.LRUHash, ebpf.LRUCPUHash, ebpf.LPMTrie,
	ebpf.ArrayOfMaps, ebpf.HashOfMaps, ebpf.Queue, ebpf.Stack, ebpf.BloomFilter, ebpf.RingBuf,
}

// declarations reads and checks the maps of an object of a service.
func declarations(service string, o *link.Object) (map[string]declaration, error) {
	out, pins := map[string]declaration{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(o.Maps)) {
		d, err := declare(service, name, o.Maps[name])
		if err != nil {
			return nil, fmt.Errorf("map %.80q: %w", name, err)
		}
		if other, taken := pins[pinName(name)]; taken {
			return nil, fmt.Errorf("maps %q and %q differ only in dots: %w", other, name, cube.ErrInvalid)
		}
		pins[pinName(name)] = name
		out[name] = d
	}
	return out, nil
}

// pinName is the name of a map's pin: bpffs takes no dots.
func pinName(name string) string { return strings.ReplaceAll(name, ".", "_") }

func declare(service, name string, spec *ebpf.MapSpec) (declaration, error) {
	d := declaration{spec: spec}
	switch {
	case len(name) > maxMapName || !mapName.MatchString(name):
		return d, fmt.Errorf("a map's name is a C name of at most %d characters: %w", maxMapName, cube.ErrInvalid)
	case strings.HasPrefix(name, tagPrefix):
		return d, fmt.Errorf("names with the prefix %s are reserved for the framework: %w", tagPrefix, cube.ErrInvalid)
	}
	if err := checkSpec(spec); err != nil {
		return d, err
	}
	for _, tag := range spec.Tags {
		if !strings.HasPrefix(tag, tagPrefix) {
			continue
		}
		if d.scope != private {
			return d, fmt.Errorf("it is shared in two ways: %w", cube.ErrInvalid)
		}
		if err := d.setScope(service, tag); err != nil {
			return d, err
		}
	}
	return d, nil
}

// setScope reads a tag.
func (d *declaration) setScope(service, tag string) error {
	space, isShared := strings.CutPrefix(tag, tagShared)
	owner, isExtern := strings.CutPrefix(tag, tagExtern)
	switch {
	case isShared:
		d.scope, d.space = shared, space
	case isExtern:
		d.scope, d.space = extern, owner
		if owner == service {
			return fmt.Errorf("a service must not import its own map; PCN_MAP_PUBLIC is enough: %w", cube.ErrInvalid)
		}
	case tag == tagPublic:
		d.scope, d.space = public, service
	default:
		return fmt.Errorf("unknown tag %.80q: %w", tag, cube.ErrInvalid)
	}
	if !spaceName.MatchString(d.space) {
		return fmt.Errorf("%.80q is not a valid shared name, use letters, digits, - and _: %w", d.space, cube.ErrInvalid)
	}
	return nil
}

// checkSpec checks type and size of a map and of those inside it.
func checkSpec(s *ebpf.MapSpec) error {
	if !slices.Contains(mapTypes, s.Type) {
		return fmt.Errorf("a cube cannot have a map of type %s: %w", s.Type, cube.ErrUnsupported)
	}
	if s.MaxEntries == 0 {
		return fmt.Errorf("max_entries is 0: %w", cube.ErrInvalid)
	}
	if size := bpfmap.Bytes(s); size > maxMapBytes {
		return fmt.Errorf("%d entries need %d MB, the limit of a map is %d MB: %w", s.MaxEntries, size>>20, maxMapBytes>>20, cube.ErrFull)
	}
	if s.Type != ebpf.ArrayOfMaps && s.Type != ebpf.HashOfMaps {
		return nil
	}
	if s.InnerMap == nil {
		return fmt.Errorf("the type of its inner maps is missing, use PCN_MAP_OF_MAPS: %w", cube.ErrInvalid)
	}
	if err := checkSpec(s.InnerMap); err != nil {
		return fmt.Errorf("inner maps: %w", err)
	}
	return nil
}
