// SPDX-License-Identifier: Apache-2.0

package dynmon

// A monitor as it was given: compiled, checked, and not changed yet.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/compile"
	"github.com/polycube/polycube/cube/foreign"
	"github.com/polycube/polycube/cubes/dynmon/restricted"
)

// Names of a path, of its source in messages, and in names of maps.
var pathNames = map[cube.Direction]struct{ path, source, letter string }{
	cube.Ingress: {"ingress-path", "ingress.c", "i"},
	cube.Egress:  {"egress-path", "egress.c", "e"},
}

// directions are in the order of paths.
var directions = []cube.Direction{cube.Ingress, cube.Egress}

// entries are the functions by which packets enter a monitor, the first one that an object has.
var entries = map[cube.Direction][]string{
	cube.Ingress: {"pcn_ingress", "pcn_monitor"},
	cube.Egress:  {"pcn_egress", "pcn_monitor"},
}

// tagBoth is in front of a map that both paths use: PCN_BOTH_PATHS.
const tagBoth = "monitor_both_paths"

// monitor is a monitor of a path.
type monitor struct {
	// given is the text that it was made of: the code, or the objects.
	given    string
	function string
	objects  map[cube.Hook][]byte
	// maps are those of the object for the hook of the cube.
	maps map[string]*ebpf.MapSpec
}

// id is a short name of the monitor, which is another one for other code.
func (m *monitor) id() string {
	sum := sha256.Sum256([]byte(m.given))
	return hex.EncodeToString(sum[:4])
}

// given returns what a path is made of. A path in the C of the first Polycube may import tables of the other one.
func (d *Dataplane) given(direction cube.Direction) string {
	p := d.of(direction)
	if p.Code == "" {
		return p.Object + " " + p.ObjectTC
	}
	if restricted.Imports(p.Code) {
		return p.Code + "\x00" + d.of(1-direction).Code
	}
	return p.Code
}

// newMonitor compiles or decodes a monitor.
func newMonitor(ctx context.Context, env cube.Env, direction cube.Direction, conf *Dataplane) (*monitor, error) {
	p := conf.of(direction)
	m := &monitor{given: conf.given(direction)}
	var err error
	if p.Object != "" {
		m.objects, err = p.objects(env.Type())
	} else {
		m.objects, err = compiled(ctx, env, direction, p.Code, conf.of(1-direction).Code)
	}
	if err != nil {
		return nil, err
	}
	if err := foreign.Check(m.objects); err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(m.objects[env.Type().Hook()]))
	if err != nil {
		return nil, fmt.Errorf("read the object: %w: %w", err, cube.ErrInvalid)
	}
	at := slices.IndexFunc(entries[direction], func(name string) bool { return spec.Programs[name] != nil })
	if at < 0 {
		return nil, fmt.Errorf("it has no program: include <pcn/monitor.h>, and write PCN_MONITOR { ... } that ends with return pcn_pkt_pass(ctx, md): %w", cube.ErrInvalid)
	}
	m.function = entries[direction][at]
	m.maps = spec.Maps
	maps.DeleteFunc(m.maps, func(name string, _ *ebpf.MapSpec) bool { return strings.HasPrefix(name, ".") })
	return m, m.checkMaps()
}

// checkMaps refuses maps that are of no use in a monitor.
func (m *monitor) checkMaps() error {
	for _, name := range slices.Sorted(maps.Keys(m.maps)) {
		spec := m.maps[name]
		switch {
		case slices.Contains(spec.Tags, "pcn_public"):
			return fmt.Errorf("map %s: a monitor cannot share maps with other cubes: use PCN_MAP: %w", name, cube.ErrInvalid)
		case spec.Type == ebpf.RingBuf:
			return fmt.Errorf("map %s: nothing reads a monitor's ring buffer: count in a map, or use a queue: %w", name, cube.ErrInvalid)
		case spec.Type == ebpf.ArrayOfMaps || spec.Type == ebpf.HashOfMaps:
			return fmt.Errorf("map %s: nothing fills a monitor's map of maps: use PCN_MAP: %w", name, cube.ErrInvalid)
		case len(name) > 48:
			return fmt.Errorf("map %.80s: the name exceeds 48 characters: %w", name, cube.ErrInvalid)
		}
	}
	return nil
}

// compiled compiles code for the hooks that a cube runs at: one at XDP is at TC where a netdev sends.
func compiled(ctx context.Context, env cube.Env, direction cube.Direction, code, others string) (map[cube.Hook][]byte, error) {
	text, err := restricted.Translate(pathNames[direction].source, code, others)
	if err != nil {
		return nil, err
	}
	hooks := []cube.Hook{env.Type().Hook()}
	if hooks[0] != cube.TC {
		hooks = append(hooks, cube.TC)
	}
	out := map[cube.Hook][]byte{}
	for _, hook := range hooks {
		out[hook], err = compile.With(ctx, env, compile.Source{Name: pathNames[direction].source, Text: []byte(text), Hook: hook,
			Defines: []string{fmt.Sprintf("PCN_MONITOR_PATH=%d", direction)}})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
