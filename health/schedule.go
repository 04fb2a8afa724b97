// SPDX-License-Identifier: Apache-2.0

package health

// When checks start, and what their results mean. Time is an argument, and a prober makes the checks, so that a test
// simulates an hour in a moment.

import (
	"math/rand/v2"
	"strings"
	"time"
	"unicode"
)

const (
	// firstGap is the time between the first checks of servers that are set together.
	firstGap = 200 * time.Microsecond
	// late is how much later than due a check may start before it is counted in Stats.Late.
	late = 100 * time.Millisecond
)

// phase is how far the check of a server is.
type phase uint8

const (
	// idle: no check is in progress; the timer is that of the next one.
	idle phase = iota
	// connecting, exchanging: the timer is that of the deadline.
	connecting
	exchanging
	// working: a goroutine makes the check and keeps to the deadline itself; the timer is stopped.
	working
)

// outcome is the result of a check. A check that could not be made counts neither as a success nor as a failure.
type outcome struct {
	ok, skipped bool
	late        bool   // a failure because the deadline has passed
	why         string // empty if ok
}

var success = outcome{ok: true}

func failure(why string) outcome  { return outcome{why: visible(why)} }
func timedOut(why string) outcome { return outcome{late: true, why: why} }
func skipped(why string) outcome  { return outcome{skipped: true, why: visible(why)} }

// visible replaces characters that a server may have chosen to control a terminal.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// prober makes checks.
type prober interface {
	// start starts a check. It sets the phase, or calls scheduler.finish.
	start(s *server)
	// expire ends a check whose deadline has passed, and returns why it fails.
	expire(s *server) string
	// release frees what a server holds: it is removed, or will be checked otherwise.
	release(s *server)
}

// server is a server that is checked. The thread of the Checker owns it.
type server struct {
	entry *entry
	check *prepared
	timer timer
	judge judge
	phase phase
	due   time.Duration // of the next check, or of the one in progress
	began time.Duration // the check in progress
	// timeout is that of the check in progress.
	timeout time.Duration
	// good is the moment that the deadline of a failing server is counted from: see deadline.go.
	good time.Duration
	// spread says that the second check, which follows after a random part of the interval, is still to come.
	spread bool

	conn    conn
	echo    echo
	session *session // of HTTPS and GRPC, while no goroutine uses it
	// serial changes when the result of a goroutine is not wanted any more.
	serial uint64
	// retried says that this check has already replaced a kept connection.
	retried bool
}

// deadline is when the check in progress has failed.
func (s *server) deadline() time.Duration { return s.began + s.timeout }

// scheduler owns the timers of all servers.
type scheduler struct {
	wheel   *wheel
	random  *rand.Rand
	prober  prober
	publish func(s *server, out outcome, changed bool, now time.Duration)
	clock   func() time.Duration
	count   *counters
	// first is when the next first check may start.
	first time.Duration
}

// add starts to check a server. Entries of the kind API have no server.
func (c *scheduler) add(s *server) {
	s.timer.owner = s
	s.judge = judge{status: s.entry.status(), decided: s.check.Known}
	c.soon(s)
}

// soon schedules the first check of a server, or the first one of another kind.
func (c *scheduler) soon(s *server) {
	c.first = max(c.first+firstGap, c.clock())
	s.due, s.good, s.spread = c.first, c.first, true
	c.wheel.set(&s.timer, s.due)
}

// change replaces the check of a server. If only times and counts differ, the check in progress continues with its
// deadline, and the next one is due as the new times say. Otherwise the first result of the new check counts at once.
func (c *scheduler) change(s *server, to *prepared) {
	if !s.check.sameProbe(to) {
		c.stop(s)
		s.check = to
		s.judge = judge{status: s.judge.status}
		c.soon(s)
		return
	}
	s.check = to
	if s.phase == idle {
		now := c.clock()
		s.due = min(s.due, now+to.Interval)
		if s.falling() == 1 {
			s.due = max(min(s.due, s.lastStart()), now)
		}
		c.wheel.set(&s.timer, s.due)
	}
}

// stop ends the check in progress without a result, and frees what the server holds.
func (c *scheduler) stop(s *server) {
	c.wheel.stop(&s.timer)
	s.serial++
	c.prober.release(s)
	s.phase = idle
}

// advance starts the checks that are due, and fails those whose deadline has passed.
func (c *scheduler) advance() { c.wheel.advance(c.clock(), c.fire) }

func (c *scheduler) fire(s *server) {
	if s.phase != idle {
		c.finish(s, timedOut(c.prober.expire(s)))
		return
	}
	now := c.clock()
	if now-s.due > late {
		c.count.late.Add(1)
	}
	s.allowForDelay(now)
	s.began, s.retried, s.timeout = now, false, s.patience()
	c.prober.start(s)
	if s.phase == connecting || s.phase == exchanging {
		c.wheel.set(&s.timer, s.deadline())
	}
}

// next sets when the check after one that has ended is due. The last one that may fail starts early enough to end within
// Fall intervals. One that could not be made is not made up for, or it would be tried all the time.
func (c *scheduler) next(s *server, skipped bool, now time.Duration) {
	gap := s.check.Interval
	if s.judge.streak > 0 && s.began-s.due > slack {
		s.due = s.began // it was late, and the server is to have its time
	}
	if s.falling() == 1 && !skipped {
		gap = min(gap, max(s.lastStart()-s.due, 0))
	}
	switch most := int64(gap) * int64(s.check.Jitter) / 100; {
	case s.spread && gap > 0:
		s.due = s.began + time.Duration(c.random.Int64N(int64(gap)))
	case most > 0:
		s.due += gap - time.Duration(c.random.Int64N(most))
	default:
		s.due += gap
	}
	s.spread = false
	s.due = max(s.due, now) // those that were missed are not made up for
}

// finish takes the result of the check in progress.
func (c *scheduler) finish(s *server, out outcome) {
	now := c.clock()
	s.phase = idle
	changed := false
	switch {
	case out.skipped:
		c.count.skipped.Add(1)
		s.good += s.check.Interval
	default:
		c.count.checks.Add(1)
		if !out.ok {
			c.count.failed.Add(1)
		}
		if out.late {
			c.count.timeouts.Add(1)
		}
		changed = s.judge.result(out.ok, s.check.Rise, s.check.Fall)
	}
	if out.ok {
		s.good = s.began
	}
	c.publish(s, out, changed, now)
	c.next(s, out.skipped, now)
	c.wheel.set(&s.timer, s.due)
}
