// SPDX-License-Identifier: Apache-2.0

package evnf

// The rules of iptables, with and without a fast path in front of them.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const firewallText = "Frames of 60 bytes from a generator behind one veth to a counting sink behind another. The machine forwards what iptables-legacy " +
	"accepts, by rules that name one flow each, and drops all else; packets match random rules. *efw* is attached to the netdev where packets " +
	"come in. *Nothing offloaded* is efw with `offload=false`: each packet passes it and then the rules. *Net* is minus generator and veth."

// Names of the rivals.
const (
	alone   = "iptables-legacy"
	idleXDP = "the same behind efw, XDP, nothing offloaded"
	idleTCX = "the same behind efw, tcx, nothing offloaded"
	efwXDP  = "efw, XDP"
	efwTCX  = "efw, tcx"
)

// rotation is the number of packets in rotation.
const rotation = 1024

// flow is one that a rule accepts.
type flow struct {
	from, to netip.Addr
	port     uint16
}

// flows are n different ones, the same each time.
func flows(n int) []flow {
	random := rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // it has to repeat
	out := make([]flow, n)
	for i := range out {
		r := random.Uint32()
		out[i] = flow{netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(1 + r%250)}), netip.AddrFrom4([4]byte{11, byte(r >> 8), byte(r >> 16), byte(r >> 24)}),
			uint16(1024 + random.IntN(60000))}
	}
	return out
}

// rules load them into iptables.
func rules(w *lab.Filtered, accepted []flow) error {
	var b strings.Builder
	b.WriteString("*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\n")
	for _, f := range accepted {
		fmt.Fprintf(&b, "-A FORWARD -s %s -d %s -p udp --dport %d -j ACCEPT\n", f.from, f.to, f.port)
	}
	b.WriteString("COMMIT\n")
	return contest.Fed(w.Machine.Command("iptables-legacy-restore"), b.String())
}

// rival is one way to filter.
type rival struct {
	name    string
	typ     cube.Type // none without efw
	offload bool
}

var rivals = []rival{
	{name: contest.Generator}, {name: alone}, {idleXDP, cube.TypeXDPDRV, false}, {idleTCX, cube.TypeTC, false},
	{efwXDP, cube.TypeXDPDRV, true}, {efwTCX, cube.TypeTC, true},
}

// setup makes the machine between the hosts.
func (r rival) setup(rig *lab.Rig, b *Bench, accepted []flow) (*lab.Filtered, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	if err := w.Sinks(rig); err != nil || r.name == contest.Generator {
		return w, errors.Join(err, w.DiscardFrom(rig, netip.MustParsePrefix("0.0.0.0/0")))
	}
	if err := errors.Join(w.Route(), rules(w, accepted)); err != nil || r.typ == "" {
		return w, err
	}
	d, err := contest.DaemonAt(rig, b, w)
	if err != nil {
		return nil, err
	}
	conf := map[string]any{"type": r.typ, "offload": r.offload}
	if r.typ.Hook() == cube.XDP {
		conf["outputs"] = []map[string]any{{"number": 0, "to": lab.Out}}
	}
	err = errors.Join(contest.Post(d, "/efw/c1", conf), contest.Post(d, "/attach", map[string]any{"cube": "c1", "port": lab.In}), d.Inlined("c1"))
	if err == nil && r.offload {
		err = offloaded(rig.Context(), d, "c1")
	}
	return w, err
}

// offloaded waits until a fast path judges.
func offloaded(ctx context.Context, d *lab.Daemon, efw string) error {
	return eventually(ctx, func() error {
		gate, err := d.Ctl("", efw, "status", "show", "gate")
		if err == nil && strings.TrimSpace(gate) != "OPEN" {
			err = contest.ErrLost
		}
		if err != nil {
			return fmt.Errorf("efw offloads nothing: its gate is %s: %w", gate, err)
		}
		return nil
	})
}

// firewall is the part "evnf-firewall".
func firewall(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Hybrid functions: iptables with a fast path", Text: firewallText}
	for _, n := range []int{10, 100, 1000} {
		b.Progress("evnf-firewall: %d rules", n)
		var all []*contest.Runner
		err := lab.With(ctx, func(rig *lab.Rig) error {
			accepted := flows(n)
			for _, r := range rivals {
				is, err := r.runner(rig, b, accepted)
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				all = append(all, is)
			}
			return contest.Race(rig.Context(), b.Rounds(31, 5), all)
		})
		if err != nil {
			return nil, fmt.Errorf("%d rules: %w", n, err)
		}
		f := contest.FiguresOf(all)
		t := &report.Table{Title: fmt.Sprintf("%s rules", contest.Thousands(n)), Columns: contest.Columns(efwXDP, efwTCX)}
		f.Rows(t, all, efwXDP, efwTCX)
		out.Tables = append(out.Tables, t)
		out.Checks = append(out.Checks, report.AtLeast(fmt.Sprintf("%s against %s, %d rules, net", efwXDP, alone, n), "%.2f ×", f.Ratio(alone, efwXDP), 3))
		for _, idle := range []string{idleXDP, idleTCX} {
			out.Checks = append(out.Checks, report.AtLeast(fmt.Sprintf("throughput of %s against %s alone, %d rules", idle, alone, n), "%.2f ×",
				f[alone].Median()/f[idle].Median(), 0.97))
		}
	}
	return out, nil
}

// runner sets a rival up, with what is sent.
func (r rival) runner(rig *lab.Rig, b *Bench, accepted []flow) (*contest.Runner, error) {
	w, err := r.setup(rig, b, accepted)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(2, 2)) //nolint:gosec // it has to repeat
	packets := make([][]byte, rotation)
	for i := range packets {
		f := accepted[random.IntN(len(accepted))]
		packets[i] = mobile.Datagram(f.from.String(), f.to.String(), uint16(1024+i), f.port, make([]byte, 18), 0)
	}
	s, err := w.Replay(packets)
	if err != nil {
		return nil, err
	}
	is := &contest.Runner{Name: r.name, Wire: w, Stream: s, Drops: r.name == contest.Generator}
	return is, is.Warm(len(packets))
}
