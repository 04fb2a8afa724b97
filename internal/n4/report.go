// SPDX-License-Identifier: Apache-2.0

package n4

// Session reports (TS 29.244 7.5.8). A report is stored before it is sent, and until the SMF has answered it.

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
)

// report waits for the SMF.
type report struct {
	// Kind is the type of its IE, 0 for user plane inactivity, which has none. Value is the IE's.
	Kind  uint16 `json:"k,omitempty"`
	Value []byte `json:"v,omitempty"`
	// FAR is that of packets that wait.
	FAR uint32 `json:"f,omitempty"`

	// sent is the sequence number of the request that is on its way; 0: none.
	sent uint32
}

// reports are made of what packets and time have caused.
type reports struct{ keeper }

const (
	// maxPending is the number of reports of a session above which usage is reported later: counts lose nothing.
	maxPending = 64
	// maxPerRequest keeps requests below the size of fragments' fragments.
	maxPerRequest = 16
)

// Report types (TS 29.244 8.2.21).
var reportTypes = map[uint16]uint8{
	ie.DownlinkDataReport:                    1,
	ie.UsageReportWithinSessionReportRequest: 2,
	ie.ErrorIndicationReport:                 4,
	0:                                        8,
}

// addReport stores a report and sends it.
func (s *reports) addReport(is *session, r report) {
	is.Pending = append(is.Pending, r)
	s.dirty[is.Number] = struct{}{}
	s.flushReports(is)
}

// down reports whether the SMF of a session does not answer, or does not know the session any longer. Its reports wait.
func (s *reports) down(is *session) bool {
	p := s.peers[is.Node]
	return p == nil || p.down || is.leaving
}

// flushReports sends the reports that are not on their way.
func (s *reports) flushReports(is *session) {
	if is == nil || s.down(is) {
		return
	}
	for {
		var kinds uint8
		var list []*ie.IE
		var which []int
		for i := range is.Pending {
			r := &is.Pending[i]
			if r.sent != 0 || len(which) == maxPerRequest {
				continue
			}
			which = append(which, i)
			kinds |= reportTypes[r.Kind]
			if r.Kind != 0 {
				list = append(list, ie.New(r.Kind, r.Value))
			}
		}
		if len(which) == 0 {
			return
		}
		ies := encode(append([]*ie.IE{ie.New(ie.ReportType, []byte{kinds})}, list...))
		number, to := is.Number, netip.AddrPortFrom(is.CP, s.peers[is.Node].Port)
		var sent uint32
		sent = s.ask(to, message.MsgTypeSessionReportRequest, true, is.CPSEID, ies, func(m *incoming, err error) {
			s.reportAnswered(number, sent, m, err)
		})
		for _, i := range which {
			is.Pending[i].sent = sent
		}
	}
}

// reportAnswered forgets reports that the SMF has, and keeps the others.
func (s *reports) reportAnswered(number uint64, sent uint32, m *incoming, err error) {
	is := s.session(number)
	if is == nil {
		return
	}
	if err != nil {
		for i := range is.Pending {
			if is.Pending[i].sent == sent {
				is.Pending[i].sent = 0
			}
		}
		s.log.Warn("N4 session report", "node", is.Node, "seid", is.SEID, "error", err)
		s.after(s.config.Heartbeat, func() { s.flushReports(s.session(number)) })
		return
	}
	if cause := causeOf(m); cause != ie.CauseRequestAccepted {
		s.log.Warn("N4 session report", "node", is.Node, "seid", is.SEID, "cause", cause)
	}
	is.Pending = slices.DeleteFunc(slices.Clone(is.Pending), func(r report) bool {
		if r.sent != sent {
			return false
		}
		is.reported = slices.DeleteFunc(is.reported, func(far uint32) bool { return r.Kind == ie.DownlinkDataReport && far == r.FAR })
		return true
	})
	s.dirty[number] = struct{}{}
	if err := s.followReport(is, m.ies); err != nil {
		s.log.Warn("N4 session report response", "node", is.Node, "seid", is.SEID, "error", err)
	}
	if is = s.session(number); is != nil {
		s.reportLate(is)
		s.schedule(is, time.Now())
	}
}

// followReport carries out what a Session Report Response demands: the BAR, and to drop packets that wait.
func (s *reports) followReport(is *session, g tlv.Group) error {
	if i, ok := g.First(ie.UpdateBARWithinSessionReportResponse); ok {
		in, err := i.Group()
		if err != nil {
			return rules.Incorrect(i.Type, err)
		}
		set := is.Set.Clone()
		if err := set.UpdateBAR(in); err != nil {
			return err
		}
		is.Set = set
	}
	i, ok := g.First(ie.PFCPSRRspFlags)
	if !ok {
		return nil
	}
	if n, err := i.Uint(1); err != nil {
		return rules.Incorrect(i.Type, err)
	} else if n&rules.DropBuffered == 0 {
		return nil
	}
	was := is.Rows
	rows, err := s.dropBuffered(is)
	if err != nil || rows == was {
		return err
	}
	converted, err := is.convert()
	if err != nil {
		return err
	}
	batch := s.data.Begin()
	if rows, err = batch.Put(rows, converted); err != nil {
		return err
	}
	_, err = batch.Commit()
	s.sessions.remove(is)
	is.Rows = rows
	s.sessions.add(is)
	return err
}

// reportLate makes the usage reports that had to wait for the SMF.
func (s *reports) reportLate(is *session) {
	for i := range is.Usages {
		u := &is.Usages[i]
		if late := u.Late; late != 0 && len(is.Pending) < maxPending && !s.down(is) {
			u.Late = 0
			s.reportUsage(is, u, late)
		}
	}
}

// reportUsage makes a usage report, and has the data plane begin the next measurement.
func (s *reports) reportUsage(is *session, u *usage, trigger rules.Trigger) {
	s.dirty[is.Number] = struct{}{}
	if s.down(is) || len(is.Pending) >= maxPending {
		u.Late |= trigger
		s.arm(is, u)
		return
	}
	r := is.Set.URR(u.ID)
	counts, err := s.data.Counts(is.Rows.Usages[u.ID])
	if err != nil {
		s.log.Error("N4 usage", "node", is.Node, "seid", is.SEID, "urr", u.ID, "error", err)
		return
	}
	value := u.report(r, counts, uint32(trigger), time.Now())
	s.arm(is, u)
	s.addReport(is, report{Kind: ie.UsageReportWithinSessionReportRequest, Value: value})
}

// schedule sets the timer of a session.
func (s *reports) schedule(is *session, now time.Time) {
	var first time.Time
	earlier := func(at time.Time) {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for i := range is.Usages {
		u := &is.Usages[i]
		earlier(u.next(is.Set.URR(u.ID)))
	}
	if is.Inactivity > 0 {
		if limit := now.Add(is.Inactivity); is.idleAt.IsZero() || is.idleAt.After(limit) {
			is.idleAt = limit
		}
		earlier(is.idleAt)
	}
	if first.IsZero() || !is.due.IsZero() && !first.Before(is.due) {
		return
	}
	number := is.Number
	is.due = first
	s.at(first, func() { s.tick(number, first) })
}

// tick does what is due in a session.
func (s *reports) tick(number uint64, at time.Time) {
	is := s.session(number)
	if is == nil || !is.due.Equal(at) {
		return
	}
	is.due = time.Time{}
	now := time.Now()
	for i := range is.Usages {
		u := &is.Usages[i]
		r := is.Set.URR(u.ID)
		if due := u.elapsed(r, now); due != 0 {
			s.elapsed(is, u, r, due, now)
		}
	}
	if is.Inactivity > 0 && !is.idleAt.After(now) {
		s.checkIdle(is, now)
	}
	s.schedule(is, now)
}

// elapsed follows the time of a URR.
func (s *reports) elapsed(is *session, u *usage, r *rules.URR, due rules.Trigger, now time.Time) {
	if due&rules.Periodic != 0 {
		for !u.NextPeriod.After(now) {
			u.NextPeriod = u.NextPeriod.Add(max(seconds(r.Period), now.Sub(u.NextPeriod).Truncate(seconds(r.Period))))
		}
	}
	if due&rules.TimeQuota != 0 {
		counts := s.counts(is.Rows.Usages[u.ID], u)
		u.TimeDone, u.Stop, u.QuotaEnds = true, max(1, counts.Up+counts.Down), time.Time{}
	}
	if due &= r.Triggers; due != 0 {
		s.reportUsage(is, u, due)
	} else {
		s.arm(is, u)
		s.dirty[is.Number] = struct{}{}
	}
}

// checkIdle reports that no packet has passed for the time of the user plane inactivity timer, once until one does.
func (s *reports) checkIdle(is *session, now time.Time) {
	last := is.Created
	seen, err := s.data.Seen(is.Rows)
	if err != nil {
		s.log.Error("N4 session", "node", is.Node, "seid", is.SEID, "error", err)
	}
	if seen != 0 {
		last = wall(seen)
	}
	if last.Add(is.Inactivity).After(now) {
		is.idle, is.idleAt = false, last.Add(is.Inactivity)
		return
	}
	is.idleAt = now.Add(is.Inactivity)
	if !is.idle {
		is.idle = true
		s.addReport(is, report{})
	}
}

// errUnknown: a notice is of something that has been removed in the meantime.
var errUnknown = errors.New("unknown")

// usageAt returns the usage of a row.
func (s *reports) usageAt(row uint32) (*session, *usage, error) {
	number, ok := s.sessions.byUsage[row]
	if !ok {
		return nil, nil, errUnknown
	}
	is := s.session(number)
	if is == nil {
		return nil, nil, errUnknown
	}
	for id, at := range is.Rows.Usages {
		if at == row {
			return is, is.usage(id), nil
		}
	}
	return nil, nil, errUnknown
}

// usageNotice follows what packets of a usage have caused.
func (s *reports) usageNotice(n pdusession.Notice) error {
	is, u, err := s.usageAt(n.Usage)
	if err != nil {
		return err
	}
	r := is.Set.URR(u.ID)
	counts, err := s.data.Counts(n.Usage)
	if err != nil {
		return err
	}
	threshold, quota := u.limits(r)
	switch {
	case n.Kind == pdusession.ThresholdReached && u.reached(threshold, counts, 0):
		s.reportUsage(is, u, rules.VolumeThreshold)
	case n.Kind == pdusession.QuotaReached && !u.VolumeDone && !u.TimeDone && u.reached(quota, counts, maxDatagram):
		u.VolumeDone = true
		s.dirty[is.Number] = struct{}{}
		if r.Triggers&rules.VolumeQuota != 0 {
			s.reportUsage(is, u, rules.VolumeQuota)
		}
	case n.Kind == pdusession.Started:
		u.started(r, counts)
		s.dirty[is.Number] = struct{}{}
		if r.Triggers&rules.StartOfTraffic != 0 {
			s.reportUsage(is, u, rules.StartOfTraffic)
		}
	}
	s.schedule(is, time.Now())
	return nil
}
