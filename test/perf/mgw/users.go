// SPDX-License-Identifier: Apache-2.0

package mgw

// The chains of the paper's gateway, by users.

import (
	"context"
	"fmt"
	"slices"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const usersText = "The workload of Parola, Risso and Miano, IEEE NetSoft 2021, figures 6, 7 and 9: a base station for every 100 users, a route " +
	"for every ten, ten flows of UDP each, and their chain of cubes, from the router alone to all four. The classifier knows users as " +
	"subscribers and tells the class of packets to them, the policer has a contract for each. *upf* is the cube that does the work of the " +
	"three. Packets are those of random users and flows; measured as above."

var userCounts = []int{1, 10, 100, 1000, 3000}

// stages are the chains: what each of them adds.
var stages = []string{"router", "+ gtphandler", "+ policer", "+ classifier"}

const withUPF = "router + upf"

// chain is a chain with its routes for some users.
type chain struct {
	stage, fib string
	users      int
}

func (c chain) of(down bool) string {
	return fmt.Sprintf("%s, fib=%s, %s, %d", c.stage, c.fib, direction(down), c.users)
}

// users is the part "mgw-users".
func users(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Mobile gateway: by users", Text: usersText}
	times := map[string]report.Sample{}
	chains := append(slices.Clone(stages), withUPF)
	for _, fib := range []string{"own", "host"} {
		var notes []string
		for _, stage := range chains {
			b.Progress("mgw-users: %s, fib=%s", stage, fib)
			err := lab.With(ctx, func(rig *lab.Rig) error {
				reason, err := measure(rig, b, stage, fib, times)
				if reason != "" {
					notes = []string{fmt.Sprintf("The chain *%s* does not run inlined, but by tail calls: %s.", stage, reason)}
				}
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("%s, fib=%s: %w", stage, fib, err)
			}
		}
		for _, down := range []bool{false, true} {
			t := usersTable(chains, fib, down, times)
			t.Notes = notes
			out.Tables = append(out.Tables, t)
		}
		last := stages[len(stages)-1]
		for _, stage := range []string{last, withUPF} {
			most, one := chain{stage, fib, userCounts[len(userCounts)-1]}, chain{stage, fib, 1}
			name := map[string]string{last: "gtphandler, policer, classifier and router", withUPF: "upf and router"}[stage]
			out.Checks = append(out.Checks, report.AtMost(fmt.Sprintf("%s, fib=%s, downlink, 3,000 users against 1", name, fib), "%.2f ×",
				times[most.of(true)].Median()/times[one.of(true)].Median(), 1.3))
		}
	}
	return out, nil
}

func usersTable(chains []string, fib string, down bool, times map[string]report.Sample) *report.Table {
	t := &report.Table{Title: fmt.Sprintf("%s, fib=%s, net ns per packet", direction(down), fib), Columns: []string{"users"}}
	t.Columns = append(t.Columns, chains...)
	for _, n := range userCounts {
		cells := []string{contest.Thousands(n)}
		for _, stage := range chains {
			cells = append(cells, times[chain{stage, fib, n}.of(down)].Spread(0))
		}
		t.Add(cells...)
	}
	return t
}

// measure measures a chain with each number of users. It returns why the chain does not run inlined.
func measure(rig *lab.Rig, b *Bench, stage, fib string, times map[string]report.Sample) (reason string, err error) {
	var all []*contest.Single
	for _, n := range userCounts {
		var of []*contest.Single
		if of, reason, err = (chain{stage, fib, n}).singles(rig, b); err != nil {
			return "", fmt.Errorf("%d users: %w", n, err)
		}
		all = append(all, of...)
	}
	empty, err := contest.Empty(rig, all[0])
	if err != nil {
		return "", err
	}
	if err := contest.RaceSingly(rig, b.Rounds(7, 2), 3000, append(all, empty)); err != nil {
		return "", err
	}
	for name, of := range singleTimes(append(all, empty)) {
		if name != contest.Nothing {
			times[name] = of
		}
	}
	return reason, nil
}

// singles sets a chain up.
func (c chain) singles(rig *lab.Rig, b *Bench) (all []*contest.Single, reason string, err error) {
	g, err := newGateway(rig, b, c.fib, c.users)
	if err != nil {
		return nil, "", err
	}
	if c.stage == withUPF {
		err = g.withSessions(c.users, true)
	}
	for i, add := range []func(users int) error{g.withHandler, g.withPolicer, g.withClassifier} {
		if err == nil && i < slices.Index(stages, c.stage) {
			err = add(c.users)
		}
	}
	if err == nil {
		reason, err = g.Linked("r1")
	}
	for _, down := range []bool{false, true} {
		if err != nil {
			return nil, "", err
		}
		l := load{users: c.users, down: down, tunnels: c.stage != stages[0], container: true}
		var s *contest.Single
		s, err = g.single(rig, c.of(down), l)
		all = append(all, s)
	}
	return all, reason, err
}

// withHandler adds a gtphandler with the tunnels of users.
func (g *gateway) withHandler(users int) error {
	list := make([]object, users)
	for i := range list {
		list[i] = object{"ip": user(i), "tunnel-endpoint": site(i), "teid": firstTEID + i, "remote-teid": siteTEID + i, "qfi": qfi}
	}
	return g.add("gtphandler", "g", object{"echo-interval": 0, "local-address": []object{{"address": local}}, "user-equipment": list})
}

// withPolicer adds a policer with a contract for each user.
func (g *gateway) withPolicer(users int) error {
	list := make([]object, users)
	for i := range list {
		list[i] = object{"traffic-class": firstTEID + i, "action": "LIMIT", "rate-limit": 100_000_000}
	}
	return g.add("policer", "p", object{"max-contracts": 4096, "contract": list})
}

// withClassifier adds a classifier that knows the users.
func (g *gateway) withClassifier(users int) error {
	list := make([]object, users)
	for i := range list {
		list[i] = object{"address": user(i), "class": firstTEID + i}
	}
	return g.add("classifier", "c", object{"subscriber": list})
}
