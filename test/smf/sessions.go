// SPDX-License-Identifier: Apache-2.0

package smf

// Procedures: associations and sessions.

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// Session is a session as the SMF knows it.
type Session struct {
	// Seid is that of the UPF, CPSeid that of the SMF.
	Seid, CPSeid uint64
	// TEIDs are those of F-TEIDs that the UPF has chosen, by PDR, and Locals the addresses of these: IPv4, if there is one.
	TEIDs  map[uint16]uint32
	Locals map[uint16]netip.Addr
	// IPv4 and IPv6 are addresses that the UPF has allocated.
	IPv4, IPv6 netip.Addr
}

// exchange sends a request and returns its response. With an error, there may be one.
func exchange[T message.Message](ctx context.Context, s *SMF, m message.Message) (is T, err error) {
	answer, err := s.Exchange(ctx, m)
	if answer == nil {
		return is, err
	}
	is, ok := answer.(T)
	if !ok {
		return is, fmt.Errorf("SMF: %s was answered with %s", m.MessageTypeName(), answer.MessageTypeName())
	}
	return is, err
}

// Associate sets up an association.
func (s *SMF) Associate(ctx context.Context, more ...*ie.IE) (*message.AssociationSetupResponse, error) {
	list := append([]*ie.IE{s.NodeID(), s.recoveryTimeStamp()}, more...)
	return exchange[*message.AssociationSetupResponse](ctx, s, message.NewAssociationSetupRequest(0, list...))
}

// Release releases the association.
func (s *SMF) Release(ctx context.Context) error {
	_, err := exchange[*message.AssociationReleaseResponse](ctx, s, message.NewAssociationReleaseRequest(0, s.NodeID()))
	return err
}

// Heartbeat sends a heartbeat.
func (s *SMF) Heartbeat(ctx context.Context) (*message.HeartbeatResponse, error) {
	return exchange[*message.HeartbeatResponse](ctx, s, message.NewHeartbeatRequest(0, s.recoveryTimeStamp(), nil))
}

// Establish establishes a session with rules, among other IEs.
func (s *SMF) Establish(ctx context.Context, cpSeid uint64, rules ...*ie.IE) (*Session, error) {
	list := append([]*ie.IE{s.NodeID(), s.FSEID(cpSeid)}, rules...)
	request := message.NewSessionEstablishmentRequest(0, 0, 0, 0, 0, list...)
	request.FQCSID = nil // it has the last one only
	for _, i := range list {
		if i.Type == ie.FQCSID {
			request.IEs = append(request.IEs, i)
		}
	}
	m, err := exchange[*message.SessionEstablishmentResponse](ctx, s, request)
	if err != nil {
		return nil, err
	}
	if m.SEID() != cpSeid || m.UPFSEID == nil {
		return nil, fmt.Errorf("SMF: session %d: response for session %d, F-SEID %v", cpSeid, m.SEID(), m.UPFSEID)
	}
	up, err := m.UPFSEID.FSEID()
	if err != nil {
		return nil, fmt.Errorf("SMF: session %d: %w", cpSeid, err)
	}
	is := &Session{Seid: up.SEID, CPSeid: cpSeid, TEIDs: map[uint16]uint32{}, Locals: map[uint16]netip.Addr{}}
	return is, is.created(m.CreatedPDR)
}

// created reads what the UPF has allocated.
func (s *Session) created(pdrs []*ie.IE) error {
	for _, created := range pdrs {
		id, err := created.PDRID()
		if err != nil {
			return fmt.Errorf("SMF: Created PDR: %w", err)
		}
		if f, err := created.FTEID(); err == nil {
			s.TEIDs[id] = f.TEID
			for _, address := range []net.IP{f.IPv6Address, f.IPv4Address.To4()} {
				if a, ok := netip.AddrFromSlice(address); ok {
					s.Locals[id] = a
				}
			}
		}
		if ue, err := created.UEIPAddress(); err == nil {
			if a, ok := netip.AddrFromSlice(ue.IPv4Address); ok {
				s.IPv4 = a
			}
			if a, ok := netip.AddrFromSlice(ue.IPv6Address); ok {
				s.IPv6 = a
			}
		}
	}
	return nil
}

// Modify modifies a session.
func (s *SMF) Modify(ctx context.Context, is *Session, rules ...*ie.IE) (*message.SessionModificationResponse, error) {
	m, err := exchange[*message.SessionModificationResponse](ctx, s, message.NewSessionModificationRequest(0, 0, is.Seid, 0, 0, rules...))
	if err != nil {
		return m, err
	}
	return m, is.created(m.CreatedPDR)
}

// Delete deletes a session.
func (s *SMF) Delete(ctx context.Context, is *Session) (*message.SessionDeletionResponse, error) {
	return exchange[*message.SessionDeletionResponse](ctx, s, message.NewSessionDeletionRequest(0, 0, is.Seid, 0, 0))
}

// Usage is a usage report.
type Usage struct {
	URR, Sequence   uint32
	Trigger         [3]byte
	Total, Up, Down uint64
	// UpPackets and DownPackets are 0 if the URR does not measure packets.
	UpPackets, DownPackets uint64
	Seconds                uint32
}

// ReadUsage reads the IE of a usage report.
func ReadUsage(i *ie.IE) (Usage, error) {
	var u Usage
	in, err := i.UsageReport()
	if err != nil {
		return u, fmt.Errorf("SMF: usage report: %w", err)
	}
	for _, x := range in {
		switch x.Type {
		case ie.URRID:
			u.URR, err = x.URRID()
		case ie.URSEQN:
			u.Sequence, err = x.URSEQN()
		case ie.UsageReportTrigger:
			copy(u.Trigger[:], x.Payload)
		case ie.VolumeMeasurement:
			var v *ie.VolumeMeasurementFields
			if v, err = x.VolumeMeasurement(); err == nil {
				u.Total, u.Up, u.Down = v.TotalVolume, v.UplinkVolume, v.DownlinkVolume
				u.UpPackets, u.DownPackets = v.UplinkNumberOfPackets, v.DownlinkNumberOfPackets
			}
		case ie.DurationMeasurement:
			u.Seconds, err = x.ValueAsUint32()
		}
		if err != nil {
			return u, fmt.Errorf("SMF: usage report, IE %d: %w", x.Type, err)
		}
	}
	return u, nil
}

// UsageReports reads the usage reports of a message, in their order.
func UsageReports(m message.Message) ([]Usage, error) {
	var list []*ie.IE
	switch m := m.(type) {
	case *message.SessionReportRequest:
		list = m.UsageReport
	case *message.SessionModificationResponse:
		list = m.UsageReport
	case *message.SessionDeletionResponse:
		list = m.UsageReport
	}
	var out []Usage
	for _, i := range list {
		u, err := ReadUsage(i)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}
