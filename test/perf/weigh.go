// SPDX-License-Identifier: Apache-2.0

package perf

// The cost of each helper for programs of cubes for the verifier, and its stack usage. Nothing is timed and no packet
// is sent: a cube with the helper is linked and verified, and compared with the same cube without it.

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	core "github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/refusal"
	"github.com/polycube/polycube/test/lint/reference"
	"github.com/polycube/polycube/test/perf/bpf"
)

// HelperWeight is what one use of a helper adds to a program.
type HelperWeight struct {
	// Verified is the number of verified instructions, Stack the bytes of the function that uses it, with those of
	// the functions that the helper calls.
	Verified int `json:"verified"`
	Stack    int `json:"stack"`
}

// WeighHelpers weighs all helpers of the benchmark, by name and hook.
func WeighHelpers() (map[string]map[string]HelperWeight, error) {
	out := map[string]map[string]HelperWeight{}
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		cases, err := helperCases(hook)
		if err != nil {
			return nil, err
		}
		s, err := newScales(hook)
		if err != nil {
			return nil, err
		}
		err = s.weighAll(cases, func(name string, w HelperWeight) {
			if out[name] == nil {
				out[name] = map[string]HelperWeight{}
			}
			out[name][hook.String()] = w
		})
		if err := errors.Join(err, s.close()); err != nil {
			return nil, fmt.Errorf("%s: %w", hook, err)
		}
	}
	return out, nil
}

// Weights are the sentences of the reference.
func Weights(of map[string]map[string]HelperWeight) reference.Costs {
	out := reference.Costs{}
	for name, w := range of {
		tc, xdp := w[cube.TC.String()], w[cube.XDP.String()]
		out[name] = fmt.Sprintf(weightText, tc.Verified, tc.Stack, xdp.Verified, xdp.Stack)
	}
	return out
}

const weightText = "%d instructions, %d bytes of stack at TC; %d instructions, %d bytes of stack at XDP"

// WeightsOf reads the output of Weights; missing values are skipped.
func WeightsOf(text reference.Costs) map[string]map[string]HelperWeight {
	out := map[string]map[string]HelperWeight{}
	for name, of := range text {
		var tc, xdp HelperWeight
		if _, err := fmt.Sscanf(of, weightText, &tc.Verified, &tc.Stack, &xdp.Verified, &xdp.Stack); err == nil {
			out[name] = map[string]HelperWeight{cube.TC.String(): tc, cube.XDP.String(): xdp}
		}
	}
	return out
}

// String is a part of a sentence.
func (w HelperWeight) String() string {
	return fmt.Sprintf("%d instructions, %d bytes of stack", w.Verified, w.Stack)
}

// scales are the settings with which programs are linked to be weighed.
type scales struct {
	hook  cube.Hook
	core  link.Core
	owned []*ebpf.Map
}

func newScales(hook cube.Hook) (*scales, error) {
	elf, err := core.Objects.ReadFile("core." + hook.String() + ".o")
	if err != nil {
		return nil, fmt.Errorf("framework programs: %w", err)
	}
	s := &scales{hook: hook, core: link.Core{Maps: map[string]asm.FDer{}}}
	if s.core.Object, err = link.ParseObject(hook, elf); err != nil {
		return nil, fmt.Errorf("framework programs: %w", err)
	}
	for name, spec := range s.core.Object.Maps {
		m, merr := s.make(spec)
		s.core.Maps[name] = m
		err = errors.Join(err, merr)
	}
	generation, gerr := s.make(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	s.core.Generation = generation
	if err := errors.Join(err, gerr); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// make creates a map that is as small as possible: it stays empty.
func (s *scales) make(spec *ebpf.MapSpec) (*ebpf.Map, error) {
	spec = spec.Copy()
	spec.Pinning, spec.Contents = ebpf.PinNone, nil
	if spec.Type == ebpf.RingBuf {
		spec.MaxEntries = 1 << 16
	}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", spec.Name, err)
	}
	s.owned = append(s.owned, m)
	return m, nil
}

func (s *scales) close() error {
	var errs []error
	for _, m := range s.owned {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// before are the programs with the preparation for a helper; its own cost is the difference.
var before = map[string]string{
	"pcn_parse_eth": "weigh_COST_pcn_cursor_open", "pcn_cursor_take": "weigh_COST_pcn_cursor_open",
	"pcn_mac": "before_read", "pcn_mac_is_group": "before_read", "pcn_macs": "before_read",
	"pcn_parse_arp": "before_take", "pcn_parse_ipv4": "before_take", "pcn_parse_ipv6": "before_take", "pcn_parse_ports": "before_take",
	"pcn_parse_icmp": "before_take", "pcn_skip_ipv6_extensions": "before_take",
	"pcn_ipv4_checksum_ok": "before_inspect", "pcn_ipv4_fragment": "before_inspect", "pcn_skip_ipv4_options": "before_inspect",
	"pcn_csum_ipv4": "before_inspect", "pcn_csum_l4": "before_inspect",
}

// weighAll weighs each case against the same program without the helper.
func (s *scales) weighAll(cases []helperCase, result func(name string, w HelperWeight)) error {
	c, err := s.cube("helpers_weigh")
	if err != nil {
		return err
	}
	without := map[string]HelperWeight{}
	for _, helper := range cases[1:] {
		name := before[helper.name]
		if name == "" {
			name = "weigh_COST_nothing"
		}
		empty, known := without[name]
		if !known {
			if empty, err = s.weigh(c, name); err != nil {
				return err
			}
			without[name] = empty
		}
		with, err := s.weigh(c, "weigh_"+helper.kind+"_"+helper.name)
		if err != nil {
			return err
		}
		// pcn_pkt_drop, by which an empty program ends, is no lighter than others.
		result(helper.name, HelperWeight{max(with.Verified-empty.Verified, 0), max(with.Stack-empty.Stack, 0)})
	}
	return nil
}

// cube is a cube of the programs of an object, which are weighed.
func (s *scales) cube(object string) (*link.Cube, error) {
	elf, err := bpf.Object(object, s.hook)
	if err != nil {
		return nil, err
	}
	o, err := link.ParseObject(s.hook, elf)
	if err != nil {
		return nil, err
	}
	c := &link.Cube{ID: 1, Name: object, Object: o, Entry: true, Maps: map[string]asm.FDer{}}
	for name, spec := range o.Maps {
		if c.Maps[name], err = s.make(spec); err != nil {
			return nil, err
		}
	}
	data, err := o.Constants(nil)
	if err != nil {
		return nil, err
	}
	const readOnly = 1 << 7 // BPF_F_RDONLY_PROG
	constants, err := s.make(&ebpf.MapSpec{Name: "constants", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(data)), MaxEntries: 1, Flags: readOnly})
	if err != nil {
		return nil, err
	}
	s.core.Rodata = constants
	if err := errors.Join(constants.Put(uint32(0), data), constants.Freeze()); err != nil {
		return nil, fmt.Errorf("constants: %w", err)
	}
	return c, nil
}

// link links the cube with one of the programs.
func (s *scales) link(c *link.Cube, program string) (*ebpf.ProgramSpec, error) {
	f := c.Object.Functions[program]
	if f == nil {
		return nil, fmt.Errorf("program %s: %w", program, cube.ErrNotFound)
	}
	one := *c
	one.Programs[cube.Ingress] = []link.CubeProgram{{Object: c.Object, Function: f}}
	spec, err := link.Program(&link.Component{Hook: s.hook, Hops: link.DefaultHops, Cubes: []*link.Cube{&one}}, &s.core, link.Call, link.OnIngress)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", program, err)
	}
	return spec, nil
}

// weigh verifies the cube with one of the programs.
func (s *scales) weigh(c *link.Cube, program string) (HelperWeight, error) {
	spec, err := s.link(c, program)
	if err != nil {
		return HelperWeight{}, err
	}
	w, err := refusal.Weigh(spec)
	if err != nil {
		return HelperWeight{}, fmt.Errorf("program %s: %w", program, err)
	}
	of, ok := w[link.Origin{Cube: c.Name, Function: program}]
	if !ok {
		return HelperWeight{}, fmt.Errorf("program %s: the verifier has not looked at it: %w", program, cube.ErrNotFound)
	}
	for origin, other := range w { // global functions are verified once, for all their callers
		if origin.Cube == c.Name && origin.Function != program {
			of.Verified += other.Verified
		}
	}
	return HelperWeight(of), nil
}

// Drifted lists helpers whose weight differs much from the recorded one: twice as much or half, and not by a few.
func Drifted(now, was map[string]map[string]HelperWeight) []string {
	far := func(a, b, few int) bool {
		return math.Abs(float64(a-b)) > float64(few) && (a > 2*b || b > 2*a)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		for _, hook := range slices.Sorted(maps.Keys(now[name])) {
			a, b := now[name][hook], was[name][hook]
			if far(a.Verified, b.Verified, 16) || far(a.Stack, b.Stack, 32) {
				out = append(out, fmt.Sprintf("%s at %s: %s, the reference has %s", name, hook, a, b))
			}
		}
	}
	return out
}
