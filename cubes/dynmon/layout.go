// SPDX-License-Identifier: Apache-2.0

package dynmon

// What a configuration becomes: the programs of the cube, and the maps behind each metric.
//
// Each map of a monitor gets a name that depends on its code: `counts` becomes counts.i1f2e3d4c. So a monitor with other code
// begins with empty maps, whatever their types, and one with the same code finds its own. A map that is swapped has a twin,
// counts.i1f2e3d4c.2, and each monitor that uses it has one, too: the same program with the names of the twins.

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/foreign"
	"github.com/polycube/polycube/cube/series"
	"github.com/polycube/polycube/sketch"
)

// twinSuffix ends the name of the second map of two.
const twinSuffix = ".2"

// layout is what a configuration becomes. The zero value has no monitors.
type layout struct {
	// programs is a text that is the same for the same programs.
	programs string
	slots    map[cube.ProgramSlot]*cube.Program
	metrics  []*metric
	// twins are the maps that exist twice.
	twins []string
	// open are maps that were read, by name.
	open map[string]*ebpf.Map
}

// metric is one that can be read.
type metric struct {
	direction cube.Direction
	conf      MetricConfig
	// maps are the names of the map, and of its twin if it is swapped.
	maps  []string
	shape *series.Shape
	open  *series.Metric // nil if it is shown as JSON only
}

func (m *metric) swapped() bool { return len(m.maps) > 1 }

// changes returns the programs of all slots that monitors use.
func (l *layout) changes() map[cube.ProgramSlot]*cube.Program {
	out := map[cube.ProgramSlot]*cube.Program{}
	for direction, plain := range map[cube.Direction]string{cube.Ingress: "pcn_ingress", cube.Egress: "pcn_egress"} {
		out[cube.ProgramSlot{Direction: direction}] = &cube.Program{Function: plain}
		for _, index := range []int{slotFirst, slotSecond} {
			out[cube.ProgramSlot{Direction: direction, Index: index}] = nil
		}
	}
	maps.Copy(out, l.slots)
	return out
}

// Indexes of programs: DYNMON_FIRST and DYNMON_SECOND, and the function that chooses.
const (
	slotFirst  = 1
	slotSecond = 2
	choose     = "dynmon_choose"
)

// close closes the maps that were read.
func (l *layout) close() {
	for _, m := range l.open {
		_ = m.Close()
	}
	l.open = nil
}

// builder makes layouts.
type builder struct {
	env  cube.Env
	seed sketch.Seed
	// last are the monitors that were built last, so that a change of other leaves does not compile them again.
	last [2]*monitor
}

// layout builds a configuration.
func (b *builder) layout(ctx context.Context, conf *Dataplane) (*layout, error) {
	var monitors [2]*monitor
	for _, direction := range directions {
		m, err := b.monitor(ctx, direction, conf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pathNames[direction].path, err)
		}
		monitors[direction] = m
	}
	d := &draft{layout: &layout{slots: map[cube.ProgramSlot]*cube.Program{}}, builder: b, monitors: monitors}
	if err := d.names(); err != nil {
		return nil, err
	}
	for _, direction := range directions {
		if err := d.metrics(direction, conf.of(direction)); err != nil {
			return nil, fmt.Errorf("%s: %w", pathNames[direction].path, err)
		}
	}
	if err := d.checkMemory(); err != nil {
		return nil, err
	}
	for _, direction := range directions {
		if err := d.place(direction); err != nil {
			return nil, fmt.Errorf("%s: %w", pathNames[direction].path, err)
		}
	}
	b.last = monitors
	return d.layout, nil
}

// monitor returns the monitor of a path, nil for none.
func (b *builder) monitor(ctx context.Context, direction cube.Direction, conf *Dataplane) (*monitor, error) {
	path := conf.of(direction)
	if err := path.check(b.env.Type()); err != nil {
		return nil, err
	}
	if path.empty() {
		return nil, nil
	}
	if last := b.last[direction]; last != nil && last.given == conf.given(direction) {
		return last, nil
	}
	return newMonitor(ctx, b.env, direction, conf)
}

// draft is a layout that is being built.
type draft struct {
	*layout
	builder  *builder
	monitors [2]*monitor
	// named are the names that maps get, by path and the name in the code; specs are their declarations by these names.
	named [2]map[string]string
	specs map[string]*ebpf.MapSpec
}

// names chooses the names of all maps.
func (d *draft) names() error {
	d.specs = map[string]*ebpf.MapSpec{}
	for _, direction := range directions {
		m := d.monitors[direction]
		d.named[direction] = map[string]string{}
		if m == nil {
			continue
		}
		for name, spec := range m.maps {
			to := fmt.Sprintf("%s.%s%s", name, pathNames[direction].letter, m.id())
			if slices.Contains(spec.Tags, tagBoth) {
				to = fmt.Sprintf("%s.b%s", name, d.bothID())
				if other := d.specs[to]; other != nil && !alike(other, spec) {
					return fmt.Errorf("map %s: PCN_BOTH_PATHS requires identical declarations in both paths: %w", name, cube.ErrInvalid)
				}
			}
			d.named[direction][name], d.specs[to] = to, spec
		}
	}
	return nil
}

// bothID is for maps of both paths: they begin empty if one of the monitors is another.
func (d *draft) bothID() string {
	given := &monitor{}
	for _, m := range d.monitors {
		if m != nil {
			given.given += m.id()
		}
	}
	return given.id()
}

func alike(a, b *ebpf.MapSpec) bool {
	return a.Type == b.Type && a.KeySize == b.KeySize && a.ValueSize == b.ValueSize && a.MaxEntries == b.MaxEntries && a.Flags == b.Flags
}

// metrics adds those of a path.
func (d *draft) metrics(direction cube.Direction, path *Path) error {
	for _, conf := range path.Metrics {
		if err := d.metric(direction, conf); err != nil {
			return fmt.Errorf("metric %.80s: %w", conf.Name, err)
		}
	}
	return nil
}

func (d *draft) metric(direction cube.Direction, conf MetricConfig) error {
	m := d.monitors[direction]
	spec := m.maps[conf.Map]
	if spec == nil {
		return fmt.Errorf("the code has no map %.80s; its maps are %s: %w", conf.Map, strings.Join(slices.Sorted(maps.Keys(m.maps)), ", "), cube.ErrInvalid)
	}
	shape, err := series.ShapeOf(spec, d.builder.seed)
	if err != nil {
		return fmt.Errorf("map %s: %w", conf.Map, err)
	}
	open, err := conf.metric()
	if err == nil && open != nil {
		err = shape.Check(*open)
	}
	if err != nil {
		return err
	}
	name := d.named[direction][conf.Map]
	next := &metric{direction: direction, conf: conf, maps: []string{name}, shape: shape, open: open}
	for _, other := range d.layout.metrics {
		if open != nil && other.open != nil && other.conf.Name == conf.Name && (other.open.Kind != open.Kind || other.open.Help != open.Help) {
			return fmt.Errorf("the metric of the same name on the other path has a different type or help, but both belong to one OpenMetrics family: use the same for both: %w", cube.ErrInvalid)
		}
		if other.maps[0] == name && other.conf.Options != conf.Options {
			return fmt.Errorf("metric %s reads the same map with different extraction-options: use the same for both: %w", other.conf.Name, cube.ErrInvalid)
		}
	}
	if conf.Options.Swap {
		next.maps = append(next.maps, name+twinSuffix)
		if !slices.Contains(d.twins, name) {
			d.twins = append(d.twins, name)
			d.specs[name+twinSuffix] = spec
		}
	}
	d.layout.metrics = append(d.layout.metrics, next)
	return nil
}

// checkMemory limits all maps together.
func (d *draft) checkMemory() error {
	total := uint64(0)
	for _, spec := range d.specs {
		total += foreign.Memory(spec)
	}
	if total > foreign.MaxMemory {
		return fmt.Errorf("the maps of both paths take %d MiB, counting those with swap-on-read twice, but the limit is %d: %w",
			total>>20, foreign.MaxMemory>>20, cube.ErrInvalid)
	}
	return nil
}

// place puts the programs of a path into their slots.
func (d *draft) place(direction cube.Direction) error {
	m := d.monitors[direction]
	if m == nil {
		return nil
	}
	first, err := d.program(m, d.named[direction])
	if err != nil {
		return err
	}
	slices.Sort(d.twins)
	d.programs += fmt.Sprintf("%d %s %s %v\n", direction, m.function, m.id(), d.twins)
	second := maps.Clone(d.named[direction])
	twins := false
	for name, to := range second {
		if slices.Contains(d.twins, to) {
			second[name], twins = to+twinSuffix, true
		}
	}
	if !twins {
		d.slots[cube.ProgramSlot{Direction: direction}] = first
		return nil
	}
	d.slots[cube.ProgramSlot{Direction: direction}] = &cube.Program{Function: choose}
	d.slots[cube.ProgramSlot{Direction: direction, Index: slotFirst}] = first
	d.slots[cube.ProgramSlot{Direction: direction, Index: slotSecond}], err = d.program(m, second)
	return err
}

// program returns the program of a monitor with other names of its maps.
func (d *draft) program(m *monitor, named map[string]string) (*cube.Program, error) {
	secret := make([]byte, 0, 24)
	for _, word := range d.builder.seed.Word {
		secret = binary.NativeEndian.AppendUint64(secret, word)
	}
	objects := map[cube.Hook][]byte{}
	for hook, object := range m.objects {
		changed, err := foreign.Rewrite(object, foreign.Changes{Maps: named, Constants: map[string][]byte{"pcn_monitor_secret": secret}})
		if err != nil {
			return nil, err
		}
		objects[hook] = changed
	}
	return &cube.Program{Function: m.function, Objects: objects, Transient: true}, nil
}
