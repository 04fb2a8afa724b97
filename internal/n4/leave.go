// SPDX-License-Identifier: Apache-2.0

package n4

// The sessions of an SMF that releases its association, sets up a new one, or has restarted, are removed in batches. Between
// these, other messages have their turn: 100,000 sessions take seconds.

import (
	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/rules"
)

// leaving are the sessions of an SMF that are removed. Meanwhile, its requests of them find none, and it can establish no others:
// these could need the addresses of the former.
type leaving struct {
	node, why string
	numbers   []uint64
	removed   int
	// then is called when all are gone.
	then []func()
}

// maxThen is the number of requests of an SMF that wait for that.
const maxThen = 16

// leave removes the sessions of an SMF that are not retained (nil: none is), and then calls a function. If sessions are being removed
// already, that is only called at their end. Nobody can be sent their last usage reports.
func (s *keeper) leave(node, why string, retained func(*session) bool, then func()) error {
	if l := s.leaving[node]; l != nil {
		if len(l.then) >= maxThen {
			return &rules.RefusalError{Cause: ie.CauseNoResourcesAvailable, Why: "sessions are being removed"}
		}
		l.then = append(l.then, then)
		return nil
	}
	s.commit()
	l := &leaving{node: node, why: why, then: []func(){then}}
	for _, number := range s.sessions.ofNode(node) {
		is := s.sessions.byNumber[number]
		if retained != nil && retained(is) {
			continue
		}
		l.numbers = append(l.numbers, number)
		is.leaving = true
		delete(s.sessions.bySEID, is.SEID)
	}
	s.leaving[node] = l
	s.removeSome(l)
	return nil
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
