// SPDX-License-Identifier: Apache-2.0

package filters

// Lists of sources that are dropped, of a thousand and a million addresses.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const ddosText = "TCP segments of listed sources, in random order, are dropped: by `ddosmitigator`, or by nftables with `ip saddr " +
	"@listed drop` at ingress of the netdev, where the set is a hash table with sufficient room. *Net* is minus an XDP program " +
	"that drops all of them without a list. All sources that are sent are listed, and none of them arrives; those that are not " +
	"listed have to arrive. Ours counts packets and bytes of each entry; the set does so only in the last row. The program " +
	"alone is measured as above, with sources that are not listed: with 1,024, a call sees each fifty times; with 16,384, three " +
	"times, so at XDP, where a call begins with a pause, a third of what it reads is in no cache."

// ddosSizes are the numbers of entries.
var ddosSizes = []int{1000, 1_000_000}

const (
	ddosXDP   = "ddosmitigator, XDP"
	ddosTCX   = "ddosmitigator, tcx"
	nftDrop   = "nftables, a hash set at ingress"
	nftCounts = "nftables, the same with a counter per entry"
)

// listedSource is the address of an entry.
func listedSource(i int) netip.Addr { return clients(i*lab.PortsOfClient+1, false).Last() }

// blacklist adds entries in several requests, as a body is limited to 16 MB.
func blacklist(d *lab.Daemon, n int) error {
	const step = 200_000
	type entry struct {
		IP netip.Addr `json:"ip"`
	}
	for at := 0; at < n; at += step {
		list := make([]entry, min(step, n-at))
		for i := range list {
			list[i].IP = listedSource(at + i)
		}
		if err := contest.Post(d, "/ddosmitigator/c1/blacklist-src", list); err != nil {
			return err
		}
	}
	return nil
}

// mitigator attaches one with n entries.
func mitigator(rig *lab.Rig, b *Bench, w *lab.Filtered, typ cube.Type, n int) (*lab.Daemon, error) {
	d, err := attached(rig, b, w, "ddosmitigator", map[string]any{"type": typ})
	if err != nil {
		return nil, err
	}
	return d, errors.Join(blacklist(d, n), d.Inlined("c1"))
}

// nftBlacklist drops sources at ingress.
func nftBlacklist(w *lab.Filtered, n int, statement string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "table netdev bench {\nset listed {\ntype ipv4_addr; size %d;\n%selements = {\n", n, statement)
	for i := range n {
		b.WriteString(listedSource(i).String() + ",\n")
	}
	fmt.Fprintf(&b, "}\n}\nchain in {\ntype filter hook ingress device %q priority 0;\nip saddr @listed drop\n}\n}\n", lab.In)
	return contest.Fed(w.Machine.Command("nft", "-f", "-"), b.String())
}

// ddosRunner sets one up, and checks that other sources pass. Ours also returns its program, to be timed alone.
func ddosRunner(rig *lab.Rig, b *Bench, name string, n int) (*runner, []*alone, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(w.Sinks(rig), w.Route()); err != nil {
		return nil, nil, err
	}
	var a []*alone
	switch name {
	case none:
		err = w.DiscardFrom(rig, netip.PrefixFrom(clients(1, false).First, 12))
	case nftDrop:
		err = nftBlacklist(w, n, "")
	case nftCounts:
		err = nftBlacklist(w, n, "counter;\n")
	default:
		a, err = ddosAlone(rig, b, w, name, n)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	c := clients(n*lab.PortsOfClient, true)
	strangers := clients(n*lab.PortsOfClient, true)
	strangers.First = c.Strangers()
	r := &runner{Name: name, Wire: w}
	if r.Stream, err = w.Segments(strangers, segACK); err == nil {
		_, err = r.Send(4096)
	}
	if err != nil {
		return nil, nil, err
	}
	r.Drops = true
	if r.Stream, err = w.Segments(c, segACK); err == nil {
		err = r.Warm(4096)
	}
	return r, a, err
}

// ddosAlone attaches ours, and returns its program with packets of sources that are not listed.
func ddosAlone(rig *lab.Rig, b *Bench, w *lab.Filtered, name string, n int) ([]*alone, error) {
	typ, hook := cube.TypeXDPDRV, cube.XDP
	if name == ddosTCX {
		typ, hook = cube.TypeTC, cube.TC
	}
	d, err := mitigator(rig, b, w, typ, n)
	if err != nil {
		return nil, err
	}
	program, err := d.Entry(hook, lab.In)
	if err != nil {
		return nil, err
	}
	rig.Closing(program)
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // it has to repeat
	sources := func(count int, listed bool) [][]byte {
		c := clients(1, false)
		if !listed {
			c.First = c.Strangers()
		}
		packets := make([][]byte, count)
		for i := range packets {
			packets[i] = c.Packet(random.IntN(1_000_000)*lab.PortsOfClient, segACK)
		}
		return packets
	}
	if n == 1_000_000 {
		listed, err := contest.NewAlone(rig, w, name, hook, program, sources(fewSources, true))
		if err == nil {
			err = listed.Passes(fewSources, false)
		}
		if err != nil {
			return nil, err
		}
	}
	var out []*alone
	for _, count := range []int{fewSources, manySources} {
		a, err := contest.NewAlone(rig, w, unlistedName(n, count), hook, program, sources(count, false))
		if err == nil {
			err = a.Passes(fewSources, true)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// Numbers of sources that are not listed: those that a call of 10,000 runs sees several times, and more than it sees.
const fewSources, manySources = 1024, lab.FilteredFrames

func unlistedName(entries, sources int) string {
	return fmt.Sprintf("%s entries, %s sources in rotation", contest.Thousands(entries), contest.Thousands(sources))
}

// ddos is the part "filter-ddos".
func ddos(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: lists of sources", Text: ddosText}
	var programs []*alone
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, n := range ddosSizes {
			b.Progress("filter-ddos: %d entries", n)
			var all []*runner
			for _, name := range []string{none, ddosXDP, ddosTCX, nftDrop, nftCounts} {
				r, a, err := ddosRunner(rig, b, name, n)
				if err != nil {
					return fmt.Errorf("%d entries: %w", n, err)
				}
				all = append(all, r)
				programs = append(programs, a...)
			}
			if err := contest.Race(rig.Context(), b.Rounds(21, 5), all); err != nil {
				return err
			}
			listedSources(out, n, all)
		}
		return unlistedAlone(out, rig, b, programs)
	})
	return out, err
}

func listedSources(out *Result, n int, all []*runner) {
	f := contest.FiguresOf(all)
	t := &report.Table{Title: "Listed sources, " + contest.Thousands(n) + " entries", Columns: contest.Columns(ddosXDP, ddosTCX)}
	f.Rows(t, all, ddosXDP, ddosTCX)
	out.Tables = append(out.Tables, t)
	promised := map[int]float64{1000: 6, 1_000_000: 3}[n]
	out.Checks = append(out.Checks, report.AtLeast(
		fmt.Sprintf("%s against nftables' drop at ingress, %s entries, net", ddosXDP, contest.Thousands(n)), "%.2f ×", f.Ratio(nftDrop, ddosXDP), promised))
}

// unlistedAlone times the programs alone.
func unlistedAlone(out *Result, rig *lab.Rig, b *Bench, all []*alone) error {
	w, err := rig.NewFiltered()
	if err != nil {
		return err
	}
	for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
		for _, name := range []string{contest.Nothing, contest.Lookup} {
			a, err := contest.NewAlone(rig, w, name, hook, nil, exact(1000).accepted)
			if err != nil {
				return err
			}
			all = append(all, a)
		}
	}
	if err := contest.RaceAlone(rig, b.Rounds(25, 5), all); err != nil {
		return err
	}
	for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
		scaled := out.Scale(hook, all, "firewall", "Sources that are not listed, the program alone, "+contest.HookNames[hook])
		few, many := scaled[unlistedName(ddosSizes[0], fewSources)], scaled[unlistedName(ddosSizes[1], fewSources)]
		out.Checks = append(out.Checks, report.AtMost(
			"ddosmitigator program alone, "+contest.HookNames[hook]+", 1,000,000 entries against 1,000, sources that are not listed, scaled", "%.0f ns more", many-few, 20))
	}
	return nil
}
