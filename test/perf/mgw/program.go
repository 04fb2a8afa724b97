// SPDX-License-Identifier: Apache-2.0

package mgw

// The program of upf and router alone.

import (
	"context"
	"fmt"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const programsText = contest.SinglyText + " The chain is `upf` and `router`, from the packet of a random session to the redirect. *Limited* " +
	"sessions have an MBR in both directions, a QFI, and a URR with a threshold; uplink packets have a PDU Session Container then. The " +
	"others have rules alone. The tables have 60,000 sessions; packets are those of 1, 1,000 or all of them.\n\n" +
	"eUPF (a8d774a) cannot be built from package registries. Its figures are constants, measured in this way on another AMD EPYC machine: with " +
	"an MBR, its sliding window and the lookup of the route by `bpf_fib_lookup`, and without QFI. The goal is half of them."

// eupf is what eUPF takes with an MBR, in ns, by sessions: up and down.
var eupf = map[int][2]float64{1: {286, 285}, 1000: {327, 332}, 60_000: {747, 814}}

var sessionCounts = []int{1, 1000, 60_000}

// variant is a way to set up the gateway.
type variant struct {
	name    string
	fib     string
	limited bool
}

var variants = []variant{{"limited", "own", true}, {"limited, the host's routes", "host", true}, {"rules alone", "own", false}}

func direction(down bool) string {
	if down {
		return "downlink"
	}
	return "uplink"
}

func (v variant) of(sessions int, down bool) string {
	return fmt.Sprintf("%s, %s, %s", direction(down), v.name, plural(sessions, "session"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return contest.Thousands(n) + " " + what + "s"
}

// programs is the part "mgw-program".
func programs(ctx context.Context, b *Bench) (*Result, error) {
	var all []*contest.Single
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, v := range variants {
			b.Progress("mgw-program: %s", v.name)
			of, err := v.singles(rig, b)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			all = append(all, of...)
		}
		empty, err := contest.Empty(rig, all[0])
		if err != nil {
			return err
		}
		all = append(all, empty)
		return contest.RaceSingly(rig, b.Rounds(11, 3), 2000, all)
	})
	if err != nil {
		return nil, err
	}
	return programsResult(all), nil
}

// singles are the programs of a variant, on the packets of some of its sessions.
func (v variant) singles(rig *lab.Rig, b *Bench) (all []*contest.Single, err error) {
	most := sessionCounts[len(sessionCounts)-1]
	g, err := newGateway(rig, b, v.fib, most)
	if err != nil {
		return nil, err
	}
	if err := g.withSessions(most, v.limited); err != nil {
		return nil, err
	}
	if err := g.Inlined("r1", "u"); err != nil {
		return nil, err
	}
	for _, n := range sessionCounts {
		for _, down := range []bool{false, true} {
			s, err := g.single(rig, v.of(n, down), load{users: n, down: down, tunnels: true, container: v.limited})
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// singleTimes are the times of programs, by name.
func singleTimes(all []*contest.Single) map[string]report.Sample {
	times := map[string]report.Sample{}
	for _, s := range all {
		times[s.Name] = s.Times
	}
	for name, of := range times {
		if name != contest.Nothing {
			times[name] = of.Less(times[contest.Nothing])
		}
	}
	return times
}

func programsResult(all []*contest.Single) *Result {
	out := &Result{Title: "Mobile gateway: the program alone", Text: programsText}
	times := singleTimes(all)
	for _, down := range []bool{false, true} {
		t := &report.Table{
			Title:   "upf and router, XDP, " + direction(down) + ", net ns per packet",
			Columns: []string{"sessions", "rules alone", "limited", "limited, the host's routes", "eUPF with an MBR, another machine", "limited, of eUPF"},
		}
		for _, n := range sessionCounts {
			other := eupf[n][map[bool]int{false: 0, true: 1}[down]]
			ours := times[variants[0].of(n, down)]
			t.Add(contest.Thousands(n), times[variants[2].of(n, down)].Spread(0), ours.Spread(0), times[variants[1].of(n, down)].Spread(0),
				fmt.Sprintf("%.0f", other), fmt.Sprintf("%.2f", ours.Median()/other))
			out.Checks = append(out.Checks, report.AtMost(
				fmt.Sprintf("upf and router alone, XDP, %s with an MBR, %s", direction(down), plural(n, "session")), "%.0f ns", ours.Median(), other/2))
		}
		out.Tables = append(out.Tables, t)
	}
	out.Tables[0].Notes = []string{fmt.Sprintf("The empty program takes %s ns.", times[contest.Nothing].Spread(0))}
	return out
}
