// SPDX-License-Identifier: Apache-2.0

package perf

// The cost of each helper for programs of cubes: a cube with it compared with the same cube without.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/test/lint/reference"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// helperTimes is TIMES of bpf/helpers.bpf.c.
const helperTimes = 12

// helperCase is one of enum helpers_case.
type helperCase struct {
	which uint32
	kind  string // "COST", "LAST", "UP" or "UPLAST"
	name  string // of the helper
}

// helperCases reads them out of the compiled program.
func helperCases(hook cube.Hook) ([]helperCase, error) {
	spec, err := bpf.Spec("helpers", hook)
	if err != nil {
		return nil, err
	}
	var enum *btf.Enum
	if err := spec.Types.TypeByName("helpers_case", &enum); err != nil {
		return nil, fmt.Errorf("cases of the helpers: %w", err)
	}
	var out []helperCase
	for _, v := range enum.Values {
		kind, name, _ := strings.Cut(v.Name, "_")
		out = append(out, helperCase{uint32(v.Value), kind, name})
	}
	return out, nil
}

// up reports whether each packet creates a record for user space.
func (c helperCase) up() bool { return strings.HasPrefix(c.kind, "UP") }

// effort bounds the records of one run, so that the ring has room for all.
func (c helperCase) effort(hook cube.Hook, quick bool) lab.Effort {
	e := lab.EffortFor(hook)
	if c.up() {
		e = lab.Effort{Runs: 9, Repeat: 7_000} // a quarter of the ring is a cube's
	}
	if quick {
		e.Runs, e.Repeat = 2, e.Repeat/7
	}
	return e
}

const helpersText = "The cost of one use of a helper per packet, in a linked cube (`BPF_PROG_TEST_RUN`, CPU " +
	"time, median over the rounds with minimum and maximum). Arithmetic, clocks and cursors are repeated 12 times in " +
	"one packet. Helpers that end a packet are compared with `pcn_pkt_drop`, including the framework's work for them; " +
	"a flood goes to a single other netdev. Helpers that create a record for user space are measured with an active " +
	"reader. The same figures are in the [reference](reference/helpers.md)."

// helpers is the part "helpers".
func helpers(ctx context.Context, r *Run) error {
	results := map[string]map[cube.Hook]report.Sample{}
	var names []string
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		cases, err := helperCases(hook)
		if err != nil {
			return err
		}
		err = lab.With(ctx, func(rig *lab.Rig) error {
			return measureHelpers(r, rig, hook, cases, func(c helperCase, s report.Sample) {
				if results[c.name] == nil {
					results[c.name] = map[cube.Hook]report.Sample{}
					names = append(names, c.name)
				}
				results[c.name][hook] = s
			})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", hook, err)
		}
	}
	t := &report.Table{Columns: []string{"", "TC, ns", "XDP, ns"}}
	r.Costs = reference.Costs{}
	for _, name := range names {
		tc, xdp := results[name][cube.TC], results[name][cube.XDP]
		t.Add("`"+name+"`", tc.Spread(1), xdp.Spread(1))
		r.Costs[name] = helperCost(tc.Median()) + " at TC, " + helperCost(xdp.Median()) + " at XDP"
	}
	weights, err := WeighHelpers()
	if err != nil {
		return err
	}
	r.Weights = Weights(weights)
	r.add(Section{Title: "Helpers", Text: helpersText, Tables: []*report.Table{t}})
	return nil
}

// helperCost formats a cost; less than half a nanosecond cannot be distinguished from nothing.
func helperCost(ns float64) string {
	if ns < 0.5 {
		return "under 0.5 ns"
	}
	return fmt.Sprintf("%.1f ns", ns)
}

// measureHelpers times all cases of a hook and returns their net costs.
func measureHelpers(r *Run, rig *lab.Rig, hook cube.Hook, cases []helperCase, result func(helperCase, report.Sample)) error {
	p, n, err := helperPlane(rig, hook, nil)
	if err != nil {
		return err
	}
	records := &arrivals{}
	rd, err := p.Read(rig.Context(), records)
	if err != nil {
		return err
	}
	// The same without a helper, by both efforts.
	base := map[bool]helperCase{false: {kind: "COST"}, true: {kind: "UP"}}
	raw := map[helperCase]report.Sample{}
	all := append([]helperCase{base[false], base[true]}, cases[1:]...)
	rounds := r.rounds(7, 2)
	for round := range rounds {
		r.progress("helpers, %s: round %d of %d", hook, round+1, rounds)
		shuffle(all)
		for _, c := range all {
			ns, err := timeHelper(rig, p, n, c, records, r.Quick)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			raw[c] = append(raw[c], ns)
		}
	}
	if _, err := rd.Stop(); err != nil {
		return err
	}
	for _, c := range cases[1:] {
		net := raw[c].Less(raw[base[c.up()]])
		if c.kind == "COST" {
			net = share(c, net, raw[helperCase{which: cursorOpen(cases), kind: "COST", name: "pcn_cursor_open"}].Less(raw[base[false]]))
		}
		result(c, net)
	}
	return nil
}

// share returns the cost of one of the repeated uses. A helper that takes from a cursor opens it first, which is not
// its own cost.
func share(c helperCase, net, open report.Sample) report.Sample {
	if c.name == "pcn_parse_eth" || c.name == "pcn_cursor_take" {
		net = net.Less(open)
	}
	out := make(report.Sample, len(net))
	for i := range net {
		out[i] = net[i] / helperTimes
	}
	return out
}

func cursorOpen(cases []helperCase) uint32 {
	for _, c := range cases {
		if c.name == "pcn_cursor_open" {
			return c.which
		}
	}
	return 0
}

// frameFor returns a frame with the header that a helper takes: ARP, IPv6 with options for the destination, or IPv4.
func frameFor(helper string) []byte {
	f := lab.Template(lab.FrameSize)
	switch helper {
	case "pcn_parse_arp":
		copy(f[12:], []byte{0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1})
	case "pcn_parse_ipv6":
		copy(f[12:], []byte{0x86, 0xdd, 0x60})
	case "pcn_skip_ipv6_extensions": // the cursor is after Ethernet: there are eight bytes of padding, then UDP
		copy(f[14:], []byte{17, 0, 1, 4, 0, 0, 0, 0})
	}
	return f
}

// timeHelper links the cube for a case and times it.
func timeHelper(rig *lab.Rig, p *lab.Plane, n *datapath.Node, c helperCase, records *arrivals, quick bool) (float64, error) {
	if err := rig.Context().Err(); err != nil {
		return 0, err
	}
	n.Constants = map[string]any{"which": c.which}
	if err := p.Commit(); err != nil {
		return 0, err
	}
	prog, err := p.Entry()
	if err != nil {
		return 0, err
	}
	effort, best := c.effort(n.Type.Hook(), quick), math.Inf(1)
	if !c.up() || c.name == "" {
		best, err = lab.Best(prog, frameFor(c.name), effort)
		return best, errors.Join(err, prog.Close())
	}
	// A packet that does not fit the ring is cheap, and not what is measured: each run starts with an empty ring.
	for range effort.Runs {
		before := records.n.Load()
		ns, rerr := lab.Best(prog, lab.Template(lab.FrameSize), lab.Effort{Runs: 1, Repeat: effort.Repeat})
		if rerr == nil {
			rerr = until(5*time.Second, func() bool { return records.n.Load() >= before+uint64(effort.Repeat) })
		}
		if rerr != nil {
			err = fmt.Errorf("records of one run: %w", rerr)
			break
		}
		best = min(best, ns)
	}
	return best, errors.Join(err, prog.Close())
}

// arrivals counts the records received.
type arrivals struct{ n atomic.Uint64 }

// Packet implements slowpath.Handler.
func (a *arrivals) Packet(uint16, *cube.PacketIn, slowpath.Meta) { a.n.Add(1) }

// Log implements slowpath.Handler.
func (a *arrivals) Log(uint16, uint32, string) { a.n.Add(1) }

// Flood implements slowpath.Handler.
func (a *arrivals) Flood(uint16, *cube.PacketIn, slowpath.Meta) {}

// Notify implements slowpath.Handler.
func (a *arrivals) Notify(uint16, uint32, []byte) { a.n.Add(1) }

// helperPlane links the cube between the loopback, where test runs enter, and a host.
func helperPlane(rig *lab.Rig, hook cube.Hook, k *kernel.Features) (*lab.Plane, *datapath.Node, error) {
	object, err := bpf.Object("helpers", hook)
	if err != nil {
		return nil, nil, err
	}
	ns := netns.NewLab(rig)
	ns.Host("out", "")
	typ := cube.TypeTC
	if hook == cube.XDP {
		typ = cube.TypeXDPSKB
	}
	p, err := rig.NewPlane(ns.Namespace, lab.PlaneOptions{
		Type: typ, Mode: datapath.ModeInline, SlowPath: true, Kernel: k,
		Services: map[string]map[cube.Hook][]byte{"helpers": {hook: object}},
	})
	if err != nil {
		return nil, nil, err
	}
	n, err := p.Cube("helpers", 2, nil)
	if err != nil {
		return nil, nil, err
	}
	n.Programs = map[cube.ProgramSlot]cube.Program{{Direction: cube.Ingress, Index: 1}: {Function: "helpers_second"}}
	return p, n, errors.Join(p.Netdev(n, 0, "lo"), p.Netdev(n, 1, "out"))
}
