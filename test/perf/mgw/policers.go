// SPDX-License-Identifier: Apache-2.0

package mgw

// The algorithms of the policer: what they cost, how they share a contract among CPUs, and what is left of TCP.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const policersText = "What figures 3, 4 and 5 of the same paper are about. Packets of users in random order cross a `classifier`, a `policer` and a " +
	"`simpleforwarder`: each user has a class, each class a contract of 100 Gbit/s, which no packet exceeds. There are 1,000 contracts, and " +
	"packets of 1, 100 or all of them. The burst is 250 ms, so the coarse clock of the kernel counts, as in the paper one of milliseconds did.\n\n" +
	"*One CPU.* The program alone (`BPF_PROG_TEST_RUN`, 50,000 runs a call, without Go's preemption): a harness writes the next packet before each " +
	"run. *Net* is minus the same chain without the policer. The goal is the fixed window and 10 ns for those without a lock for each packet.\n\n" +
	"*Two CPUs* (the paper had six; this machine has no more). " + contest.PairText + " Packets of both are of the same class, or of any of 100; or " +
	"each CPU has 50 classes of its own, every other one, as where a card spreads users."

// The algorithms, by the names of the model.
const (
	compareAndSwap = "COMPARE_AND_SWAP"
	fixedWindow    = "FIXED_WINDOW"
	tokenBucket    = "TOKEN_BUCKET"
	slidingWindow  = "SLIDING_WINDOW"
	reduced        = "_REDUCED_LOCK"
	unlimited      = "no policer"
)

var algorithms = []string{compareAndSwap, fixedWindow, tokenBucket, tokenBucket + reduced, slidingWindow, slidingWindow + reduced}

// withoutLock are those that do not take a lock for each packet, but for the fixed window.
var withoutLock = []string{compareAndSwap, tokenBucket + reduced, slidingWindow + reduced}

const (
	contracts     = 1000
	policedFrames = 4096
)

var contractCounts = []int{1, 100, contracts}

// sharing is how two CPUs share classes.
type sharing struct {
	name    string
	classes int
	// apart: each has every other class.
	apart bool
}

var sharings = []sharing{{"1 class", 1, false}, {"100 classes", 100, false}, {"50 classes each", 100, true}}

// users are those whose packets a CPU gets.
func (s sharing) users(cpu int) (list []int) {
	for i := range s.classes {
		if !s.apart || i%2 == cpu {
			list = append(list, i)
		}
	}
	return list
}

// policers is the part "mgw-policers".
func policers(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Mobile gateway: policers", Text: policersText + "\n\n" + shapingText}
	for _, measure := range []func(context.Context, *Bench, *Result) error{policersCost, policersTogether, shaping} {
		if err := measure(ctx, b, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// policed is a chain with a policer, or without one.
type policed struct {
	*gateway
	algorithm string
}

// of names what is measured of an algorithm.
func of(algorithm, what string) string { return algorithm + ", " + what }

// newPoliced starts a daemon with the chain.
func newPoliced(rig *lab.Rig, b *Bench, algorithm string) (*policed, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	if err := w.Sinks(rig); err != nil {
		return nil, err
	}
	d, err := contest.DaemonAt(rig, b, w)
	if err != nil {
		return nil, err
	}
	p := &policed{&gateway{w, d}, algorithm}
	subscribers, limits := make([]object, contracts), make([]object, contracts)
	for i := range contracts {
		subscribers[i] = object{"address": user(i), "class": i + 1}
		limits[i] = object{"traffic-class": i + 1, "action": "LIMIT", "rate-limit": 100_000_000}
	}
	err = errors.Join(p.forwarder(), p.behind("classifier", "c", object{"subscriber": subscribers}))
	names := []string{"f", "c"}
	if algorithm != unlimited {
		err = errors.Join(err, p.behind("policer", "p", object{"algorithm": algorithm, "contract": limits}))
		names = append(names, "p")
	}
	return p, errors.Join(err, d.Inlined(names...))
}

// forwarder forwards between the hosts.
func (p *policed) forwarder() error {
	return contest.Post(p.Daemon, "/simpleforwarder/f", object{
		"type": cube.TypeTC, "ports": []object{{"name": "p1", "peer": lab.In}, {"name": "p2", "peer": lab.Out}},
		"actions": []object{{"inport": "p1", "action": "FORWARD", "outport": "p2"}, {"inport": "p2", "action": "FORWARD", "outport": "p1"}},
	})
}

// behind creates a transparent cube and attaches it between those that are there and the forwarder.
func (p *policed) behind(service, name string, conf object) error {
	conf["type"] = cube.TypeTC
	return errors.Join(contest.Post(p.Daemon, "/"+service+"/"+name, conf),
		contest.Post(p.Daemon, "/attach", object{"cube": name, "port": "f:p1", "position": "first"}))
}

// packets are datagrams of some users in random order, about as many of each.
func (*policed) packets(users []int) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	out := make([][]byte, policedFrames)
	for i, at := range rng.Perm(policedFrames) {
		u := users[i%len(users)]
		out[at] = mobile.Datagram(user(u).String(), server(u).String(), uint16(1024+rng.IntN(perUser)), 443, make([]byte, 18), 0)
	}
	return out
}

// forwards reports whether a packet was sent: TC_ACT_REDIRECT.
func forwards(verdict uint32) bool { return verdict == 7 }

// conforming checks that the contracts of classes have passed all packets.
func (p *policed) conforming(classes int) error {
	if p.algorithm == unlimited {
		return nil
	}
	_, answer, _, err := p.Client().Do(http.MethodGet, "/policer/p/contract", "")
	if err != nil {
		return err
	}
	var list []struct {
		Passed  json.Number `json:"passed-packets"`
		Dropped json.Number `json:"dropped-packets"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return fmt.Errorf("contracts: %w", err)
	}
	used := 0
	for _, c := range list {
		if c.Dropped != "0" {
			return fmt.Errorf("%s: a contract dropped %s packets: %w", p.algorithm, c.Dropped, contest.ErrLost)
		}
		if c.Passed != "0" {
			used++
		}
	}
	if used != classes {
		return fmt.Errorf("%s: %d contracts have packets, want %d: %w", p.algorithm, used, classes, contest.ErrLost)
	}
	return nil
}

// withPoliced starts a chain for each algorithm, and one without a policer, and passes all of them with their programs.
func withPoliced(ctx context.Context, b *Bench, fn func(rig *lab.Rig, all []*policed, programs []*ebpf.Program) error) error {
	return lab.With(ctx, func(rig *lab.Rig) error {
		var all []*policed
		var programs []*ebpf.Program
		for _, algorithm := range append([]string{unlimited}, algorithms...) {
			b.Progress("mgw-policers: %s", algorithm)
			p, err := newPoliced(rig, b, algorithm)
			if err != nil {
				return fmt.Errorf("%s: %w", algorithm, err)
			}
			program, err := contest.Entry(rig, p.Daemon, cube.TC)
			if err != nil {
				return fmt.Errorf("%s: %w", algorithm, err)
			}
			all, programs = append(all, p), append(programs, program)
		}
		return fn(rig, all, programs)
	})
}

// policersCost measures the algorithms on one CPU.
func policersCost(ctx context.Context, b *Bench, out *Result) error {
	times := map[string]report.Sample{}
	err := withPoliced(ctx, b, func(rig *lab.Rig, all []*policed, programs []*ebpf.Program) error {
		var alone []*contest.Alone
		for i, p := range all {
			for _, n := range contractCounts {
				a, err := contest.NewAlone(rig, p.Filtered, of(p.algorithm, plural(n, "contract")), cube.TC, programs[i], p.packets(sharing{classes: n}.users(0)))
				if err != nil {
					return err
				}
				if err := a.Verdicts(policedFrames, forwards); err != nil {
					return err
				}
				alone = append(alone, a)
			}
		}
		err := contest.RaceAlone(rig, b.Rounds(15, 3), alone)
		for _, a := range alone {
			times[a.Name] = a.Times
		}
		for _, p := range all {
			err = errors.Join(err, p.conforming(contracts))
		}
		return err
	})
	if err == nil {
		costs(times, out)
	}
	return err
}

// costs adds the table and the checks of one CPU.
func costs(times map[string]report.Sample, out *Result) {
	t := &report.Table{Title: "One CPU, TC, net ns per packet", Columns: []string{"algorithm"}}
	net := map[string]report.Sample{}
	for _, n := range contractCounts {
		t.Columns = append(t.Columns, plural(n, "contract"))
	}
	for _, algorithm := range algorithms {
		cells := []string{algorithm}
		for _, n := range contractCounts {
			name := of(algorithm, plural(n, "contract"))
			net[name] = times[name].Less(times[of(unlimited, plural(n, "contract"))])
			cells = append(cells, net[name].Spread(1))
		}
		t.Add(cells...)
	}
	out.Tables = append(out.Tables, t)
	median := func(algorithm string, n int) float64 { return net[of(algorithm, plural(n, "contract"))].Median() }
	for _, n := range []int{1, contracts} {
		for _, algorithm := range withoutLock {
			out.Checks = append(out.Checks, report.AtMost(fmt.Sprintf("policer, %s against %s, %s", algorithm, fixedWindow, plural(n, "contract")),
				"%.1f ns more", median(algorithm, n)-median(fixedWindow, n), 10))
		}
	}
	for _, algorithm := range []string{tokenBucket, slidingWindow} {
		out.Checks = append(out.Checks, report.AtLeast(fmt.Sprintf("policer, %s against %s, 1 contract, net", algorithm, algorithm+reduced),
			"%.2f ×", median(algorithm, 1)/median(algorithm+reduced, 1), 1.1))
	}
}

// policersTogether measures the algorithms on two CPUs.
func policersTogether(ctx context.Context, b *Bench, out *Result) error {
	pairs := map[string]*contest.Pair{}
	length := 60 * time.Millisecond
	if b.Quick {
		length = 10 * time.Millisecond
	}
	err := withPoliced(ctx, b, func(rig *lab.Rig, all []*policed, programs []*ebpf.Program) error {
		var list []*contest.Pair
		for i, p := range all {
			for _, s := range sharings {
				pair, err := contest.NewPair(rig, p.Filtered, of(p.algorithm, s.name), programs[i], [2][][]byte{p.packets(s.users(0)), p.packets(s.users(1))})
				if err != nil {
					return err
				}
				if err := pair.Verdicts(policedFrames, forwards); err != nil {
					return err
				}
				list, pairs[pair.Name] = append(list, pair), pair
			}
		}
		err := contest.RacePairs(rig, b.Rounds(7, 2), length, list)
		for _, p := range all {
			err = errors.Join(err, p.conforming(sharings[len(sharings)-1].classes))
		}
		return err
	})
	if err == nil {
		scaling(pairs, out)
	}
	return err
}

// scaling adds the table and the checks of two CPUs.
func scaling(pairs map[string]*contest.Pair, out *Result) {
	t := &report.Table{Title: "Two CPUs, TC, millions of packets per second of CPU time", Columns: []string{"algorithm"}}
	for _, s := range sharings {
		t.Columns = append(t.Columns, s.name+", one CPU", "both", "both / one")
	}
	for _, algorithm := range append([]string{unlimited}, algorithms...) {
		cells := []string{algorithm}
		for _, s := range sharings {
			p := pairs[of(algorithm, s.name)]
			cells = append(cells, p.One.Spread(1), p.Both.Spread(1), p.Both.Over(p.One).Spread(2))
		}
		t.Add(cells...)
	}
	out.Tables = append(out.Tables, t)
	for _, s := range sharings {
		both := func(algorithm string) float64 { return pairs[of(algorithm, s.name)].Both.Median() }
		for _, algorithm := range withoutLock {
			out.Checks = append(out.Checks, report.AtLeast(fmt.Sprintf("policer, two CPUs on %s, packets of %s against %s", s.name, algorithm, fixedWindow),
				"%.2f ×", both(algorithm)/both(fixedWindow), 0.9))
		}
	}
}
