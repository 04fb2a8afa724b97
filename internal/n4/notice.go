// SPDX-License-Identifier: Apache-2.0

package n4

// Notices of the data plane: what packets have caused.

import (
	"net/netip"
	"slices"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/pdusession"
)

// notice handles a notice. One of a session that has been removed in the meantime is ignored.
func (s *reports) notice(n pdusession.Notice) {
	s.counters.notices++
	var err error
	switch n.Kind {
	case pdusession.Waiting:
		err = s.waiting(n)
	case pdusession.ThresholdReached, pdusession.QuotaReached, pdusession.Started:
		err = s.usageNotice(n)
	case pdusession.ErrorIndication:
		err = s.errorIndication(n)
	case pdusession.PathDown:
		s.pathDown(n.Peer.Unmap())
	}
	if err != nil {
		s.log.Debug("N4 notice", "kind", n.Kind, "error", err)
	}
}

// waiting reports downlink data that waits (TS 29.244 5.2.4.2): once until the FAR changes or the report is answered, after
// the delay of the BAR.
func (s *reports) waiting(n pdusession.Notice) error {
	number, ok := s.sessions.byBlock[n.Block]
	if !ok {
		return errUnknown
	}
	is := s.session(number)
	if is == nil || is.Rows.Block != n.Block || int(n.Rule) >= len(is.Set.PDRs) {
		return errUnknown
	}
	pdr := &is.Set.PDRs[n.Rule]
	far := is.Set.FAR(pdr.FAR)
	if !far.Notify || slices.Contains(is.reported, far.ID) {
		return nil
	}
	is.reported = append(slices.Clone(is.reported), far.ID)
	value := downlinkData(pdr.ID, n.DSCP)
	bar := is.Set.BAR(far.BAR)
	if bar == nil || bar.Delay == 0 {
		s.addReport(is, report{Kind: ie.DownlinkDataReport, Value: value, FAR: far.ID})
		return nil
	}
	id := far.ID
	s.after(time.Duration(bar.Delay)*50*time.Millisecond, func() {
		is := s.session(number)
		if is == nil || !slices.Contains(is.reported, id) {
			return // the FAR has been changed
		}
		s.addReport(is, report{Kind: ie.DownlinkDataReport, Value: value, FAR: id})
	})
	return nil
}

// downlinkData returns the content of a Downlink Data Report: the DSCP is the paging policy indication (TS 29.244 8.2.27).
func downlinkData(pdr uint16, dscp uint8) []byte {
	return encode([]*ie.IE{ie.NewPDRID(pdr), ie.NewDownlinkDataServiceInformation(true, false, dscp&0x3f, 0)})
}

// errorIndication reports that the other end of a tunnel does not know it.
func (s *reports) errorIndication(n pdusession.Notice) error {
	number, ok := s.sessions.byTunnel[rules.Tunnel{Peer: n.Peer.Unmap(), TEID: n.TEID}]
	if !ok {
		return errUnknown
	}
	is := s.session(number)
	if is == nil {
		return errUnknown
	}
	var remote *ie.IE
	if a := n.Peer.Unmap(); a.Is4() {
		remote = ie.NewFTEID(1, n.TEID, a.AsSlice(), nil, 0)
	} else {
		remote = ie.NewFTEID(2, n.TEID, nil, a.AsSlice(), 0)
	}
	value := encode([]*ie.IE{remote})
	if slices.ContainsFunc(is.Pending, func(r report) bool {
		return r.Kind == ie.ErrorIndicationReport && string(r.Value) == string(value)
	}) {
		return nil
	}
	s.addReport(is, report{Kind: ie.ErrorIndicationReport, Value: value})
	return nil
}

// pathDown reports to all SMFs that the other end of tunnels does not answer.
func (s *reports) pathDown(addr netip.Addr) {
	const pathFailure, v6, v4 = 1, 1, 2
	flags, text4, text6 := uint8(v4), addr.String(), ""
	if addr.Is6() {
		flags, text4, text6 = v6, "", addr.String()
	}
	for _, p := range s.peers {
		ies := encode([]*ie.IE{s.nodeID(p.Addr), ie.NewNodeReportType(pathFailure),
			ie.NewUserPlanePathFailureReport(ie.NewRemoteGTPUPeer(flags, text4, text6, 0, ""))})
		s.ask(p.requests(), message.MsgTypeNodeReportRequest, false, 0, ies, func(_ *incoming, err error) {
			if err != nil {
				s.log.Warn("N4 node report", "node", p.Node, "peer", p.Addr, "error", err)
			}
		})
	}
}
