// SPDX-License-Identifier: Apache-2.0

// Executes a sequence of operations on a separate machine, with frames between all hosts after each one.

package e2e

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/e2e/model"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// sequence is operations that are done one after the other.
type sequence struct {
	ops  []model.Op
	args []string // options of the daemon
	// hasty leaves out all frames but those after the last operation.
	hasty bool
	// done is the number of successful operations.
	done int
}

// try executes the sequence as a trial.
func (q *sequence) try(t testing.TB) error {
	_, err := try(t, q.run)
	return err
}

// run executes the sequence. Operations that depend on a missing one are skipped.
func (q *sequence) run(t testing.TB) {
	s := newSite(t, q.args...)
	var before inventory
	if !q.hasty {
		before = s.d.settled()
	}
	for i, o := range q.ops {
		q.done = i
		if s.world.Sensible(o) {
			s.do(o)
		} else if i < len(q.ops)-1 {
			continue
		}
		if !q.hasty || i == len(q.ops)-1 {
			s.configured()
			s.forgotten(o)
			s.probe()
		} else if o.OnNetdev() || o.OnDaemon() {
			s.configured() // the daemon notices in its own time
		}
		if t.Failed() {
			t.Fatalf("after operation %d, %s", s.step, o)
		}
	}
	q.done = len(q.ops)
	if !q.hasty {
		s.clear(before)
	}
}

// shrink shortens a failing sequence, and returns it as commands.
func (q *sequence) shrink(t testing.TB, until time.Time) string {
	cut := q.ops[:min(q.done+1, len(q.ops))]
	for _, c := range []sequence{
		{ops: granted(cut), args: q.args, hasty: true}, {ops: cut, args: q.args, hasty: true},
		{ops: granted(cut), args: q.args}, {ops: cut, args: q.args}, {ops: q.ops, args: q.args},
	} {
		why := c.try(t)
		if why == nil {
			continue
		}
		short := repeat.Shrink(c.ops, until, func(some []model.Op) bool {
			err := (&sequence{ops: some, args: c.args, hasty: c.hasty}).try(t)
			if err != nil {
				why = err
			}
			return err != nil
		})
		return fmt.Sprintf("%d of %d operations are enough (daemon options %v, frames after each: %t):\n%s\n\nthey end with: %v",
			len(short), len(q.ops), q.args, !c.hasty, commands(short), why)
	}
	return fmt.Sprintf("it did not happen again; the operations until then (daemon options %v):\n%s", q.args, commands(cut))
}

func commands(ops []model.Op) string {
	var lines []string
	for _, o := range ops {
		lines = append(lines, o.String())
	}
	return strings.Join(lines, "\n")
}

// granted leaves out the operations of a sequence that are refused.
func granted(ops []model.Op) []model.Op {
	w := newWorld()
	return slices.DeleteFunc(slices.Clone(ops), func(o model.Op) bool { return !w.Sensible(o) || w.Apply(o) != nil })
}

// clear removes everything: nothing is left behind.
func (s *site) clear(before inventory) {
	s.t.Helper()
	if s.world.Down {
		s.do(model.Op{Verb: model.Start})
		s.configured()
	}
	for _, name := range s.world.Names() {
		s.do(model.Op{Verb: model.DelCube, Cube: name})
	}
	for _, name := range s.world.Devices() {
		if !s.world.Netdevs[name].Present {
			s.do(model.Op{Verb: model.AddNetdev, To: name})
		}
	}
	s.configured()
	before.RSS = 0
	netns.Eventually(s.t, patience, func() error {
		now := s.d.Inventory()
		now.RSS = 0
		// Each of the services' objects, one for a hook, is in a map from its first use on.
		objects := now.Maps - before.Maps
		if now.Maps, now.Files = now.Maps-objects, now.Files-objects; now != before || objects < 0 || objects > 4*2 {
			now.Maps, now.Files = now.Maps+objects, now.Files+objects
			return fmt.Errorf("the daemon holds %v, and %v before the operations", now, before)
		}
		return nil
	})
	s.d.Stop()
	if r := s.Polycubed("cleanup"); r.code != 0 {
		s.t.Error(r)
	}
	s.nothingLeft()
}

// probe sends frames between all hosts, and compares the result with the model.
func (s *site) probe() {
	s.t.Helper()
	if s.away != nil && !s.world.Down {
		s.quiet()
	}
	// Broadcasts first: the addresses that bridges learn from them do not depend on the order in which CPUs process
	// the frames.
	s.round(0, func(string, *plug) []string { return []string{model.Broadcast} })
	s.round(1, func(from string, _ *plug) []string {
		var to []string
		for name, p := range s.hosts {
			if name != from {
				to = append(to, p.mac.String())
			}
		}
		return to
	})
	if s.step%8 == 0 {
		if err := s.learnedAsModelled(); err != nil {
			s.t.Error(err)
		}
	}
}

// round sends frames from each host to given addresses, and waits until each has ended as the model says.
func (s *site) round(number byte, targets func(string, *plug) []string) {
	s.t.Helper()
	x := &expected{site: s, outcome: model.NewOutcome(), frames: map[string]map[string]int{}}
	if s.world.Down {
		if s.away == nil {
			s.away = x.outcome
		}
		x.outcome = s.away
	}
	for _, name := range s.world.Devices() {
		p, n := s.hosts[name], s.world.Netdevs[name]
		if !n.Present || !n.Up || n.Touched {
			continue
		}
		for i, dst := range targets(name, p) {
			x.fromHost(p, dst, number, byte(i))
		}
		if len(n.Chain) > 0 && number == 0 {
			x.fromStack(p)
		}
	}
	x.settle()
}

// probeFrame is a frame that no other is equal to.
func (s *site) probeFrame(dst, src string, marks ...byte) []byte {
	body := binary.BigEndian.AppendUint32([]byte("pcn-prop"), s.step)
	body = append(body, marks...)
	body = append(body, noise(40+int(s.step)*37%1300)...)
	return pkt.EthernetFrame(unhex(strings.ReplaceAll(dst, ":", "")), unhex(strings.ReplaceAll(src, ":", "")), streamType, body)
}
