// SPDX-License-Identifier: Apache-2.0

package filters

// Segments of established connections, and connections that open and close.

import (
	"context"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// trackingFirewall is a firewall that accepts established connections, and what rules accept.
func trackingFirewall(rig *lab.Rig, b *Bench, w *lab.Filtered, typ cube.Type, rules []ourRule) (*lab.Daemon, error) {
	conf := firewallConf(typ, true, rules)
	conf["max-sessions"], conf["pick-up"] = 1<<20, false
	return attached(rig, b, w, "firewall", conf)
}

// establish creates a wire with a device, and opens connections through it.
func establish[T any](rig *lab.Rig, b *Bench, c lab.Connections, setup func(*lab.Filtered) (T, error)) (w *lab.Filtered, d T, err error) {
	if w, err = rig.NewFiltered(); err != nil {
		return nil, d, err
	}
	if err := w.Sinks(rig); err != nil {
		return nil, d, err
	}
	if err := w.Route(); err != nil {
		return nil, d, err
	}
	if d, err = setup(w); err != nil {
		return nil, d, err
	}
	_, err = exchange(w, c, segSYN, segSYNACK, segACK)
	return w, d, err
}

// exchange sends segments of all connections, and returns the CPU time of one connection. No more connections are half open
// at once than a table of them has room for.
func exchange(w *lab.Filtered, c lab.Connections, segments ...lab.Segment) (ns float64, err error) {
	const atOnce = 8000
	var spent int64
	for i := 0; i < c.Count; i += atOnce {
		for _, s := range segments {
			stream, err := w.Segments(c.Part(i, min(atOnce, c.Count-i)), s)
			if err != nil {
				return 0, err
			}
			if err := stream.Restart(); err != nil {
				return 0, err
			}
			p, err := stream.Send(min(atOnce, c.Count-i))
			if err != nil {
				return 0, err
			}
			if p.Received < p.Sent {
				return 0, fmt.Errorf("of %d segments with flags %#x %d arrive: %w", p.Sent, s.Flags, p.Received, contest.ErrLost)
			}
			spent += p.NS
		}
	}
	return float64(spent) / float64(c.Count), nil
}

const establishedText = "The kernel forwards TCP segments without data, of connections that were opened through the filter before, as " +
	"above. nftables has `ct state established accept` and accepts what opens a connection to the server; checksums are not " +
	"verified. Ours does the same with one rule. A segment without a connection must not get through."

const ctEstablished = "nftables, ct state established"

// nftOpeners is what nftables needs for the same as openers.
var nftOpeners = fmt.Sprintf("ct state established accept\nct state new ip daddr %s tcp dport %d accept\n", serverAt.Addr(), serverAt.Port())

func nftTracking(rig *lab.Rig, w *lab.Filtered, chain string) error {
	err := contest.Fed(w.Machine.Command("nft", "-f", "-"), "table ip bench {\nchain in {\ntype filter hook forward priority 0; policy drop;\n"+chain+"}\n}\n")
	if err != nil {
		return err
	}
	return contest.TrackWell(rig, w)
}

// established is the part "filter-established".
func established(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: established connections", Text: establishedText}
	for _, c := range []struct {
		sessions   int
		promised   float64
		inRotation string
	}{{1000, 4, "in turn"}, {500_000, 2.5, "in random order"}} {
		b.Progress("filter-established: %d connections", c.sessions)
		var all []*runner
		err := lab.With(ctx, func(rig *lab.Rig) (err error) {
			all, err = establishedRunners(rig, b, clients(c.sessions, c.sessions > 1000))
			if err != nil {
				return err
			}
			return contest.Race(rig.Context(), b.Rounds(21, 5), all)
		})
		if err != nil {
			return nil, fmt.Errorf("%d connections: %w", c.sessions, err)
		}
		f := contest.FiguresOf(all)
		t := &report.Table{Title: contest.Thousands(c.sessions) + " connections, " + c.inRotation, Columns: contest.Columns(fwXDP, fwTCX)}
		f.Rows(t, all, fwXDP, fwTCX)
		out.Tables = append(out.Tables, t)
		out.Checks = append(out.Checks, report.AtLeast(
			fmt.Sprintf("%s against ct state established accept, %s connections, net", fwXDP, contest.Thousands(c.sessions)), "%.2f ×", f.Ratio(ctEstablished, fwXDP), c.promised))
	}
	return out, nil
}

func establishedRunners(rig *lab.Rig, b *Bench, c lab.Connections) ([]*runner, error) {
	return throughConnections(rig, b, c, []device{
		{Name: none, Setup: noFilter},
		{Name: fwXDP, Setup: func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
			_, err := trackingFirewall(rig, b, w, cube.TypeXDPDRV, openers())
			return err
		}},
		{Name: fwTCX, Setup: func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
			_, err := trackingFirewall(rig, b, w, cube.TypeTC, openers())
			return err
		}},
		{Name: ctEstablished, Setup: func(rig *lab.Rig, _ *Bench, w *lab.Filtered) error { return nftTracking(rig, w, nftOpeners) }},
	})
}

// throughConnections has runners that send segments of established connections through devices. Segments of others do not pass.
func throughConnections(rig *lab.Rig, b *Bench, c lab.Connections, devices []device) ([]*runner, error) {
	var all []*runner
	for _, d := range devices {
		w, _, err := establish(rig, b, c, func(w *lab.Filtered) (struct{}, error) { return struct{}{}, d.Setup(rig, b, w) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		r := &runner{Name: d.Name, Wire: w}
		strangers := c
		strangers.First, strangers.Count = c.Strangers(), 1024
		if d.Name != none {
			r.Drops = true
			if r.Stream, err = w.Segments(strangers, segACK); err == nil {
				_, err = r.Send(1024)
			}
			if err != nil {
				return nil, err
			}
			r.Drops = false
		}
		if r.Stream, err = w.Segments(c, segACK); err != nil {
			return nil, err
		}
		if err := r.Warm(4096); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

const freshText = "Connections of SYN, SYN and ACK, ACK, FIN in both directions and a last ACK, 6 segments in all, each segment for " +
	"8,000 connections before the next, 24,000 in all. There are 100 rules in front of the one that accepts them. CPU time of the " +
	"whole connection; *net* is minus the same without a filter."

// fresh is the part "filter-new".
func fresh(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: new connections", Text: freshText}
	rs := exact(100)
	rules := ourRules(rs.rules)
	last := openers()[0]
	last.ID = len(rules)
	rules = append(rules, last)
	_, list := listed(rs.rules)
	devices := []device{
		{Name: none, Setup: noFilter},
		{Name: fwXDP, Setup: func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
			_, err := trackingFirewall(rig, b, w, cube.TypeXDPDRV, rules)
			return err
		}},
		{Name: fwTCX, Setup: func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
			_, err := trackingFirewall(rig, b, w, cube.TypeTC, rules)
			return err
		}},
		{Name: nftList, Setup: func(rig *lab.Rig, _ *Bench, w *lab.Filtered) error {
			return nftTracking(rig, w, tracked+list+nftOpeners)
		}},
	}
	f := contest.Figures{}
	rounds, count := b.Rounds(5, 2), 24_000
	for round := range rounds {
		b.Progress("filter-new: round %d of %d", round+1, rounds)
		for _, d := range contest.Shuffled(devices) {
			ns, err := freshOnce(ctx, b, d, clients(count, false))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.Name, err)
			}
			f[d.Name] = append(f[d.Name], ns)
		}
	}
	t := &report.Table{Title: "A connection, 100 rules", Columns: []string{"", "ns of CPU per connection", "net ns", "of nftables"}}
	for _, d := range devices {
		net, share := "", ""
		if d.Name != none {
			net, share = f.Net(d.Name).Spread(0), fmt.Sprintf("%.2f", f.Net(d.Name).Median()/f.Net(nftList).Median())
		}
		t.Add(d.Name, f[d.Name].Spread(0), net, share)
	}
	out.Tables = append(out.Tables, t)
	for _, ours := range []string{fwXDP, fwTCX} {
		out.Checks = append(out.Checks, report.AtMost(ours+", a new connection, 100 rules, net, against nftables", "%.2f ×",
			f.Net(ours).Median()/f.Net(nftList).Median(), 1./3))
	}
	return out, nil
}

// freshOnce is the CPU time of a connection from its SYN to its last ACK.
func freshOnce(ctx context.Context, b *Bench, d device, c lab.Connections) (ns float64, err error) {
	err = lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewFiltered()
		if err != nil {
			return err
		}
		if err := w.Sinks(rig); err != nil {
			return err
		}
		if err := w.Route(); err != nil {
			return err
		}
		if err := d.Setup(rig, b, w); err != nil {
			return err
		}
		ns, err = exchange(w, c, segSYN, segSYNACK, segACK, segFIN, segFINACK, segEnd)
		return err
	})
	return ns, err
}
