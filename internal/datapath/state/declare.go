// SPDX-License-Identifier: Apache-2.0

package state

// The declarations of maps in a cube's object are not trusted: names become pins, and types and sizes kernel memory. They
// are checked once, when the service is registered.

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

// scope is who uses a map.
type scope uint8

const (
	private scope = iota // one instance
	shared               // all that name its namespace
	public               // all instances of the declaring service, and importers
	extern               // an importer of a public map
	chosen               // all instances of the service with the same space
)

// Tags that PCN_MAP_SHARED, PCN_MAP_PUBLIC and PCN_MAP_EXTERN of <pcn/map.h> write to the object.
const (
	tagPrefix = "pcn_"
	tagShared = "pcn_shared:"
	tagPublic = "pcn_public"
	tagExtern = "pcn_extern:"
)

// declaration is the declaration of a map in an object.
type declaration struct {
	spec  *ebpf.MapSpec
	scope scope
	// space is the namespace, the service that a public map belongs to, or the service and the space that the instance
	// has chosen; "" for a private map.
	space string
}

// common returns the path of a map that cubes share, below the plane's directory; "" for a private map. Namespaces and
// services have separate directories.
func (d declaration) common(name string) string {
	switch d.scope {
	case shared:
		return "shared/" + d.space + "/" + name
	case public, extern:
		return "public/" + d.space + "/" + name
	case chosen:
		return chosenDir + "/" + d.space + "/" + name
	case private:
	}
	return ""
}

// chosenDir is the directory of maps in spaces that instances have chosen, below the plane's.
const chosenDir = "chosen"

// spacePins writes the name of a space as a pin, in which the last hyphen is the one after the service.
var spacePins = strings.NewReplacer("_", "__", ".", "_d", "-", "_h")

// in returns the declaration of a private map with the space that an instance of a service has chosen for it.
func (d declaration) in(service, space string) (declaration, error) {
	switch {
	case d.spec == nil:
		return d, fmt.Errorf("it does not exist: %w", cube.ErrNotFound)
	case d.scope != private:
		return d, fmt.Errorf("it is shared already: %w", cube.ErrInvalid)
	case !chosenName.MatchString(space):
		return d, fmt.Errorf("%.80q is not the name of a space, use up to 64 letters, digits, ., - and _: %w", space, cube.ErrInvalid)
	}
	d.scope, d.space = chosen, service+"-"+spacePins.Replace(space)
	return d, nil
}

// Limits of what an object may declare.
const (
	maxMapBytes = 1 << 30 // of one map: the minimum size of its entries
	maxMapName  = 64
)

var (
	mapName   = regexp.MustCompile(`^\.?[A-Za-z_][A-Za-z0-9_.]*$`)
	spaceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

	chosenName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

// mapTypes are the types that a cube may use. With others, packets could bypass the framework (maps of programs, devices,
// CPUs and sockets), or they are for programs that a cube does not have.
var mapTypes = []ebpf.MapType{
	ebpf.Hash, ebpf.Array, ebpf.PerCPUHash, ebpf.PerCPUArray, ebpf.LRUHash, ebpf.LRUCPUHash, ebpf.LPMTrie,
	ebpf.ArrayOfMaps, ebpf.HashOfMaps, ebpf.Queue, ebpf.Stack, ebpf.BloomFilter, ebpf.RingBuf,
}

// declarations reads and checks the declarations of maps in an object of a service.
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

// pinName returns the name of a map's pin: bpffs allows no dots.
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
		if !strings.HasPrefix(tag, tagPrefix) || tag == bpfmap.TagDisposable {
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

// checkSpec checks the type and size of a map and of its inner maps.
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
