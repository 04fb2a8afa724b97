// SPDX-License-Identifier: Apache-2.0

// Package smf is the N4 side of a session management function, for tests and demonstrations: it sets up an association with
// a UPF, has sessions established, and answers reports. It reads and writes messages with go-pfcp alone, so that it
// checks the server's.
package smf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// SMF is a PFCP entity with a socket.
type SMF struct {
	// Node is the node ID, Retransmit the time after which a request is sent again.
	Node       string
	Retransmit time.Duration
	upf        netip.AddrPort
	conn       *net.UDPConn
	local      netip.Addr
	requests   chan message.Message
	ended      chan struct{}

	mu        sync.Mutex // guards what follows
	recovery  time.Time
	sequence  uint32
	waiting   map[uint32]chan message.Message
	answering func(m message.Message) message.Message
}

// RefusedError is the error of a request that was answered with another cause than "request accepted".
type RefusedError struct {
	Cause uint8
	// Offending is the type of the offending IE, 0 if there is none. Rule and RuleType are the failed rule.
	Offending uint16
	HasRule   bool
	RuleType  uint8
	Rule      uint32
}

// Error returns the cause.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("cause %d, offending IE %d, failed rule %v %d of type %d", r.Cause, r.Offending, r.HasRule, r.Rule, r.RuleType)
}

// New opens a socket for an SMF. Requests of the UPF arrive there if the port is the one that it sends to.
func New(local, upf netip.AddrPort, node string) (*SMF, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, fmt.Errorf("SMF: %w", err)
	}
	s := &SMF{Node: node, Retransmit: time.Second, upf: upf, conn: conn, local: local.Addr(), requests: make(chan message.Message, 4096),
		ended: make(chan struct{}), recovery: time.Now().Truncate(time.Second), waiting: map[uint32]chan message.Message{}}
	s.answering = s.Accept
	go s.receive()
	return s, nil
}

// Close closes the socket.
func (s *SMF) Close() error {
	err := s.conn.Close()
	<-s.ended
	return err
}

// Requests are those that the UPF has sent, heartbeats excepted. Those that find the channel full are lost.
func (s *SMF) Requests() <-chan message.Message { return s.requests }

// Answer sets how requests of the UPF are answered: nil messages are not. Accept does that by default.
func (s *SMF) Answer(with func(m message.Message) message.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answering = with
}

// Restart gives the SMF a new recovery time stamp.
func (s *SMF) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovery = s.recovery.Add(time.Second)
}

func (s *SMF) recoveryTimeStamp() *ie.IE {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ie.NewRecoveryTimeStamp(s.recovery)
}

// NodeID is the IE of the SMF.
func (s *SMF) NodeID() *ie.IE { return ie.NewNodeIDHeuristic(s.Node) }

// FSEID is the CP F-SEID of a session.
func (s *SMF) FSEID(seid uint64) *ie.IE {
	if s.local.Is4() {
		return ie.NewFSEID(seid, s.local.AsSlice(), nil)
	}
	return ie.NewFSEID(seid, nil, s.local.AsSlice())
}

// Accept is the response that accepts a request of the UPF.
func (s *SMF) Accept(m message.Message) message.Message {
	accepted := ie.NewCause(ie.CauseRequestAccepted)
	switch m := m.(type) {
	case *message.HeartbeatRequest:
		return message.NewHeartbeatResponse(m.Sequence(), s.recoveryTimeStamp())
	case *message.AssociationSetupRequest:
		return message.NewAssociationSetupResponse(m.Sequence(), s.NodeID(), accepted, s.recoveryTimeStamp())
	case *message.AssociationUpdateRequest:
		return message.NewAssociationUpdateResponse(m.Sequence(), s.NodeID(), accepted)
	case *message.NodeReportRequest:
		return message.NewNodeReportResponse(m.Sequence(), s.NodeID(), accepted, nil)
	case *message.SessionReportRequest:
		return message.NewSessionReportResponse(0, 0, m.SEID(), m.Sequence(), 0, accepted)
	}
	return nil
}

func (s *SMF) receive() {
	defer close(s.ended)
	buffer := make([]byte, 65536)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		m, err := message.Parse(append([]byte(nil), buffer[:n]...))
		if err != nil {
			continue
		}
		s.mu.Lock()
		waiting, answering := s.waiting[m.Sequence()], s.answering
		s.mu.Unlock()
		if isResponse(m.MessageType()) {
			if waiting != nil {
				select {
				case waiting <- m:
				default:
				}
			}
			continue
		}
		if m.MessageType() != message.MsgTypeHeartbeatRequest {
			select {
			case s.requests <- m:
			default:
			}
		}
		if response := answering(m); response != nil {
			_ = s.write(response, from) // a lost response is requested again
		}
	}
}

// isResponse reports a type of responses: each follows its request, which has an odd type up to 9.
func isResponse(kind uint8) bool {
	if kind <= message.MsgTypeAssociationReleaseResponse {
		return kind%2 == 0
	}
	return kind%2 == 1
}

func (s *SMF) write(m message.Message, to netip.AddrPort) error {
	b := make([]byte, m.MarshalLen())
	if err := m.MarshalTo(b); err != nil {
		return fmt.Errorf("SMF: %s: %w", m.MessageTypeName(), err)
	}
	_, err := s.conn.WriteToUDPAddrPort(b, to)
	return err
}

// Exchange sends a request, and again until it is answered or the context ends. It sets the sequence number.
func (s *SMF) Exchange(ctx context.Context, m message.Message) (message.Message, error) {
	answer := make(chan message.Message, 1)
	s.mu.Lock()
	s.sequence++
	number := s.sequence
	s.waiting[number] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, number)
	}()
	m.SetSequenceNumber(number)
	for {
		if err := s.write(m, s.upf); err != nil {
			return nil, err
		}
		select {
		case is := <-answer:
			return is, refusal(is)
		case <-time.After(s.Retransmit):
		case <-ctx.Done():
			return nil, fmt.Errorf("SMF: %s: %w", m.MessageTypeName(), ctx.Err())
		}
	}
}

// refusal returns the error of a response that does not accept the request.
func refusal(m message.Message) error {
	var cause, offending, rule *ie.IE
	switch m := m.(type) {
	case *message.AssociationSetupResponse:
		cause = m.Cause
	case *message.AssociationUpdateResponse:
		cause = m.Cause
	case *message.AssociationReleaseResponse:
		cause = m.Cause
	case *message.PFDManagementResponse:
		cause = m.Cause
	case *message.SessionSetDeletionResponse:
		cause = m.Cause
	case *message.SessionEstablishmentResponse:
		cause, offending, rule = m.Cause, m.OffendingIE, m.FailedRuleID
	case *message.SessionModificationResponse:
		cause, offending, rule = m.Cause, m.OffendingIE, m.FailedRuleID
	case *message.SessionDeletionResponse:
		cause, offending = m.Cause, m.OffendingIE
	default:
		return nil
	}
	if cause == nil {
		return &RefusedError{}
	}
	is := &RefusedError{}
	var err error
	if is.Cause, err = cause.Cause(); err == nil && is.Cause == ie.CauseRequestAccepted {
		return nil
	}
	if offending != nil {
		is.Offending, _ = offending.OffendingIE()
	}
	if rule != nil {
		is.HasRule = true
		is.RuleType, _ = rule.RuleIDType()
		is.Rule, _ = rule.FailedRuleID()
	}
	return is
}
