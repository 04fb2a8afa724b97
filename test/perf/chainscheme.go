// SPDX-License-Identifier: Apache-2.0

package perf

// The scheme of the first Polycube, by our own reference programs: metadata in a per-CPU map, a
// forward chain for each cube, a tail call by an index that is looked up.

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/bpf"
)

// tailCalls is the kernel's limit of tail calls per packet.
const tailCalls = 33

// schemeLongest is the longest chain of the scheme: a call leads to each cube, and one out.
const schemeLongest = tailCalls - 1

// schemeNext is struct scheme_next.
type schemeNext struct{ Module, Port uint16 }

// scheme loads the programs of a chain of n cubes: the input is module 0, the cubes are 1 to n,
// and the output is n+1. All share the metadata and the patch panel.
func (c *chains) scheme(n int) error {
	spec, err := bpf.Spec("scheme", c.hook)
	if err != nil {
		return err
	}
	shared := map[string]*ebpf.Map{}
	for _, name := range []string{"scheme_metadata", "scheme_panel", "scheme_devices"} {
		if spec.Maps[name] == nil {
			continue // at XDP only
		}
		if shared[name], err = ebpf.NewMap(spec.Maps[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.rig.Closing(shared[name])
	}
	out, err := c.outIfindex()
	if err == nil && c.hook == cube.XDP {
		err = c.ns.Do(func() error { return shared["scheme_devices"].Put(uint32(0), out) })
	}
	if err != nil {
		return err
	}
	for module := 1; module <= n+1; module++ {
		name := "scheme_cube"
		if module > n {
			name = "scheme_output"
		}
		p, err := schemeProgram(c.hook, name, shared, map[string]uint32{"scheme_ifindex": out}, uint16(module+1))
		if err != nil {
			return err
		}
		if err := errors.Join(shared["scheme_panel"].Put(uint32(module), p), p.Close()); err != nil { // the panel holds a reference
			return fmt.Errorf("module %d of %d: %w", module, n, err)
		}
	}
	input, err := schemeProgram(c.hook, "scheme_input", shared, map[string]uint32{"scheme_module": 1}, 0)
	if err != nil {
		return err
	}
	c.keep(chainKey{chainScheme, n}, input)
	return nil
}

// schemeProgram loads one program; next is the module connected to the port of a cube.
func schemeProgram(hook cube.Hook, name string, shared map[string]*ebpf.Map, constants map[string]uint32, next uint16) (*ebpf.Program, error) {
	spec, err := bpf.Spec("scheme", hook)
	if err != nil {
		return nil, err
	}
	for k, v := range constants {
		if err := spec.Variables[k].Set(v); err != nil {
			return nil, fmt.Errorf("%s: constant %s: %w", name, k, err)
		}
	}
	for other := range spec.Programs {
		if other != name {
			delete(spec.Programs, other)
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer coll.Close()
	if name == "scheme_cube" {
		if err := coll.Maps["scheme_forward"].Put(uint32(1), schemeNext{Module: next}); err != nil {
			return nil, fmt.Errorf("forward chain: %w", err)
		}
	}
	return coll.DetachProgram(name), nil
}

// outIfindex is the interface where all chains end.
func (c *chains) outIfindex() (index uint32, err error) {
	err = c.ns.Do(func() error {
		index, err = ifindex("out")
		return err
	})
	return index, err
}
