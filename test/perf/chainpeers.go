// SPDX-License-Identifier: Apache-2.0

package perf

// The programs of the chain benchmark: ours from the data plane, the baselines written by hand.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
)

// loopback is the interface that a test run's packet is received on.
const loopback = 1

// chains contains the programs to compare, by variant and length.
type chains struct {
	rig      *lab.Rig
	hook     cube.Hook
	ns       *netns.Lab
	programs map[chainKey]*ebpf.Program
}

type chainKey struct {
	variant string
	n       int
}

// The variants of a chain.
const (
	chainEmpty  = "empty"
	chainEnds   = "ends"
	chainSingle = "single"
	chainTail   = "tail"
	chainCount  = "tail that counts"
	chainScheme = "first"
	chainInline = "inline"
	chainCall   = "call"
	// One cube to a segment, so that every crossing is one to another segment.
	chainSegments = "segments"
)

// newChains loads all variants of all lengths for a hook.
func newChains(r *lab.Rig, hook cube.Hook, lengths []int) (*chains, error) {
	c := &chains{rig: r, hook: hook, ns: netns.NewLab(r), programs: map[chainKey]*ebpf.Program{}}
	c.ns.Host("out", "")
	if err := c.peers(lengths); err != nil {
		return nil, err
	}
	for _, n := range lengths {
		if n <= schemeLongest {
			if err := c.scheme(n); err != nil {
				return nil, fmt.Errorf("chain of %d, first Polycube's scheme: %w", n, err)
			}
		}
		for _, variant := range []string{chainInline, chainCall, chainSegments} {
			if variant == chainSegments && n >= schemeLongest {
				continue // each crossing is a tail call
			}
			if err := c.ours(variant, n); err != nil {
				return nil, fmt.Errorf("chain of %d, %s: %w", n, variant, err)
			}
		}
	}
	return c, nil
}

// keep remembers a program and closes it with the rig.
func (c *chains) keep(key chainKey, p *ebpf.Program) {
	c.programs[key] = p
	c.rig.Closing(p)
}

// ours links a chain of n trivial cubes and returns its program. Every plane has its own namespace, because test runs
// enter all of them through the loopback.
func (c *chains) ours(variant string, n int) error {
	object, err := bpf.Object("trivial", c.hook)
	if err != nil {
		return err
	}
	for _, way := range []direction{upwards, downwards} {
		if n == 1 && way == downwards {
			c.programs[chainKey{variant + string(way), n}] = c.programs[chainKey{variant, n}]
			continue
		}
		ns := netns.NewLab(c.rig)
		ns.Host("out", "")
		o := lab.PlaneOptions{
			Type: cube.TypeTC, Mode: datapath.ModeInline,
			Services: map[string]map[cube.Hook][]byte{"trivial": {c.hook: object}},
		}
		if c.hook == cube.XDP {
			o.Type = cube.TypeXDPSKB
		}
		switch variant {
		case chainCall:
			o.Mode = datapath.ModeCall
		case chainSegments:
			o.SegmentCubes = 1
		}
		p, err := c.rig.NewPlane(ns.Namespace, o)
		if err != nil {
			return err
		}
		if _, err := trivialChain(p, n, way, "lo", "out"); err != nil {
			return err
		}
		prog, err := p.Entry()
		if err != nil {
			return err
		}
		c.keep(chainKey{variant + string(way), n}, prog)
	}
	return nil
}

// direction is the relation of a packet's direction through a chain to the order in which its cubes were created: the
// linker may optimize one direction better than the other.
type direction string

const (
	upwards   direction = ""
	downwards direction = "-reverse"
)

// trivialChain commits a chain of n trivial cubes between two netdevs and returns the cubes in
// the order in which they were made.
func trivialChain(p *lab.Plane, n int, way direction, in, out string) ([]*datapath.Node, error) {
	cubes := make([]*datapath.Node, n)
	for i := range cubes {
		var err error
		if cubes[i], err = p.Cube("trivial", 2, nil); err != nil {
			return nil, err
		}
	}
	path := slices.Clone(cubes)
	if way == downwards {
		slices.Reverse(path)
	}
	for i := 1; i < n; i++ {
		p.Link(path[i-1], 1, path[i], 0)
	}
	if err := errors.Join(p.Netdev(path[0], 0, in), p.Netdev(path[n-1], 1, out)); err != nil {
		return nil, err
	}
	return cubes, p.Commit()
}

// peers loads the hand-written programs. All share one set of tables.
func (c *chains) peers(lengths []int) error {
	spec, err := bpf.Spec("chain", c.hook)
	if err != nil {
		return err
	}
	base, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("hand-written chain: %w", err)
	}
	c.rig.Cleanup(base.Close)
	if err := c.fill(base); err != nil {
		return fmt.Errorf("hand-written chain: %w", err)
	}
	c.programs[chainKey{chainEmpty, 0}] = base.Programs["chain_empty"]
	c.programs[chainKey{chainEnds, 0}] = base.Programs["chain_ends"]
	for _, n := range lengths {
		single, err := c.step(base, "chain_single", map[string]uint32{"chain_length": uint32(n)}, nil)
		if err != nil {
			return err
		}
		c.keep(chainKey{chainSingle, n}, single)
		if n > tailCalls+1 {
			continue
		}
		if err := errors.Join(c.tail(base, n, chainTail), c.tail(base, n, chainCount)); err != nil {
			return err
		}
	}
	return nil
}

// fill writes the tables of the peers: in at the loopback, out at the host.
func (c *chains) fill(base *ebpf.Collection) error {
	return c.ns.Do(func() error {
		out, err := ifindex("out")
		if err != nil {
			return err
		}
		entry := struct{ Step, Port uint16 }{0, 2}
		err = errors.Join(base.Maps["chain_entries"].Put(uint32(loopback), entry),
			base.Maps["chain_exits"].Put(uint32(1), out))
		if err == nil && c.hook == cube.XDP {
			err = base.Maps["chain_devices"].Put(uint32(1), out)
		}
		return err
	})
}

// tail loads n programs that call each other in a row.
func (c *chains) tail(base *ebpf.Collection, n int, variant string) error {
	if n == 1 {
		c.programs[chainKey{variant, 1}] = c.programs[chainKey{chainSingle, 1}]
		return nil
	}
	counts := uint32(0)
	if variant == chainCount {
		counts = 1
	}
	steps, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "chain_steps", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 64,
	})
	if err != nil {
		return fmt.Errorf("program array: %w", err)
	}
	c.rig.Closing(steps)
	for i := range n {
		name := "chain_middle"
		switch i {
		case 0:
			name = "chain_first"
		case n - 1:
			name = "chain_last"
		}
		p, err := c.step(base, name, map[string]uint32{"chain_next": uint32(i + 1), "chain_counts": counts}, steps)
		if err != nil {
			return err
		}
		if i == 0 {
			c.keep(chainKey{variant, n}, p)
			continue
		}
		err = errors.Join(steps.Put(uint32(i), p), p.Close()) // the array holds a reference
		if err != nil {
			return fmt.Errorf("step %d of %d: %w", i, n, err)
		}
	}
	return nil
}

// step loads one program with its own constants, on the tables of base.
func (c *chains) step(base *ebpf.Collection, name string, constants map[string]uint32, steps *ebpf.Map) (*ebpf.Program, error) {
	spec, err := bpf.Spec("chain", c.hook)
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
	shared := map[string]*ebpf.Map{}
	for m := range spec.Maps {
		if base.Maps[m] != nil && m != ".rodata" {
			shared[m] = base.Maps[m]
		}
	}
	if steps != nil {
		shared["chain_steps"] = steps
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}
