// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// reply is how a server answers a check: after a time, or never.
type reply struct {
	out   outcome
	after time.Duration
	never bool
}

// failing is a simulation of one server whose answers take time, checked by a thread that is up to 2 ms late.
type failing struct {
	*simulation
	server *server
	reply  func(now time.Duration) reply
	// arrives is when the answer to the check in progress does; 0: never.
	arrives time.Duration
	out     outcome
	begins  []time.Duration
	ends    []time.Duration
	results []bool
	down    time.Duration // when it became down; 0: it did not
}

func simulateFailing(t *testing.T, c Check, seed uint64, reply func(now time.Duration) reply) *failing {
	x := &failing{simulation: simulate(t, nil), reply: reply}
	x.sched.random = rand.New(rand.NewPCG(seed, 5))
	x.sched.prober, x.sched.publish = x, x.publish
	x.server = x.add("s", c)
	return x
}

func (x *failing) start(s *server) {
	x.begins = append(x.begins, x.time)
	is := x.reply(x.time)
	s.phase, x.arrives, x.out = exchanging, x.time+is.after, is.out
	switch {
	case is.never:
		x.arrives = 0
	case is.after == 0:
		x.arrives = 0
		x.sched.finish(s, is.out)
	}
}

func (x *failing) expire(*server) string {
	x.arrives = 0
	return "no answer"
}

func (x *failing) publish(s *server, out outcome, changed bool, now time.Duration) {
	x.ends, x.results = append(x.ends, now), append(x.results, out.ok)
	if changed && s.judge.status == Down && x.down == 0 {
		x.down = now
	}
}

// run is simulation.run with answers that arrive, until a time or until the server is down.
func (x *failing) run(to time.Duration) {
	for x.down == 0 {
		at, _ := x.sched.wheel.next()
		if x.arrives > 0 && x.arrives <= at {
			if x.arrives > to {
				break
			}
			x.time, x.arrives = max(x.time, x.arrives), 0
			x.sched.finish(x.server, x.out)
			continue
		}
		if at > to {
			break
		}
		x.time = max(x.time, at+time.Duration(x.sched.random.Int64N(int64(2*time.Millisecond))))
		x.sched.advance()
	}
	x.time = max(x.time, to)
}

// eachTimes calls fn for checks with all sorts of times.
func eachTimes(fn func(c Check, seed uint64)) {
	seed := uint64(0)
	for _, interval := range []time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 5 * time.Second} {
		for fall := 1; fall <= 5; fall++ {
			for tenths := int64(1); tenths <= 10; tenths++ {
				for _, jitter := range []int{0, 10, 50} {
					seed++
					fn(Check{Interval: interval, Timeout: time.Duration(int64(interval) * tenths / 10), Fall: fall, Rise: 2, Jitter: jitter}, seed)
				}
			}
		}
	}
}

func describe(c Check) string {
	return fmt.Sprintf("interval %v, timeout %v, fall %d, jitter %d %%", c.Interval, c.Timeout, c.Fall, c.Jitter)
}

// TestAFailedServerIsDownWithinIntervalTimesFall: however it fails, at whatever moment, and not before as many checks have failed.
func TestAFailedServerIsDownWithinIntervalTimesFall(t *testing.T) {
	const latency = 3 * time.Millisecond
	kinds := map[string]func(c Check) reply{
		"refuses":        func(Check) reply { return reply{out: failure("refused")} },
		"is silent":      func(Check) reply { return reply{never: true} },
		"answers slowly": func(c Check) reply { return reply{out: success, after: c.Timeout + tick + time.Millisecond} },
		"answers wrong":  func(Check) reply { return reply{out: failure("status 500"), after: latency} },
	}
	var longest float64
	eachTimes(func(c Check, seed uint64) {
		for kind, how := range kinds {
			for try := range uint64(4) {
				random := rand.New(rand.NewPCG(seed, try))
				fails := 3*c.Interval + time.Duration(random.Int64N(int64(4*c.Interval)))
				x := simulateFailing(t, c, seed*4+try, func(now time.Duration) reply {
					switch {
					case now >= fails || kind == "is silent" && now+latency > fails:
						return how(c)
					}
					return reply{out: success, after: latency}
				})
				x.run(fails + 20*c.Interval)
				took := x.down - fails
				if x.down == 0 || took > time.Duration(c.Fall)*c.Interval {
					t.Errorf("%s: a server that %s is down after %v", describe(c), kind, took)
					continue
				}
				longest = max(longest, float64(took)/float64(c.Interval)/float64(c.Fall))
				if last := x.results[len(x.results)-c.Fall-1:]; !last[0] || slices.Contains(last[1:], true) {
					t.Errorf("%s: a server that %s is down after the results %v", describe(c), kind, last)
				}
				x.checkSequence(c, kind)
			}
		}
	})
	if longest < 0.9 {
		t.Errorf("at most %.2f of the time was needed: the test does not try enough", longest)
	}
}

// checkSequence checks that no check begins before the one before has ended, and that each that failed by its deadline
// had its timeout, or at least half an interval, but for what timers need.
func (x *failing) checkSequence(c Check, kind string) {
	for i := range x.ends {
		if i > 0 && x.begins[i] < x.ends[i-1] {
			x.t.Errorf("%s: check %d of a server that %s begins at %v, before the last one has ended", describe(c), i, kind, x.begins[i])
		}
		if least := min(c.Timeout, c.Interval/2-slack); kind == "is silent" && !x.results[i] && x.ends[i]-x.begins[i] < least {
			x.t.Errorf("%s: check %d had %v, want %v", describe(c), i, x.ends[i]-x.begins[i], least)
		}
	}
}

// TestAServerThatRecoversInTimeStaysUp: fewer failures in a row than Fall change nothing, of whatever kind they are.
func TestAServerThatRecoversInTimeStaysUp(t *testing.T) {
	eachTimes(func(c Check, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 6))
		left := 0
		x := simulateFailing(t, c, seed, func(time.Duration) reply {
			if left--; left <= 0 {
				left = 1 + random.IntN(c.Fall) // then a success, and up to Fall - 1 failures
				return reply{out: success, after: time.Duration(random.Int64N(int64(min(c.Timeout, c.Interval/2-slack))))}
			}
			return []reply{{out: failure("refused")}, {never: true}, {out: failure("status 500"), after: time.Millisecond}}[random.IntN(3)]
		})
		x.run(100 * c.Interval)
		if failed := x.count.failed.Load(); x.down != 0 || c.Fall > 1 && failed < 10 {
			t.Errorf("%s: down at %v, after %d failures", describe(c), x.down, failed)
		}
	})
}

// TestAHealthyServerIsCheckedOncePerInterval: with Fall 1, when any check may be the last, up to twice. It stays up while
// its answers take as long as they may.
func TestAHealthyServerIsCheckedOncePerInterval(t *testing.T) {
	const checks = 100
	eachTimes(func(c Check, seed uint64) {
		latency := min(c.Timeout, c.Interval-slack) - time.Millisecond
		if c.Fall <= 2 {
			latency = min(c.Timeout, c.Interval/2-slack) - time.Millisecond
		}
		x := simulateFailing(t, c, seed, func(time.Duration) reply { return reply{out: success, after: latency} })
		x.run(checks * c.Interval)
		most := float64(checks)
		if c.Fall == 1 {
			most *= float64(c.Interval) / float64(c.Interval-min(c.Timeout, c.Interval/2-slack)-slack)
		}
		most = most*100/(100-float64(c.Jitter)/2)*1.1 + 2
		if n := len(x.begins); x.down != 0 || n < checks || float64(n) > most {
			t.Errorf("%s: %d checks in %d intervals, want at most %.0f; down at %v", describe(c), n, checks, most, x.down)
		}
		for i := 2; i < len(x.begins); i++ {
			gap := x.begins[i] - x.begins[i-1]
			if c.Fall > 1 && c.Jitter == 0 && (gap < c.Interval-tick-2*time.Millisecond || gap > c.Interval+tick+2*time.Millisecond) {
				t.Errorf("%s: check %d is %v after the one before", describe(c), i, gap)
			}
		}
	})
}

// TestAHostThatWasBusyGivesServersTheirTime: after a pause, or when checks could not be made, the checks of a server are as
// far apart as without, so that a fault of this host is not one of all servers.
func TestAHostThatWasBusyGivesServersTheirTime(t *testing.T) {
	for _, pause := range []time.Duration{0, 300 * time.Millisecond, time.Minute} {
		c := Check{Interval: time.Second, Timeout: 300 * time.Millisecond, Fall: 2}
		out := success
		x := simulateFailing(t, c, 7, func(time.Duration) reply { return reply{out: out} })
		x.run(5 * time.Second)
		if pause == 0 {
			out = skipped("too many open files")
			x.run(8 * time.Second)
		}
		out = failure("refused")
		x.time = max(x.time, x.server.due+pause)
		x.run(x.time + 10*time.Second)
		if n := len(x.begins); x.down == 0 || x.begins[n-1]-x.begins[n-2] < c.Interval/2 {
			t.Errorf("after a pause of %v, checks start at %v, down at %v", pause, x.begins, x.down)
		}
	}
}

// TestAServerThatIsTooSlowDoesNotFlap: the timeout of a server that is down is the one that has made it so.
func TestAServerThatIsTooSlowDoesNotFlap(t *testing.T) {
	for fall := 1; fall <= 5; fall++ {
		c := Check{Interval: time.Second, Timeout: time.Second, Fall: fall}
		x := simulateFailing(t, c, 8, func(time.Duration) reply { return reply{out: success, after: 700 * time.Millisecond} })
		x.run(100 * time.Second)
		if is := x.server.judge.status; fall <= 2 != (is == Down) || x.count.failed.Load() != 0 && is == Up || x.count.failed.Load() < uint64(len(x.results)) && is == Down {
			t.Errorf("fall %d: %v after the results %v", fall, is, x.results)
		}
	}
}

// TestAChangeOfTimesMovesTheDeadline: a server that is failing is down within the new times.
func TestAChangeOfTimesMovesTheDeadline(t *testing.T) {
	for seed := range uint64(50) {
		fails := 20*time.Second + time.Duration(seed)*101*time.Millisecond
		x := simulateFailing(t, Check{Interval: 5 * time.Second, Timeout: time.Second, Fall: 3}, seed,
			func(now time.Duration) reply { return reply{out: success, never: now >= fails} })
		for x.server.judge.streak == 0 {
			x.run(x.time + 100*time.Millisecond)
		}
		good, changed := x.server.good, x.time
		p, err := Check{Target: x.server.check.Target, Interval: 4 * time.Second, Timeout: time.Second, Fall: 2}.prepare()
		if err != nil {
			t.Fatal(err)
		}
		x.sched.change(x.server, p)
		x.run(time.Minute)
		if most := max(good+2*4*time.Second, changed+time.Second+slack); x.down == 0 || x.down > most {
			t.Errorf("the last success was at %v, the change at %v: down at %v, want %v", good, changed, x.down, most)
		}
	}
}
