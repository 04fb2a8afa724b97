// SPDX-License-Identifier: Apache-2.0

package perf

// The bridges' programs alone: the cost of lookup and learning, without a network.

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// alone is one program to time on many flows.
type alone struct {
	label   string // empty: by what follows
	hook    cube.Hook
	mode    datapath.Mode
	vlan    bool // the bridge with VLANs, else simplebridge
	flows   int  // number of stations on each side
	at      lab.Place
	harness *ebpf.Program
	program *ebpf.Program // nil: nothing
}

// bridgeAlone times the programs of both bridges on frames of all stations.
func bridgeAlone(ctx context.Context, r *Run) (*report.Table, []report.Check, error) {
	t := &report.Table{
		Title:   "The program alone, with learning, 1,000 flows",
		Columns: []string{"", "ns per packet"},
		Notes: []string{"Entry, lookup of the source, lookup of the destination, exit, counters. A harness " +
			"writes the addresses of the next flow to the frame before each run; its cost, measured with a program that does " +
			"nothing, is subtracted."},
	}
	times := map[string]report.Sample{}
	err := lab.With(ctx, func(rig *lab.Rig) error {
		var all []*alone
		for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
			for _, mode := range []datapath.Mode{"", datapath.ModeInline, datapath.ModeCall} {
				a, err := newAlone(rig, hook, mode)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", hook, mode, err)
				}
				all = append(all, a)
			}
			a, err := daemonAlone(rig, r.Root, &alone{hook: hook, vlan: true, flows: stations}, 1<<14)
			if err != nil {
				return fmt.Errorf("bridge, %s: %w", hook, err)
			}
			all = append(all, a)
		}
		return measureAlone(r, rig, all, times)
	})
	if err != nil {
		return nil, nil, err
	}
	var checks []report.Check
	for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
		base := times[(&alone{hook: hook}).name()]
		for _, mode := range []datapath.Mode{datapath.ModeInline, datapath.ModeCall} {
			name := (&alone{hook: hook, mode: mode}).name()
			net := times[name].Less(base)
			t.Add(name, net.Spread(1))
			if mode == datapath.ModeInline {
				checks = append(checks, report.AtMost("simplebridge program alone, with learning, "+hookName(hook), "%.0f ns", net.Median(), 70))
			}
		}
		vlan := &alone{hook: hook, mode: datapath.ModeInline, vlan: true}
		t.Add(vlan.name(), times[vlan.name()].Less(base).Spread(1))
		more := times[vlan.name()].Less(times[(&alone{hook: hook, mode: datapath.ModeInline}).name()])
		checks = append(checks, report.AtMost("bridge program alone against simplebridge's, "+hookName(hook), "%.0f ns more", more.Median(), 15))
	}
	return t, checks, nil
}

func (a *alone) name() string {
	if a.label != "" {
		return a.label
	}
	return fmt.Sprintf("%s, %s, %s", a.service(), hookName(a.hook), a.mode)
}

func (a *alone) service() string {
	if a.vlan {
		return "bridge"
	}
	return "simplebridge"
}

func measureAlone(r *Run, rig *lab.Rig, all []*alone, times map[string]report.Sample) error {
	frame := lab.Template(lab.FrameSize)
	for range r.rounds(15, 3) {
		shuffle(all)
		for _, a := range all {
			if err := rig.Context().Err(); err != nil {
				return err
			}
			if err := a.check(frame); err != nil {
				return err
			}
			ns, err := a.at.Best(a.harness, frame, lab.EffortFor(a.hook))
			if err != nil {
				return err
			}
			times[a.name()] = append(times[a.name()], ns)
		}
	}
	return nil
}

// check runs every flow once: all stations are learned, none is flooded.
func (a *alone) check(frame []byte) error {
	if a.program == nil {
		return nil
	}
	want := map[cube.Hook]uint32{cube.XDP: 4, cube.TC: 7}[a.hook] // XDP_REDIRECT, TC_ACT_REDIRECT
	for range a.flows {
		verdict, _, err := a.at.Run(a.harness, frame, 1)
		if err != nil {
			return err
		}
		if verdict != want {
			return fmt.Errorf("the bridge ends with verdict %d, want %d: %w", verdict, want, cube.ErrInvalid)
		}
	}
	return nil
}

// newAlone creates a harness around a bridge in its own namespace; around nothing without a mode.
func newAlone(rig *lab.Rig, hook cube.Hook, mode datapath.Mode) (*alone, error) {
	a := &alone{hook: hook, mode: mode, flows: stations}
	if mode == "" {
		return a, a.load(rig)
	}
	w, err := rig.NewWire(stations)
	if err != nil {
		return nil, err
	}
	typ := cube.TypeTC
	if hook == cube.XDP {
		typ = cube.TypeXDPSKB
	}
	p, b, err := newBridge(rig, w, typ, mode)
	if err != nil {
		return nil, err
	}
	if err := w.Teach(stations); err != nil {
		return nil, err
	}
	// Test runs enter through the loopback. It could not be a port before: floods to it come back.
	delete(p.Graph.Netdevs, lab.In)
	if err := errors.Join(p.Netdev(b, 0, "lo"), p.Commit()); err != nil {
		return nil, err
	}
	if a.program, err = p.Entry(); err != nil {
		return nil, err
	}
	rig.Closing(a.program)
	return a, a.load(rig)
}

// daemonAlone completes a with a harness around a bridge that a daemon creates, with room for a number of addresses.
func daemonAlone(rig *lab.Rig, root string, a *alone, room int) (*alone, error) {
	a.mode = datapath.ModeInline
	w, err := rig.NewWire(a.flows)
	if err != nil {
		return nil, err
	}
	typ := cube.TypeTC
	if a.hook == cube.XDP {
		typ = cube.TypeXDPSKB
	}
	d, err := newDaemonBridge(rig, root, w, a.service(), typ, room)
	if err != nil {
		return nil, err
	}
	if err := w.Teach(a.flows); err != nil {
		return nil, err
	}
	if a.at, err = lab.NewPlace(w.Machine.Namespace, a.hook, lab.In); err != nil {
		return nil, err
	}
	if a.program, err = d.Entry(a.hook, lab.In); err != nil {
		return nil, err
	}
	rig.Closing(a.program)
	return a, a.load(rig)
}

// flagFrags is BPF_F_XDP_HAS_FRAGS: programs that call each other must agree on it.
const flagFrags = 1 << 5

// load creates the harness and puts the program into its slot, or one that does nothing.
func (a *alone) load(rig *lab.Rig) error {
	err := a.try(rig, 0)
	if errors.Is(err, unix.EINVAL) && a.hook == cube.XDP {
		err = a.try(rig, flagFrags)
	}
	if err != nil {
		return fmt.Errorf("harness: %w", err)
	}
	return nil
}

func (a *alone) try(rig *lab.Rig, flags uint32) error {
	spec, err := bpf.Spec("reset", a.hook)
	if err == nil {
		err = spec.Variables["reset_flows"].Set(uint32(a.flows))
	}
	if err != nil {
		return err
	}
	for _, p := range spec.Programs {
		p.Flags |= flags
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return err
	}
	rig.Cleanup(coll.Close)
	program := a.program
	if program == nil {
		program = coll.Programs["nothing"]
	}
	a.harness = coll.Programs["reset"]
	return coll.Maps["reset_program"].Put(uint32(0), program)
}
