// SPDX-License-Identifier: Apache-2.0

package policer

// What connections of TCP get of a rate, on a clock of the test: a model of senders with CUBIC, against the program. It does not depend on
// what else the machine does, as tests with real connections do (tcp_test.go).

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/polycube/polycube/bucket"
)

// sender is a connection of TCP with CUBIC (RFC 9438) and ECN, in segments of a frame of 1,514 bytes. It always has something to send, and
// its packets are on the way for the same time.
type sender struct {
	window, threshold float64
	// highest is the window at the last congestion, from which it grows for the time flat until it is there again; reno is what TCP
	// Reno would have (section 4.3).
	highest, flat, reno float64
	since               float64
	sent                int
	// slowing is the packet up to which acknowledgements belong to the same congestion, or 0; credit is what may be sent for them.
	slowing int
	credit  float64
	// free is when its line is free; acks are of packets on the way.
	free float64
	acks []ack
}

// ack tells a sender what happened to a packet.
type ack struct {
	at           float64 // seconds
	packet       int
	lost, marked bool
}

// congestion reduces the window to 0.7 of it.
func (s *sender) congestion() {
	s.highest = s.window
	if s.window < s.threshold/0.7*0.999 { // fast convergence
		s.highest *= 0.85
	}
	s.threshold = max(2, 0.7*s.window)
	s.slowing, s.credit, s.since = s.sent, 0, 0
}

// grow does what an acknowledgement at a time does to the window.
func (s *sender) grow(at, trip float64) {
	if s.window < s.threshold {
		s.window++
		return
	}
	if s.since == 0 {
		s.since, s.reno, s.flat = at, s.window, math.Cbrt(max(0, s.highest-s.window)/0.4)
		s.highest = max(s.highest, s.window)
	}
	s.reno += 0.53 / s.window
	target := max(s.reno, s.highest+0.4*math.Pow(at-s.since+trip-s.flat, 3))
	s.window += min(0.5, max(0.01, target-s.window)/s.window)
}

// acknowledged returns how many packets the sender sends after an acknowledgement.
func (s *sender) acknowledged(a ack, trip float64) (n int) {
	if s.slowing != 0 && a.packet >= s.slowing {
		s.slowing, s.window = 0, s.threshold
	}
	if (a.lost || a.marked) && s.slowing == 0 {
		s.congestion()
	}
	if s.slowing != 0 { // proportional rate reduction (RFC 6937)
		s.credit += s.threshold / s.window
		if len(s.acks) == 0 {
			s.credit = max(1, s.credit)
		}
		n, s.credit = int(s.credit), s.credit-math.Floor(s.credit)
		return n
	}
	if !a.lost {
		s.grow(a.at, trip)
	}
	return int(s.window) - len(s.acks)
}

// line is what senders send over, in seconds and bytes.
type line struct {
	*bench
	rate, trip    float64
	passed, drops int
}

// send has a sender send packets from a time on: its own line is four times as fast as the limit.
func (l *line) send(s *sender, at float64, n int) {
	const size = 1514
	for range n {
		at = max(at, s.free)
		s.free = at + size/(4*l.rate)
		l.packets[0] = packet{Now: uint64((at + 1000) * 1e9), Bytes: size}
		l.run("limit_steps", 1)
		is := l.packets[0]
		l.passed += int(is.Passed)
		l.drops += 1 - int(is.Passed)
		s.acks = append(s.acks, ack{at + l.trip, s.sent, is.Passed == 0, is.Marked != 0})
		s.sent++
	}
}

// share runs senders for some seconds after the first 20, and returns what they get of the rate, and the packets that were dropped.
func (l *line) share(senders []sender, seconds float64) (of, drops float64) {
	for i := range senders {
		senders[i] = sender{window: 10, threshold: math.Inf(1)}
		l.send(&senders[i], 0.001*float64(i), 10)
	}
	before := 20.0
	for measured := false; ; {
		next := &senders[0]
		for i := range senders {
			if senders[i].acks[0].at < next.acks[0].at {
				next = &senders[i]
			}
		}
		a := next.acks[0]
		if !measured && a.at > before {
			measured, l.passed, l.drops = true, 0, 0
		}
		if a.at > before+seconds {
			return float64(l.passed) * 1514 / l.rate / seconds, float64(l.drops) / float64(l.passed+l.drops)
		}
		next.acks = next.acks[1:]
		l.send(next, a.at, next.acknowledged(a, l.trip))
	}
}

// TestMarksKeepCUBICAtItsRate: connections with ECN get more of a rate with MARK than with LIMIT, for a burst of a tenth of what the rate
// carries in a second, and hardly a packet is dropped.
func TestMarksKeepCUBICAtItsRate(t *testing.T) {
	for _, c := range []struct {
		megabits, delay float64 // ms
		senders         int
		least, dropped  float64
	}{
		{10, 40, 1, 0.98, 0}, {20, 40, 1, 0.98, 0}, {50, 40, 1, 0.95, 0}, {100, 40, 1, 0.93, 0}, {20, 80, 1, 0.91, 0}, {20, 10, 1, 0.99, 0},
		{20, 40, 4, 0.98, 0.01}, {50, 40, 16, 0.99, 0.02},
	} {
		t.Run(fmt.Sprintf("%v Mbit/s, %v ms, %d connections", c.megabits, c.delay, c.senders), func(t *testing.T) {
			b := newBench(t, limitTC)
			rate := c.megabits * 1e6 / 8
			limit, err := bucket.New(uint64(rate), time.Second, uint32(rate/10))
			if err != nil {
				t.Fatal(err)
			}
			get := func(belowPercent uint64) (of, drops float64) {
				b.begin(setup{Limit: limit, Algorithm: CompareAndSwap, Steps: 1, Near: limit.Size / 100 * belowPercent}, state{})
				l := line{bench: b, rate: rate, trip: c.delay / 1000}
				return l.share(make([]sender, c.senders), 40)
			}
			without, lost := get(0)
			with, drops := get(25)
			t.Logf("LIMIT: %.3f of the rate, %.2f %% dropped; MARK: %.3f, %.2f %% dropped", without, lost*100, with, drops*100)
			if with < c.least || with < without-0.01 || drops > c.dropped || drops >= lost {
				t.Errorf("with MARK connections get %.3f of the rate, and %.4f of the packets are dropped, want at least %.2f and at most %.3f, and less drops than with LIMIT", with, drops, c.least, c.dropped)
			}
		})
	}
}
