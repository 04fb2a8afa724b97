// SPDX-License-Identifier: Apache-2.0

package filters

// The programs alone, without a network, on the scale of a lookup in the kernel's hash map.

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

// aloneCase is a firewall to time.
type aloneCase struct {
	name  string
	rs    *ruled
	limit float64
}

// programs is the part "filter-program".
func programs(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: the program alone", Text: contest.AloneText}
	var all []*alone
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
			of, err := programsAt(rig, b, hook)
			if err != nil {
				return fmt.Errorf("%s: %w", hook, err)
			}
			all = append(all, of...)
		}
		return contest.RaceAlone(rig, b.Rounds(25, 5), all)
	})
	if err != nil {
		return nil, err
	}
	for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
		out.Scale(hook, all, "firewall", "The program alone, "+contest.HookNames[hook])
	}
	return out, nil
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
	for _, name := range []string{contest.Nothing, contest.Lookup} {
		a, err := contest.NewAlone(rig, w, name, hook, nil, thousand.accepted)
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
	return contest.NewAlone(rig, w, "a cube that lets all pass", hook, program, packets)
}

func (c aloneCase) setup(rig *lab.Rig, b *Bench, hook cube.Hook, typ cube.Type) (*alone, error) {
	w, program, err := entry(rig, b, hook, "firewall", firewallConf(typ, false, ourRules(c.rs.rules)))
	if err != nil {
		return nil, err
	}
	return checked(rig, w, alone{Name: c.name, Hook: hook, Limit: c.limit}, program, c.rs.accepted, c.rs.others)
}

// checked is a harness around a program that is found to accept some packets and to drop others.
func checked(rig *lab.Rig, w *lab.Filtered, as alone, program *ebpf.Program, accepted, others [][]byte) (*alone, error) {
	wrong, err := contest.NewAlone(rig, w, as.Name, as.Hook, program, others)
	if err == nil {
		err = wrong.Passes(len(others), false)
	}
	if err != nil {
		return nil, err
	}
	a, err := contest.NewAlone(rig, w, as.Name, as.Hook, program, accepted)
	if err != nil {
		return nil, err
	}
	a.Limit = as.Limit
	return a, a.Passes(len(accepted), true)
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
	return checked(rig, w, alone{Name: name, Hook: hook, Limit: 100}, program, packets, strangers)
}
