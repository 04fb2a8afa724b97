// SPDX-License-Identifier: Apache-2.0

package n4

// The sessions of an SMF that releases its association, sets up a new one, or has restarted, are removed in batches. Between
// these, other messages have their turn: 100,000 sessions take seconds.

import (
	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/rules"
)

// leaving are the sessions of an SMF that are removed. Requests for them find none.
type leaving struct {
	node, why string
	numbers   []uint64
	removed   int
	// blocks: the SMF can establish no others meanwhile, as these could need the addresses of the former.
	blocks bool
	// then is called when all are gone.
	then []func()
}

// maxThen is the number of requests of an SMF that wait for that.
const maxThen = 16

// blocked reports whether an SMF can establish no sessions.
func (s *keeper) blocked(node string) bool {
	l := s.leaving[node]
	return l != nil && l.blocks
}

// leave removes the sessions of an SMF that are not retained (nil: none is), and then calls a function, when those that are being
// removed already are gone, too. Nobody can be sent their last usage reports.
func (s *keeper) leave(node, why string, retained func(*session) bool, then func()) error {
	l := s.leaving[node]
	if l != nil && len(l.then) >= maxThen {
		return &rules.RefusalError{Cause: ie.CauseNoResourcesAvailable, Why: "sessions are being removed"}
	}
	s.commit()
	begins := l == nil
	if begins {
		l = &leaving{node: node}
		s.leaving[node] = l
	}
	l.why = why
	l.then = append(l.then, then)
	for _, number := range s.sessions.ofNode(node) {
		is := s.sessions.byNumber[number]
		if is.leaving || retained != nil && retained(is) {
			continue
		}
		l.numbers = append(l.numbers, number)
		is.leaving = true
		delete(s.sessions.bySEID, is.SEID)
	}
	if begins {
		s.removeSome(l)
	}
	return nil
}

// leaveAll is leave for an association that ends: until then, the SMF can establish no sessions.
func (s *keeper) leaveAll(node, why string, retained func(*session) bool, then func()) error {
	err := s.leave(node, why, retained, then)
	if l := s.leaving[node]; err == nil && l != nil {
		l.blocks = true
	}
	return err
}

// removeSome removes a batch, and has the next one follow.
func (s *keeper) removeSome(l *leaving) {
	n := min(len(l.numbers), maxBatch)
	for _, number := range l.numbers[:n] {
		if is := s.session(number); is != nil {
			s.removeOwn(is)
			l.removed++
		}
	}
	l.numbers = l.numbers[n:]
	s.commit()
	if len(l.numbers) > 0 {
		s.after(0, func() { s.removeSome(l) })
		return
	}
	delete(s.leaving, l.node)
	if l.removed > 0 {
		s.log.Warn("N4 sessions removed", "node", l.node, "because of", l.why, "sessions", l.removed, "unreported", "the usage since the last reports")
	}
	for _, then := range l.then {
		then()
	}
}

// left reports whether a session was to be removed when the program ended: its association was released, or its SMF has restarted.
func (s *keeper) left(is *session) bool {
	p := s.peers[is.Node]
	return p == nil || is.Number < p.Before
}
