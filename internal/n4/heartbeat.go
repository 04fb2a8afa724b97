// SPDX-License-Identifier: Apache-2.0

package n4

// Heartbeats (TS 29.244 6.2.2), and what recovery time stamps say.

import (
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// heartbeatRequest answers an SMF, also one without an association.
func (s *associations) heartbeatRequest(m *incoming) {
	recovery, err := readRecovery(m.ies)
	if err != nil {
		s.counters.malformed++
		return
	}
	for _, p := range s.peers {
		if p.Addr == m.from.Addr() {
			s.alive(p, recovery)
		}
	}
	s.counters.requests[result{messageName(m.kind), ie.CauseRequestAccepted}]++
	s.send(m.from, marshal(message.MsgTypeHeartbeatResponse, false, 0, m.sequence, encode([]*ie.IE{ie.NewRecoveryTimeStamp(s.recovery)})), false)
}

// beat sends a heartbeat, and another one after its answer, as long as the association lasts.
func (s *associations) beat(p *peer) {
	if s.peers[p.Node] != p {
		return
	}
	ies := encode([]*ie.IE{ie.NewRecoveryTimeStamp(s.recovery)})
	s.ask(p.requests(), message.MsgTypeHeartbeatRequest, false, 0, ies, func(m *incoming, err error) {
		if s.peers[p.Node] != p {
			return
		}
		s.after(s.config.Heartbeat, func() { s.beat(p) })
		if err != nil {
			if !p.down {
				p.down = true
				s.log.Warn("N4 association down", "node", p.Node, "peer", p.Addr, "error", err)
			}
			return
		}
		if recovery, err := readRecovery(m.ies); err == nil {
			s.alive(p, recovery)
		}
	})
}

// alive follows a sign of life. An older recovery time stamp is that of a delayed message (TS 23.007 18).
func (s *associations) alive(p *peer, recovery uint32) {
	p.answered = time.Now()
	if int32(recovery-p.Recovery) > 0 && !s.blocked(p.Node) { // the time stamp begins again at 0 in 2036
		p.Recovery, p.Before = recovery, s.last+1
		s.keep(p)
		_ = s.leaveAll(p.Node, "a restart of the SMF", nil, func() {}) // nothing waits for it yet
	}
	if p.down {
		p.down = false
		s.log.Info("N4 association up", "node", p.Node, "peer", p.Addr)
		for _, number := range s.sessions.ofNode(p.Node) {
			is := s.session(number)
			s.flushReports(is)
			s.reportLate(is)
		}
	}
}
