// SPDX-License-Identifier: Apache-2.0

package filters

// The programs alone, without a network, on the scale of a lookup in the kernel's hash map.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const programText = "The program alone (`BPF_PROG_TEST_RUN`, 10,000 runs a call, without Go's preemption), entry, exit and " +
	"counters included. A harness writes the next packet before each run and calls the program; what it costs, measured with a " +
	"program that does nothing, is subtracted. Nanoseconds are not compared, as machines differ: *scaled* are those of a " +
	"machine where a lookup of a flow in an empty hash map of the kernel takes 20, which is measured the same way in the same " +
	"rounds."

// alone is a program that is timed.
type alone struct {
	name    string
	hook    cube.Hook
	at      lab.Place
	harness *ebpf.Program
	limit   float64 // on the scale; 0: none
	times   report.Sample
}

// unit is what a lookup takes on the scale.
const unit = 20

const (
	lookup  = "a lookup in an empty hash map"
	nothing = "nothing"
)

// newAlone is a harness around a program that runs in the place of a wire's netdev; those named lookup and nothing are its own.
func newAlone(rig *lab.Rig, w *lab.Filtered, name string, hook cube.Hook, program *ebpf.Program, packets [][]byte) (*alone, error) {
	a := &alone{name: name, hook: hook}
	var err error
	if a.at, err = lab.NewPlace(w.Machine.Namespace, hook, lab.In); err != nil {
		return nil, err
	}
	err = a.load(rig, w, 0, program, packets)
	if errors.Is(err, unix.EINVAL) && hook == cube.XDP {
		err = a.load(rig, w, flagFrags, program, packets)
	}
	if err != nil {
		return nil, fmt.Errorf("harness of %s: %w", name, err)
	}
	return a, nil
}

// flagFrags is BPF_F_XDP_HAS_FRAGS: programs that call each other must agree on it.
const flagFrags = 1 << 5

func (a *alone) load(rig *lab.Rig, w *lab.Filtered, flags uint32, program *ebpf.Program, packets [][]byte) error {
	spec, err := bpf.Spec("replay", a.hook)
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
		program = coll.Programs[map[string]string{lookup: "lookup"}[a.name]]
		if program == nil {
			program = coll.Programs["nothing"]
		}
	}
	a.harness = coll.Programs["replay"]
	return errors.Join(
		w.Fill(coll, packets), coll.Variables["replay_frames"].Set(uint32(len(packets))),
		coll.Maps["replay_program"].Put(uint32(0), program),
	)
}

// passes runs each packet once: all must pass, or none.
func (a *alone) passes(packets int, pass bool) error {
	for i := range packets {
		verdict, _, err := a.at.Run(a.harness, lab.Template(lab.FrameSize), 1)
		if err != nil {
			return err
		}
		// XDP_PASS is 2; TC_ACT_SHOT is 2.
		if passed := (a.hook == cube.XDP) == (verdict == 2); passed != pass {
			return fmt.Errorf("%s: packet %d ends with verdict %d: %w", a.name, i, int32(verdict), errLost)
		}
	}
	return nil
}

// time measures one.
func (a *alone) time() error {
	effort := lab.Effort{Runs: 12, Repeat: 10_000} // a call costs a third of a millisecond by itself at XDP
	return netns.OnCPU(0, func() error {
		return netns.Uninterrupted(func() error {
			ns, err := a.at.Best(a.harness, lab.Template(lab.FrameSize), effort)
			a.times = append(a.times, ns)
			return err
		})
	})
}

// aloneCase is a firewall to time.
type aloneCase struct {
	name  string
	rs    *ruled
	limit float64
}

// programs is the part "filter-program".
func programs(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: the program alone", Text: programText}
	var all []*alone
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
			of, err := programsAt(rig, b, hook)
			if err != nil {
				return fmt.Errorf("%s: %w", hook, err)
			}
			all = append(all, of...)
		}
		return raceAlone(rig, b.Rounds(25, 5), all)
	})
	if err != nil {
		return nil, err
	}
	for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
		out.scale(hook, all, "The program alone, "+hookNames[hook])
	}
	return out, nil
}

// raceAlone times all in turns, each time in a new order.
func raceAlone(rig *lab.Rig, rounds int, all []*alone) error {
	for range rounds {
		for _, a := range shuffled(all) {
			if err := errors.Join(rig.Context().Err(), a.time()); err != nil {
				return err
			}
		}
	}
	return nil
}

// hookNames are the names of hooks in tables.
var hookNames = map[cube.Hook]string{cube.XDP: "XDP", cube.TC: "TC"}

// scale adds the table and the checks of a hook, and returns the scaled figures.
func (out *Result) scale(hook cube.Hook, all []*alone, title string) map[string]float64 {
	t := &report.Table{Title: title, Columns: []string{"", "ns per packet", "scaled", "at most"}}
	figures, times := map[string]float64{}, map[string]report.Sample{}
	for _, a := range all {
		if a.hook == hook {
			times[a.name] = a.times
		}
	}
	one := times[lookup].Less(times[nothing])
	for _, a := range all {
		if a.hook != hook || a.name == nothing {
			continue
		}
		net := times[a.name].Less(times[nothing])
		scaled := net.Median() / one.Median() * unit
		figures[a.name] = scaled
		limit := ""
		if a.limit > 0 {
			limit = fmt.Sprintf("%.0f", a.limit)
			out.Checks = append(out.Checks, report.AtMost("firewall program alone, "+hookNames[hook]+", "+a.name+", scaled", "%.0f ns", scaled, a.limit))
		}
		t.Add(a.name, net.Spread(1), fmt.Sprintf("%.1f", scaled), limit)
	}
	out.Tables = append(out.Tables, t)
	return figures
}

// programsAt sets up all programs of a hook.
func programsAt(rig *lab.Rig, b *Bench, hook cube.Hook) ([]*alone, error) {
	typ := map[cube.Hook]cube.Type{cube.XDP: cube.TypeXDPDRV, cube.TC: cube.TypeTC}[hook]
	thousand := exact(1000)
	cases := []aloneCase{
		{"10 exact rules", exact(10), 40}, {"100 exact rules", exact(100), 45}, {"1,000 exact rules", thousand, 60},
		{"10,000 exact rules", exact(10_000), 90}, {"1,000 rules with prefixes and port ranges", made("fw", 1000), 150},
		{"1,000 rules of an access list", made("acl", 1000), 150},
	}
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	var all []*alone
	for _, name := range []string{nothing, lookup} {
		a, err := newAlone(rig, w, name, hook, nil, thousand.accepted)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	a, err := letsPass(rig, b, hook, typ, thousand.accepted)
	if err != nil {
		return nil, err
	}
	all = append(all, a)
	for _, c := range cases {
		a, err := c.setup(rig, b, hook, typ)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, a)
	}
	if a, err = establishedAlone(rig, b, hook, typ); err != nil {
		return nil, err
	}
	return append(all, a), nil
}

// entry attaches a cube to a netdev and returns the program that its packets enter.
func entry(rig *lab.Rig, b *Bench, hook cube.Hook, service string, conf any) (*lab.Filtered, *ebpf.Program, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, nil, err
	}
	d, err := attached(rig, b, w, service, conf)
	if err != nil {
		return nil, nil, err
	}
	program, err := d.Entry(hook, lab.In)
	if err != nil {
		return nil, nil, err
	}
	rig.Closing(program)
	return w, program, nil
}

// letsPass is a cube that lets all packets pass: what the framework takes.
func letsPass(rig *lab.Rig, b *Bench, hook cube.Hook, typ cube.Type, packets [][]byte) (*alone, error) {
	w, program, err := entry(rig, b, hook, "transparenthelloworld", map[string]any{"type": typ})
	if err != nil {
		return nil, err
	}
	return newAlone(rig, w, "a cube that lets all pass", hook, program, packets)
}

func (c aloneCase) setup(rig *lab.Rig, b *Bench, hook cube.Hook, typ cube.Type) (*alone, error) {
	w, program, err := entry(rig, b, hook, "firewall", firewallConf(typ, false, ourRules(c.rs.rules)))
	if err != nil {
		return nil, err
	}
	return checked(rig, w, alone{name: c.name, hook: hook, limit: c.limit}, program, c.rs.accepted, c.rs.others)
}

// checked is a harness around a program that is found to accept some packets and to drop others.
func checked(rig *lab.Rig, w *lab.Filtered, as alone, program *ebpf.Program, accepted, others [][]byte) (*alone, error) {
	wrong, err := newAlone(rig, w, as.name, as.hook, program, others)
	if err == nil {
		err = wrong.passes(len(others), false)
	}
	if err != nil {
		return nil, err
	}
	a, err := newAlone(rig, w, as.name, as.hook, program, accepted)
	if err != nil {
		return nil, err
	}
	a.limit = as.limit
	return a, a.passes(len(accepted), true)
}

// serverAt is the server of all connections.
var serverAt = netip.MustParseAddrPort("198.18.0.1:7000")

// clients are n connections.
func clients(n int, random bool) lab.Connections {
	return lab.Connections{First: netip.MustParseAddr("100.64.0.0"), Count: n, Server: serverAt, Random: random}
}

// The segments of a connection, in the order in which they come.
var (
	segSYN    = lab.Segment{Flags: lab.SYN, Seq: 1000}
	segSYNACK = lab.Segment{Back: true, Flags: lab.SYN | lab.ACK, Seq: 5000, Acked: 1001}
	segACK    = lab.Segment{Flags: lab.ACK, Seq: 1001, Acked: 5001}
	segFIN    = lab.Segment{Flags: lab.FIN | lab.ACK, Seq: 1001, Acked: 5001}
	segFINACK = lab.Segment{Back: true, Flags: lab.FIN | lab.ACK, Seq: 5001, Acked: 1002}
	segEnd    = lab.Segment{Flags: lab.ACK, Seq: 1002, Acked: 5002}
)

// openers are rules that accept what opens a connection to the server.
func openers() []ourRule {
	return []ourRule{{Dst: serverAt.Addr().String() + "/32", Protocol: "TCP", DstPort: fmt.Sprint(serverAt.Port()), Conntrack: "NEW", Action: "ACCEPT"}}
}

// establishedAlone is the firewall with 1,000 established connections.
func establishedAlone(rig *lab.Rig, b *Bench, hook cube.Hook, typ cube.Type) (*alone, error) {
	const n = 1000
	c := clients(n, false)
	w, d, err := establish(rig, b, c, func(w *lab.Filtered) (*lab.Daemon, error) { return trackingFirewall(rig, b, w, typ, openers()) })
	if err != nil {
		return nil, err
	}
	program, err := d.Entry(hook, lab.In)
	if err != nil {
		return nil, err
	}
	rig.Closing(program)
	packets, strangers := make([][]byte, n), make([][]byte, n)
	for i := range n {
		packets[i], strangers[i] = c.Packet(i, segACK), c.Packet(n+i, segACK)
	}
	const name = "a segment of 1,000 established TCP connections"
	return checked(rig, w, alone{name: name, hook: hook, limit: 100}, program, packets, strangers)
}
