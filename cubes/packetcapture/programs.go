// SPDX-License-Identifier: Apache-2.0

package packetcapture

// The programs: those of the object while nothing is captured, otherwise those whose code is the filter.

import (
	"context"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/pcapfilter"
)

// filterAll is the expression for all packets.
const filterAll = "all"

// headBytes is the snap length up to which packetcapture_head copies packets.
const headBytes = 128

// entries are the functions that packets enter, by direction: without a filter and with one.
var entries = map[cube.Direction]struct{ plain, filtered string }{
	cube.Ingress: {"pcn_ingress", "packetcapture_ingress"},
	cube.Egress:  {"pcn_egress", "packetcapture_egress"},
}

// programs compiles filters.
type programs struct {
	// compiled is the last filter, so that a change of other leaves does not look up names again.
	compiled *pcapfilter.Filter
}

// of returns the programs of a configuration.
func (p *programs) of(ctx context.Context, conf *Config) (map[cube.ProgramSlot]*cube.Program, error) {
	filter, err := p.compile(ctx, conf.Filter)
	if err != nil {
		return nil, err
	}
	objects := map[cube.Hook][]byte{}
	if conf.captures() {
		for _, hook := range []cube.Hook{cube.TC, cube.XDP} { // cubes at XDP run at TC where a netdev sends
			if objects[hook], err = object(filter, hook, conf.snap()); err != nil {
				return nil, err
			}
		}
	}
	all := map[cube.ProgramSlot]*cube.Program{}
	for direction, of := range entries {
		program := &cube.Program{Function: of.plain}
		if conf.captures() && conf.Capture.of(direction) {
			program = &cube.Program{Function: of.filtered, Objects: objects}
		}
		all[cube.ProgramSlot{Direction: direction}] = program
	}
	return all, nil
}

// compile compiles an expression also while nothing is captured, so that a wrong one is refused when it is set.
func (p *programs) compile(ctx context.Context, expression string) (*pcapfilter.Filter, error) {
	if expression == "" || expression == filterAll {
		return nil, nil
	}
	if p.compiled == nil || p.compiled.Expression != expression {
		f, err := pcapfilter.Compile(ctx, expression)
		if err != nil {
			return nil, err
		}
		p.compiled = f
	}
	return p.compiled, nil
}

// object returns the cube's object for a hook with a filter, nil for all packets.
func object(filter *pcapfilter.Filter, hook cube.Hook, snap uint32) ([]byte, error) {
	plain, err := files.ReadFile(fmt.Sprintf("packetcapture.%s.o", hook))
	if err != nil {
		return nil, err
	}
	function := "packetcapture_copy"
	if snap <= headBytes {
		function = "packetcapture_head"
	}
	actions := map[string]pcapfilter.Action{}
	for direction, of := range entries {
		actions[of.filtered] = pcapfilter.Action{Function: function, First: snap, Second: uint32(direction)}
	}
	return filter.Object(plain, hook, actions)
}
