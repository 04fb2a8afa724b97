// SPDX-License-Identifier: Apache-2.0

package contest

// The programs alone, without a network, on the scale of a lookup in the kernel's hash map.

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// AloneText says how programs are timed.
const AloneText = "The program alone (`BPF_PROG_TEST_RUN`, 50,000 runs a call, without Go's preemption), entry, exit and " +
	"counters included. A harness writes the next packet before each run and calls the program; what it costs, measured with a " +
	"program that does nothing, is subtracted. Nanoseconds are not compared, as machines differ: *scaled* are those of a " +
	"machine where a lookup of a flow in an empty hash map of the kernel takes 20, which is measured the same way in the same " +
	"rounds."

// Unit is what a lookup takes on the scale.
const Unit = 20

// Lookup and Nothing are the harness's own programs.
const (
	Lookup  = "a lookup in an empty hash map"
	Nothing = "nothing"
)

// Alone is a program that is timed.
type Alone struct {
	Name  string
	Hook  cube.Hook
	Limit float64 // on the scale; 0: none
	Times report.Sample

	at      lab.Place
	harness *ebpf.Program
}

// NewAlone is a harness around a program that runs in the place of a wire's netdev; those named Lookup and Nothing are its own.
func NewAlone(rig *lab.Rig, w *lab.Filtered, name string, hook cube.Hook, program *ebpf.Program, packets [][]byte) (*Alone, error) {
	a := &Alone{Name: name, Hook: hook}
	var err error
	if a.at, err = lab.NewPlace(w.Machine.Namespace, hook, lab.In); err != nil {
		return nil, err
	}
	err = a.loadFor(rig, program, func(coll *ebpf.Collection) (string, error) {
		return "replay", errors.Join(w.Fill(coll, packets), coll.Variables["replay_frames"].Set(uint32(len(packets))))
	})
	return a, err
}

// NewAloneFlows is the same for a datagram of each of many flows in turn.
func NewAloneFlows(rig *lab.Rig, w *lab.Filtered, name string, hook cube.Hook, program *ebpf.Program, flows lab.Datagrams) (*Alone, error) {
	a := &Alone{Name: name, Hook: hook}
	var err error
	if a.at, err = lab.NewPlace(w.Machine.Namespace, hook, lab.In); err != nil {
		return nil, err
	}
	err = a.loadFor(rig, program, func(coll *ebpf.Collection) (string, error) {
		return "replay_datagrams", w.FillDatagrams(coll, flows)
	})
	return a, err
}

// loadFor loads the harness as the program needs it. fill writes what to send, and returns the name of the program that does.
func (a *Alone) loadFor(rig *lab.Rig, program *ebpf.Program, fill func(*ebpf.Collection) (string, error)) error {
	err := a.load(rig, 0, program, fill)
	if errors.Is(err, unix.EINVAL) && a.Hook == cube.XDP {
		err = a.load(rig, flagFrags, program, fill)
	}
	if err != nil {
		return fmt.Errorf("harness of %s: %w", a.Name, err)
	}
	return nil
}

// flagFrags is BPF_F_XDP_HAS_FRAGS: programs that call each other must agree on it.
const flagFrags = 1 << 5

func (a *Alone) load(rig *lab.Rig, flags uint32, program *ebpf.Program, fill func(*ebpf.Collection) (string, error)) error {
	spec, err := bpf.Spec("replay", a.Hook)
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
	if program == nil {
		program = coll.Programs[map[string]string{Lookup: "lookup"}[a.Name]]
		if program == nil {
			program = coll.Programs["nothing"]
		}
	}
	name, err := fill(coll)
	if err != nil {
		return err
	}
	a.harness = coll.Programs[name]
	return coll.Maps["replay_program"].Put(uint32(0), program)
}

// Verdicts runs each packet once, and checks the verdict of each.
func (a *Alone) Verdicts(packets int, want func(verdict uint32) bool) error {
	for i := range packets {
		verdict, _, err := a.at.Run(a.harness, lab.Template(lab.FrameSize), 1)
		if err != nil {
			return err
		}
		if !want(verdict) {
			return fmt.Errorf("%s: packet %d ends with verdict %d: %w", a.Name, i, int32(verdict), ErrLost)
		}
	}
	return nil
}

// Passes runs each packet once: all must pass, or none.
func (a *Alone) Passes(packets int, pass bool) error {
	// XDP_PASS is 2; TC_ACT_SHOT is 2.
	return a.Verdicts(packets, func(verdict uint32) bool { return ((a.Hook == cube.XDP) == (verdict == 2)) == pass })
}

// time measures one.
func (a *Alone) time() error {
	// At XDP, a call begins with a pause, after which the caches have other content: with 10,000 runs that doubles the time with
	// 1,000 flows. The peers' figures are of calls as long as these.
	effort := lab.Effort{Runs: 4, Repeat: 50_000}
	return netns.OnCPU(0, func() error {
		return netns.Uninterrupted(func() error {
			ns, err := a.at.Best(a.harness, lab.Template(lab.FrameSize), effort)
			a.Times = append(a.Times, ns)
			return err
		})
	})
}

// RaceAlone times all in turns, each time in a new order.
func RaceAlone(rig *lab.Rig, rounds int, all []*Alone) error {
	for range rounds {
		for _, a := range Shuffled(all) {
			if err := errors.Join(rig.Context().Err(), a.time()); err != nil {
				return err
			}
		}
	}
	return nil
}

// HookNames are the names of hooks in tables.
var HookNames = map[cube.Hook]string{cube.XDP: "XDP", cube.TC: "TC"}

// Entry is the program that packets of a cube's netdev enter.
func Entry(rig *lab.Rig, d *lab.Daemon, hook cube.Hook) (*ebpf.Program, error) {
	program, err := d.Entry(hook, lab.In)
	if err == nil {
		rig.Closing(program)
	}
	return program, err
}

// Scale adds the table and the checks of a hook. Checks begin with the name of what is measured.
func (out *Result) Scale(hook cube.Hook, all []*Alone, what, title string) map[string]float64 {
	t := &report.Table{Title: title, Columns: []string{"", "ns per packet", "scaled", "at most"}}
	figures, times := map[string]float64{}, map[string]report.Sample{}
	for _, a := range all {
		if a.Hook == hook {
			times[a.Name] = a.Times
		}
	}
	one := times[Lookup].Less(times[Nothing])
	for _, a := range all {
		if a.Hook != hook || a.Name == Nothing {
			continue
		}
		net := times[a.Name].Less(times[Nothing])
		scaled := net.Median() / one.Median() * Unit
		figures[a.Name] = scaled
		limit := ""
		if a.Limit > 0 {
			limit = fmt.Sprintf("%.0f", a.Limit)
			out.Checks = append(out.Checks, report.AtMost(what+" program alone, "+HookNames[hook]+", "+a.Name+", scaled", "%.0f ns", scaled, a.Limit))
		}
		t.Add(a.Name, net.Spread(1), fmt.Sprintf("%.1f", scaled), limit)
	}
	out.Tables = append(out.Tables, t)
	return figures
}
