// SPDX-License-Identifier: Apache-2.0

package n4

// Messages: what is received, and to which function it goes. Every byte may be hostile.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/n4/tlv"
)

// incoming is a message that was received.
type incoming struct {
	from     netip.AddrPort
	kind     uint8
	hasSEID  bool
	seid     uint64
	sequence uint32
	ies      tlv.Group
}

var (
	errVersion = errors.New("the version is not 1")
	errLength  = errors.New("the length is not that of the message")
)

// parse returns a message. After errLength it has all but the IEs.
func parse(d datagram) (*incoming, error) {
	b := d.bytes
	if len(b) < 8 {
		return nil, errLength
	}
	m := &incoming{from: d.peer, kind: b[1], hasSEID: b[0]&1 != 0}
	length := int(binary.BigEndian.Uint16(b[2:]))
	rest := b[4:]
	if m.hasSEID {
		if len(rest) < 12 {
			return nil, errLength
		}
		m.seid = binary.BigEndian.Uint64(rest)
		rest = rest[8:]
	}
	m.sequence = uint32(rest[0])<<16 | uint32(rest[1])<<8 | uint32(rest[2])
	if b[0]>>5 != 1 {
		return m, errVersion
	}
	// Messages after the first one need the feature BUNDL.
	if 4+length > len(b) || 4+length < len(b)-len(rest)+4 {
		return m, errLength
	}
	var err error
	if m.ies, err = tlv.Split(b[len(b)-len(rest)+4 : 4+length]); err != nil {
		return m, fmt.Errorf("%w: %w", errLength, err)
	}
	return m, nil
}

// isRequest reports which of the messages are requests, and of a session.
func isRequest(kind uint8) (request, session bool) {
	switch kind {
	case message.MsgTypeHeartbeatRequest, message.MsgTypePFDManagementRequest, message.MsgTypeAssociationSetupRequest,
		message.MsgTypeAssociationUpdateRequest, message.MsgTypeAssociationReleaseRequest, message.MsgTypeSessionSetDeletionRequest:
		return true, false
	case message.MsgTypeSessionEstablishmentRequest, message.MsgTypeSessionModificationRequest, message.MsgTypeSessionDeletionRequest:
		return true, true
	}
	return false, false
}

// receive handles a message. A panic is an error of a decoder: the message is dropped, and the rest of the batch is carried out.
func (s *Server) receive(d datagram) {
	defer func() {
		if is := recover(); is != nil {
			s.counters.panics++
			s.log.Error("N4 message", "peer", d.peer, "panic", is, "stack", string(debug.Stack()))
		}
	}()
	m, err := parse(d)
	s.countStranger(d.peer.Addr(), m, err)
	if m == nil {
		s.counters.malformed++
		return
	}
	request, session := isRequest(m.kind)
	switch {
	case errors.Is(err, errVersion):
		s.counters.malformed++
		if m.kind != message.MsgTypeVersionNotSupportedResponse {
			s.send(m.from, versionNotSupported(m.sequence), false)
		}
	case !request && err != nil:
		s.counters.malformed++
	case !request:
		s.answered(m)
	case m.kind == message.MsgTypeHeartbeatRequest:
		if err != nil {
			s.counters.malformed++
			return
		}
		s.heartbeatRequest(m)
	case s.repeated(m):
		s.counters.repeated++
	case err != nil || session && !m.hasSEID:
		s.counters.malformed++
		s.refuse(m, 0, &rules.RefusalError{Cause: ie.CauseInvalidLength, Why: fmt.Sprint(err)})
	default:
		s.request(m)
	}
}

// request handles a new request.
func (s *Server) request(m *incoming) {
	var err error
	switch m.kind {
	case message.MsgTypeAssociationSetupRequest:
		if err = s.associationSetup(m); err != nil {
			s.countStranger(m.from.Addr(), m, err)
		}
	case message.MsgTypeAssociationUpdateRequest:
		err = s.associationUpdate(m)
	case message.MsgTypeAssociationReleaseRequest:
		err = s.associationRelease(m)
	case message.MsgTypeSessionSetDeletionRequest:
		err = s.sessionSetDeletion(m)
	case message.MsgTypeSessionEstablishmentRequest:
		s.sessionRequest(m, s.establish)
	case message.MsgTypeSessionModificationRequest:
		s.sessionRequest(m, s.modify)
	case message.MsgTypeSessionDeletionRequest:
		s.sessionRequest(m, s.deletion)
	default:
		err = &rules.RefusalError{Cause: ie.CauseServiceNotSupported}
	}
	if err != nil {
		s.refuse(m, 0, err)
	}
}

// refuse answers a request with the cause of an error.
func (s *transactions) refuse(m *incoming, seid uint64, err error) {
	var r *rules.RefusalError
	if !errors.As(err, &r) {
		r = &rules.RefusalError{Cause: ie.CauseSystemFailure, Why: err.Error()}
	}
	s.log.Debug("N4 refused", "peer", m.from, "message", messageName(m.kind), "cause", r.Cause, "why", r.Error())
	list := r.IEs()
	switch m.kind {
	case message.MsgTypeSessionModificationRequest, message.MsgTypeSessionDeletionRequest:
	case message.MsgTypeAssociationSetupRequest:
		list = append([]*ie.IE{s.nodeID(m.from.Addr())}, append(list, ie.NewRecoveryTimeStamp(s.recovery))...)
	default:
		list = append([]*ie.IE{s.nodeID(m.from.Addr())}, list...)
	}
	s.reply(m, seid, r.Cause, list)
}

// reply answers a request: its response has the type after that of the request.
func (s *transactions) reply(m *incoming, seid uint64, cause uint8, list []*ie.IE) {
	s.counters.requests[result{messageName(m.kind), cause}]++
	_, session := isRequest(m.kind)
	s.answer(m, marshal(m.kind+1, session, seid, m.sequence, encode(list)), cause == ie.CauseRequestAccepted)
}

// marshal returns a message.
func marshal(kind uint8, session bool, seid uint64, sequence uint32, ies []byte) []byte {
	h := message.NewHeader(1, 0, 0, 0, kind, 0, sequence, 0, ies)
	if session {
		h.SetSEID(seid)
		h.SetLength()
	}
	b, err := h.Marshal()
	if err != nil {
		panic(err) // the buffer has the size that the message needs
	}
	return b
}

func versionNotSupported(sequence uint32) []byte {
	return marshal(message.MsgTypeVersionNotSupportedResponse, false, 0, sequence, nil)
}

// messageName names the type of a request, without the word.
func messageName(kind uint8) string {
	switch kind {
	case message.MsgTypeHeartbeatRequest:
		return "heartbeat"
	case message.MsgTypePFDManagementRequest:
		return "pfd-management"
	case message.MsgTypeAssociationSetupRequest:
		return "association-setup"
	case message.MsgTypeAssociationUpdateRequest:
		return "association-update"
	case message.MsgTypeAssociationReleaseRequest:
		return "association-release"
	case message.MsgTypeNodeReportRequest:
		return "node-report"
	case message.MsgTypeSessionSetDeletionRequest:
		return "session-set-deletion"
	case message.MsgTypeSessionEstablishmentRequest:
		return "session-establishment"
	case message.MsgTypeSessionModificationRequest:
		return "session-modification"
	case message.MsgTypeSessionDeletionRequest:
		return "session-deletion"
	case message.MsgTypeSessionReportRequest:
		return "session-report"
	}
	return "other"
}
