// SPDX-License-Identifier: Apache-2.0

package filters

// Rules that each name one flow, compared with iptables and nftables.

import (
	"context"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const exactText = "The kernel forwards packets of 60 bytes from a generator behind one veth to a counting sink behind another; " +
	"what differs is the filter. *Net* is minus the same without a filter. Rules name one flow each and accept it, the default " +
	"is DROP; 1,024 SYNs and datagrams of random rules are sent in rotation. Before each is measured, it has to let all of " +
	"them through, and none of 1,024 others that differ from them in a bit of a port. nftables filters what is forwarded: " +
	"one rule for each, or one for a hash set, or for a set with intervals; or at ingress of the netdev, before the kernel's " +
	"stack: a hash set, or a verdict map of destinations that leads to a chain each. With connection tracking, nftables has " +
	"`ct state established,related accept` in front, which cannot be at ingress, and does not verify checksums; flows have " +
	"packets of one direction, so each packet is tracked and compared with the rules. iptables is the legacy one."

// runnerOf sets up a device and checks what it accepts and drops.
func runnerOf(rig *lab.Rig, b *Bench, d device, rs *ruled) (*runner, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	if err := w.Sinks(rig); err != nil {
		return nil, err
	}
	if err := w.Route(); err != nil {
		return nil, err
	}
	if err := d.Setup(rig, b, w); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	r := &runner{Name: d.Name, Wire: w}
	if d.Name != none {
		r.Drops = true
		if r.Stream, err = w.Replay(rs.others); err != nil {
			return nil, err
		}
		if _, err := r.Send(len(rs.others)); err != nil {
			return nil, err
		}
		r.Drops = false
	}
	if r.Stream, err = w.Replay(rs.accepted); err != nil {
		return nil, err
	}
	return r, r.Warm(len(rs.accepted))
}

func noFilter(*lab.Rig, *Bench, *lab.Filtered) error { return nil }

// compete measures devices with the same rules and packets.
func compete(ctx context.Context, b *Bench, rounds int, rs *ruled, devices []device) (contest.Figures, []*runner, error) {
	var all []*runner
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, d := range append([]device{{Name: none, Setup: noFilter}}, devices...) {
			r, err := runnerOf(rig, b, d, rs)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return contest.Race(rig.Context(), rounds, all)
	})
	return contest.FiguresOf(all), all, err
}

const tracked = "ct state established,related accept\n"

// exactly is the part "filter-rules".
func exactly(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: exact rules", Text: exactText}
	rs := exact(1000)
	rounds := b.Rounds(21, 5)
	for _, conntrack := range []bool{false, true} {
		devices := []device{
			{Name: fwXDP, Setup: firewall(cube.TypeXDPDRV, conntrack, rs.rules)}, {Name: fwTCX, Setup: firewall(cube.TypeTC, conntrack, rs.rules)},
		}
		what, before := "conntrack off", ""
		if conntrack {
			what, before = "conntrack on", tracked
		}
		nfts := []device{
			{Name: nftHash, Setup: nft(before, hashed, rs.rules)}, {Name: nftRanges, Setup: nft(before, ranged, rs.rules)}, {Name: nftList, Setup: nft(before, listed, rs.rules)},
		}
		if conntrack {
			for i := range nfts {
				nfts[i].Setup = trackedAt(nfts[i].Setup)
			}
		} else {
			nfts = append(nfts, device{Name: nftEarly, Setup: nftIngress(hashed, rs.rules)}, device{Name: nftTree, Setup: nftIngress(treed, rs.rules)})
		}
		b.Progress("filter-rules: 1,000 rules, %s", what)
		f, all, err := compete(ctx, b, rounds, rs, append(devices, nfts...))
		if err != nil {
			return nil, fmt.Errorf("1,000 rules, %s: %w", what, err)
		}
		t := &report.Table{Title: "1,000 exact rules, " + what, Columns: contest.Columns(fwXDP, fwTCX)}
		f.Rows(t, all, fwXDP, fwTCX)
		best := f.Best(names(nfts)...)
		out.Tables = append(out.Tables, t)
		against := fmt.Sprintf(" against the best nftables (%s), 1,000 exact rules, %s, net", best, what)
		out.Checks = append(out.Checks,
			report.AtLeast(fwXDP+against, "%.2f ×", f.Ratio(best, fwXDP), 3),
			report.AtLeast(fwTCX+against, "%.2f ×", f.Ratio(best, fwTCX), 1.1),
			report.AtLeast(fwXDP+", stretch: against nftables' interval set, 1,000 exact rules, "+what+", net", "%.2f ×", f.Ratio(nftRanges, fwXDP), 5),
		)
	}
	return out, errors.Join(exactForwarded(ctx, b, out, rs), exactMany(ctx, b, out))
}

// exactForwarded measures ours where it does not lead to the kernel's stack.
func exactForwarded(ctx context.Context, b *Bench, out *Result, rs *ruled) error {
	t := &report.Table{Title: "1,000 exact rules on a port of a simpleforwarder, conntrack off", Columns: contest.Columns(bothXDP),
		Notes: []string{"The same firewall where a `simpleforwarder` forwards instead of the kernel; *net* is minus the forwarder alone."}}
	var all []*runner
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, d := range []device{{Name: none, Setup: forwarder(cube.TypeXDPDRV, nil)}, {Name: bothXDP, Setup: forwarder(cube.TypeXDPDRV, rs.rules)}} {
			r, err := runnerOf(rig, b, d, rs)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return contest.Race(rig.Context(), b.Rounds(21, 5), all)
	})
	if err != nil {
		return fmt.Errorf("on a forwarder: %w", err)
	}
	contest.FiguresOf(all).Rows(t, all, bothXDP)
	out.Tables = append(out.Tables, t)
	return nil
}

// trackedAt makes a peer track in its best form.
func trackedAt(setup func(*lab.Rig, *Bench, *lab.Filtered) error) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
		if err := setup(rig, b, w); err != nil {
			return err
		}
		return contest.TrackWell(rig, w)
	}
}

func names(devices []device) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.Name)
	}
	return out
}

// exactMany measures 10,000 rules, which are too many for a list.
func exactMany(ctx context.Context, b *Bench, out *Result) error {
	rs := exact(10_000)
	b.Progress("filter-rules: 10,000 rules")
	f, all, err := compete(ctx, b, b.Rounds(11, 3), rs, []device{
		{Name: fwXDP, Setup: firewall(cube.TypeXDPDRV, false, rs.rules)}, {Name: fwTCX, Setup: firewall(cube.TypeTC, false, rs.rules)},
		{Name: iptables, Setup: iptablesRules(rs.rules)}, {Name: nftHash, Setup: nft("", hashed, rs.rules)},
	})
	if err != nil {
		return fmt.Errorf("10,000 rules: %w", err)
	}
	t := &report.Table{Title: "10,000 exact rules, conntrack off", Columns: contest.Columns(fwXDP, fwTCX)}
	f.Rows(t, all, fwXDP, fwTCX)
	out.Tables = append(out.Tables, t)
	out.Checks = append(out.Checks,
		report.AtLeast(fwXDP+" against iptables-legacy, 10,000 exact rules, net", "%.1f ×", f.Ratio(iptables, fwXDP), 60))
	return nil
}

// shapes are those of the authors of ClassBench.
var shapes = []string{"acl", "fw", "ipc"}

const listsText = "As above, with 1,000 rules as the generator of ClassBench makes them: access lists (acl), firewalls (fw) and " +
	"chains (ipc), with prefixes, port ranges and wildcards, all of which accept; the default is DROP. Packets match random rules."

// generated is the part "filter-lists".
func generated(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: generated rules", Text: listsText + "\n\n" + vswitchText}
	for _, shape := range shapes {
		rs := made(shape, 1000)
		b.Progress("filter-lists: %s, %d others", shape, len(rs.others))
		f, all, err := compete(ctx, b, b.Rounds(11, 3), rs, []device{
			{Name: fwXDP, Setup: firewall(cube.TypeXDPDRV, false, rs.rules)}, {Name: fwTCX, Setup: firewall(cube.TypeTC, false, rs.rules)},
			{Name: iptables, Setup: iptablesRules(rs.rules)}, {Name: nftList, Setup: nft("", listed, rs.rules)},
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shape, err)
		}
		t := &report.Table{Title: "1,000 rules, " + shape, Columns: contest.Columns(fwXDP, fwTCX)}
		f.Rows(t, all, fwXDP, fwTCX)
		out.Tables = append(out.Tables, t)
		what := fmt.Sprintf(", 1,000 generated rules (%s), net", shape)
		out.Checks = append(out.Checks,
			report.AtLeast(fwXDP+" against iptables-legacy"+what, "%.1f ×", f.Ratio(iptables, fwXDP), 10),
			report.AtLeast(fwXDP+" against nftables' list"+what, "%.1f ×", f.Ratio(nftList, fwXDP), 31.8),
		)
		if err := againstSwitch(ctx, b, out, shape, rs); err != nil {
			return nil, fmt.Errorf("%s: %w", shape, err)
		}
	}
	return out, nil
}
