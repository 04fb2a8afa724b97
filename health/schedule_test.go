// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// simulation runs a scheduler with a clock and servers of its own.
type simulation struct {
	t       *testing.T
	sched   scheduler
	time    time.Duration
	count   counters
	starts  map[string][]time.Duration
	changes []string
	// answers says how a check ends: at once, or by its deadline.
	answers func(s *server, now time.Duration) (out outcome, at bool)
}

func simulate(t *testing.T, answers func(s *server, now time.Duration) (out outcome, at bool)) *simulation {
	x := &simulation{t: t, starts: map[string][]time.Duration{}, answers: answers}
	x.sched = scheduler{wheel: newWheel(), random: rand.New(rand.NewPCG(1, 2)), prober: x, publish: x.publish,
		clock: func() time.Duration { return x.time }, count: &x.count}
	return x
}

func (x *simulation) start(s *server) {
	x.starts[s.entry.id] = append(x.starts[s.entry.id], x.time)
	if out, now := x.answers(s, x.time); now {
		x.sched.finish(s, out)
		return
	}
	s.phase = exchanging
}

func (x *simulation) expire(*server) string { return "no answer" }
func (x *simulation) release(*server)       {}

func (x *simulation) publish(s *server, out outcome, changed bool, now time.Duration) {
	if changed {
		x.changes = append(x.changes, fmt.Sprintf("%s %v %v %s", s.entry.id, now, s.judge.status, out.why))
	}
}

func (x *simulation) add(id string, c Check) *server {
	c.Target = netip.MustParseAddrPort("10.0.0.2:80")
	p, err := c.prepare()
	if err != nil {
		x.t.Fatal(err)
	}
	s := &server{entry: &entry{id: id, owner: &Checker{}, state: State{Status: c.Initial}}, check: p}
	x.sched.add(s)
	return s
}

// run advances the clock, as the thread does: to the next timer.
func (x *simulation) run(to time.Duration) {
	for {
		at, ok := x.sched.wheel.next()
		if !ok || at > to {
			break
		}
		x.time = max(x.time, at)
		x.sched.advance()
	}
	x.time = to
}

func up(*server, time.Duration) (outcome, bool) { return success, true }

func TestFirstChecksStartAtOnceAndLaterOnesAreSpread(t *testing.T) {
	const servers, interval = 1000, 10 * time.Second
	x := simulate(t, up)
	for i := range servers {
		x.add(fmt.Sprint(i), Check{Interval: interval})
	}
	x.run(100 * interval)
	perTenth := map[time.Duration]int{}
	for id, starts := range x.starts {
		if starts[0] > servers*firstGap+tick {
			t.Errorf("%s: first check after %v", id, starts[0])
		}
		if starts[1]-starts[0] > interval+tick {
			t.Errorf("%s: second check %v after the first", id, starts[1]-starts[0])
		}
		for i := 2; i < len(starts); i++ {
			if gap := starts[i] - starts[i-1]; gap < interval-tick || gap > interval+tick {
				t.Fatalf("%s: check %d is %v after the one before", id, i, gap)
			}
		}
		if n := len(starts); n < 100 || n > 101 {
			t.Errorf("%s: %d checks", id, n)
		}
		perTenth[starts[50]%interval*10/interval]++
	}
	for tenth := range time.Duration(10) {
		if n := perTenth[tenth]; n < servers/10/2 || n > servers/10*2 {
			t.Errorf("%d of %d checks start in tenth %d of the interval", n, servers, tenth)
		}
	}
}

func TestJitterOnlyShortensIntervals(t *testing.T) {
	x := simulate(t, up)
	x.add("s", Check{Interval: 10 * time.Second, Jitter: 20})
	x.run(time.Hour)
	var low, high time.Duration = time.Hour, 0
	starts := x.starts["s"]
	for i := 2; i < len(starts); i++ {
		low, high = min(low, starts[i]-starts[i-1]), max(high, starts[i]-starts[i-1])
	}
	if low < 8*time.Second-tick || low > 8500*time.Millisecond || high > 10*time.Second+tick || high < 9500*time.Millisecond {
		t.Errorf("intervals from %v to %v, want 8 s to 10 s", low, high)
	}
}

// TestAServerThatReturnsIsUpInTime: whenever it returns, it is up within interval x rise.
func TestAServerThatReturnsIsUpInTime(t *testing.T) {
	for seed := range 50 {
		fails := 20*time.Second + time.Duration(seed)*173*time.Millisecond
		c := Check{Interval: 3 * time.Second, Timeout: time.Second, Rise: 2, Fall: 3, Jitter: seed % 30}
		comes := fails + time.Minute
		x := simulate(t, func(_ *server, now time.Duration) (outcome, bool) { return success, now < fails || now >= comes })
		x.add("s", c)
		x.run(3 * time.Minute)
		if len(x.changes) != 3 {
			t.Fatalf("%q, want up, down, up", x.changes)
		}
		var id, when string
		if _, err := fmt.Sscan(x.changes[2], &id, &when); err != nil {
			t.Fatal(err)
		}
		again, _ := time.ParseDuration(when)
		if limit := comes + 2*c.Interval + 3*tick; again < comes || again > limit {
			t.Errorf("it comes back at %v and is up at %v, want until %v", comes, again, limit)
		}
		if n := x.count.timeouts.Load(); n < 15 {
			t.Errorf("%d checks ended by their deadline", n)
		}
	}
}

func TestTheFirstResultCountsAtOnce(t *testing.T) {
	for _, initial := range []Status{Unknown, Up, Down} {
		for _, ok := range []bool{false, true} {
			x := simulate(t, func(*server, time.Duration) (outcome, bool) { return outcome{ok: ok}, true })
			s := x.add("s", Check{Initial: initial, Rise: 5, Fall: 5, Interval: 10 * time.Second})
			x.run(time.Second)
			want := Down
			if ok {
				want = Up
			}
			if n := len(x.starts["s"]); s.judge.status != want || n > 2 {
				t.Errorf("initially %v, result %v: %v after %d checks", initial, ok, s.judge.status, n)
			}
			if changed := len(x.changes) == 1; changed != (want != initial) {
				t.Errorf("initially %v, result %v: %q", initial, ok, x.changes)
			}
		}
	}
}

// TestCountingContinuesFromAKnownStatus: a failure right after a restart does not make a server down that was up.
func TestCountingContinuesFromAKnownStatus(t *testing.T) {
	for _, known := range []Status{Up, Down} {
		x := simulate(t, func(*server, time.Duration) (outcome, bool) { return outcome{ok: known == Down}, true })
		s := x.add("s", Check{Initial: known, Known: true, Rise: 5, Fall: 5, Interval: 10 * time.Second})
		for len(x.starts["s"]) < 4 {
			x.run(x.time + time.Second)
		}
		if s.judge.status != known {
			t.Errorf("known to be %v: %v after %d other results", known, s.judge.status, len(x.starts["s"]))
		}
		x.run(x.time + 10*time.Second)
		if s.judge.status == known || len(x.changes) != 1 {
			t.Errorf("known to be %v: %v after %d other results, %q", known, s.judge.status, len(x.starts["s"]), x.changes)
		}
	}
}

func TestChecksThatCannotBeMadeDoNotCount(t *testing.T) {
	x := simulate(t, func(_ *server, now time.Duration) (outcome, bool) {
		if now < time.Minute {
			return success, true
		}
		return skipped("too many open files"), true
	})
	s := x.add("s", Check{Fall: 1})
	x.run(time.Hour)
	if s.judge.status != Up || len(x.changes) != 1 || x.count.skipped.Load() < 100 {
		t.Errorf("%v, %q, %d skipped", s.judge.status, x.changes, x.count.skipped.Load())
	}
}

func TestWhatAChangedCheckKeeps(t *testing.T) {
	fails := false
	x := simulate(t, func(*server, time.Duration) (outcome, bool) { return outcome{ok: !fails}, true })
	s := x.add("s", Check{Kind: HTTP, Interval: 10 * time.Second, Fall: 3})
	x.run(time.Minute)
	fails = true
	x.run(time.Minute + 20*time.Second) // two failures
	changeTo := func(c Check) {
		c.Target = s.check.Target
		p, err := c.prepare()
		if err != nil {
			t.Fatal(err)
		}
		x.sched.change(s, p)
	}
	before := len(x.starts["s"])
	changeTo(Check{Kind: HTTP, Interval: time.Second, Fall: 5})
	x.run(x.time + 1500*time.Millisecond)
	if n := len(x.starts["s"]) - before; n < 1 || n > 2 || s.judge.status != Up {
		t.Errorf("%d checks within the new interval, %v", n, s.judge.status)
	}
	x.run(x.time + 2*time.Second)
	if s.judge.status != Down {
		t.Errorf("failures before a change of times do not count: %+v", s.judge)
	}
	fails = false
	changeTo(Check{Kind: HTTP, Interval: time.Hour, Path: "/other"})
	x.run(x.time + time.Second)
	if s.judge.status != Up {
		t.Errorf("the first result with another path does not count at once: %+v", s.judge)
	}
}

// TestTimeThatIsLost: after a long pause, checks are made once, not as often as they were missed.
func TestTimeThatIsLost(t *testing.T) {
	x := simulate(t, up)
	for i := range 100 {
		x.add(fmt.Sprint(i), Check{Interval: time.Second})
	}
	x.run(10 * time.Second)
	n := len(x.starts["7"])
	x.time += time.Hour
	x.sched.advance()
	x.run(x.time + 500*time.Millisecond)
	if more := len(x.starts["7"]) - n; more < 1 || more > 3 || x.count.late.Load() < 100 {
		t.Errorf("%d checks after an hour, %d late", more, x.count.late.Load())
	}
}

// TestTheWheelFiresEachTimerOnceAndInTime compares it with a list, for random operations.
func TestTheWheelFiresEachTimerOnceAndInTime(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	w, now := newWheel(), time.Duration(0)
	timers := make([]*server, 50)
	want := map[*server]time.Duration{}
	for i := range timers {
		timers[i] = &server{}
		timers[i].timer.owner = timers[i]
	}
	for range 20_000 {
		s := timers[random.IntN(len(timers))]
		switch random.IntN(4) {
		case 0:
			w.stop(&s.timer)
			delete(want, s)
		case 1, 2:
			at := now + time.Duration(random.Int64N(int64(30*time.Second)))
			w.set(&s.timer, at)
			want[s] = at
		default:
			next, ok := w.next()
			if !ok && len(want) > 0 {
				t.Fatalf("no next timer of %d", len(want))
			}
			if step := time.Duration(random.Int64N(int64(2 * time.Second))); ok && random.IntN(2) == 0 {
				now = max(now, next)
			} else {
				now += step
			}
			var fired []*server
			w.advance(now, func(s *server) { fired = append(fired, s) })
			for s, at := range want {
				if due := (at + tick - 1).Truncate(tick); due+tick <= now && !slices.Contains(fired, s) {
					t.Fatalf("a timer of %v has not fired at %v", at, now)
				}
			}
			for _, s := range fired {
				if at, ok := want[s]; !ok || at > now {
					t.Fatalf("a timer of %v fired at %v (set: %v)", at, now, ok)
				}
				delete(want, s)
			}
		}
	}
}

func TestErrorsControlNoTerminal(t *testing.T) {
	if got := failure("gRPC status: \x1b[2J\u009b\xff\nnaïve").why; got != "gRPC status: ?[2J?\ufffd?naïve" {
		t.Errorf("%q", got)
	}
}
