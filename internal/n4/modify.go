// SPDX-License-Identifier: Apache-2.0

package n4

// PFCP Session Modification and Deletion (TS 29.244 7.5.4 and 7.5.6).

import (
	"slices"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
)

// owned returns the session of a request from its SMF. Others learn nothing about it.
func (s *Server) owned(m *incoming) (*session, error) {
	number, ok := s.sessions.bySEID[m.seid]
	from := m.from.Addr()
	if !ok {
		for _, p := range s.peers {
			if p.Addr == from {
				return nil, &rules.RefusalError{Cause: ie.CauseSessionContextNotFound}
			}
		}
		return nil, &rules.RefusalError{Cause: ie.CauseNoEstablishedPFCPAssociation}
	}
	is := s.session(number)
	if is == nil {
		return nil, &rules.RefusalError{Cause: ie.CauseSessionContextNotFound}
	}
	p := s.peers[is.Node]
	if p == nil {
		return nil, &rules.RefusalError{Cause: ie.CauseNoEstablishedPFCPAssociation}
	}
	if from != p.Addr && from != is.CP {
		return nil, &rules.RefusalError{Cause: ie.CauseSessionContextNotFound}
	}
	return is, nil
}

func requestFlags(g tlv.Group) uint8 {
	i, _ := g.First(ie.PFCPSMReqFlags)
	n, err := i.Uint(1)
	if err != nil {
		return 0
	}
	return uint8(n)
}

func dropsBuffered(g tlv.Group) bool { return requestFlags(g)&rules.DropBuffered != 0 }

// dropBuffered drops the packets of a session that wait: those of rules that drop are dropped. It is a batch of its own.
func (s *keeper) dropBuffered(is *session) (*pdusession.Rows, error) {
	s.commit()
	converted, err := is.convert()
	if err != nil {
		return nil, err
	}
	waits := false
	for i := range converted.Rules {
		if f := &converted.Rules[i].Forward; f.Action == pdusession.Wait {
			f.Action, f.Notify, waits = pdusession.Drop, false, true
		}
	}
	if !waits {
		return is.Rows, nil
	}
	batch := s.data.Begin()
	rows, err := batch.Put(is.Rows, converted)
	if err != nil {
		return nil, err
	}
	if _, err := batch.Commit(); err != nil {
		return nil, err
	}
	s.sessions.remove(is)
	is.Rows = rows
	s.sessions.add(is)
	s.dirty[is.Number] = struct{}{}
	return rows, nil
}

// queried returns the URRs whose usage is asked for.
func queried(g tlv.Group, set *rules.Set) ([]uint32, error) {
	var list []uint32
	if requestFlags(g)&rules.QueryAll != 0 {
		for i := range set.URRs {
			list = append(list, set.URRs[i].ID)
		}
	}
	for _, i := range g {
		if i.Type != ie.QueryURR {
			continue
		}
		in, err := i.Group()
		if err != nil {
			return nil, rules.Incorrect(i.Type, err)
		}
		id, ok := in.First(ie.URRID)
		if !ok {
			return nil, rules.Missing(ie.URRID)
		}
		n, err := id.Uint(4)
		if err != nil {
			return nil, rules.Incorrect(ie.URRID, err)
		}
		if set.URR(uint32(n)) == nil {
			return nil, &rules.RefusalError{Cause: ie.CauseRuleCreationModificationFailure, Failed: &rules.Failed{Kind: ie.RuleIDTypeURR, ID: uint32(n)}}
		}
		if !slices.Contains(list, uint32(n)) {
			list = append(list, uint32(n))
		}
	}
	return list, nil
}

// modify adds a changed session to the batch.
func (s *Server) modify(m *incoming) (uint64, error) {
	was, err := s.owned(m)
	if err != nil {
		return 0, err
	}
	seid := was.CPSEID
	queries, err := queried(m.ies, was.Set)
	if err != nil {
		return seid, err
	}
	is := was.clone()
	if i, ok := m.ies.First(ie.FSEID); ok {
		if is.CPSEID, is.CP, err = readFSEID(i, m.from.Addr()); err != nil {
			return seid, err
		}
	}
	if err := readInactivity(m.ies, &is.Inactivity); err != nil {
		return seid, err
	}
	sets, err := readSets(m.ies)
	if err != nil {
		return seid, err
	}
	is.replaceSets(sets)
	now := time.Now()
	c := &change{was: was, is: is, claim: s.resources.claim(is.Number), request: m, retry: func(m *incoming) { s.sessionRequest(m, s.modify) }}
	made, err := s.apply(c, m.ies, now)
	if err != nil {
		return seid, err
	}
	// A FAR that was updated may be reported again.
	is.reported = slices.DeleteFunc(is.reported, func(far uint32) bool { return slices.Contains(made.FARs, far) || is.Set.FAR(far) == nil })
	c.durable = len(queries) > 0 || len(made.RemovedURRs) > 0
	c.done = func(final map[uint32]pdusession.Counts) []*ie.IE {
		list := []*ie.IE{ie.NewCause(ie.CauseRequestAccepted)}
		list = append(list, s.chosen(is.Set, ie.CreatedPDR, made.PDRs)...)
		list = append(list, s.chosen(is.Set, ie.UpdatedPDR, made.Updated)...)
		return append(list, s.modified(c, made, queries, final)...)
	}
	c.after = func() {
		s.schedule(is, time.Now())
		for _, m := range made.EndMarkers {
			if err := s.data.EndMarker(m); err != nil {
				s.log.Error("N4 end marker", "peer", m.Peer, "error", err)
			}
		}
		s.log.Debug("N4 session modified", "node", is.Node, "seid", is.SEID)
	}
	s.add(c)
	return seid, nil
}

// modified returns the usage reports of a Session Modification Response: of URRs that were removed, and queried.
func (s *Server) modified(c *change, made *rules.Change, queries []uint32, final map[uint32]pdusession.Counts) []*ie.IE {
	var list []*ie.IE
	now := time.Now()
	for _, id := range made.RemovedURRs {
		u := *c.was.usage(id)
		row := c.was.Rows.Usages[id]
		var counts pdusession.Counts
		_, ok := final[row]
		if is := c.is.usage(id); !ok && is != nil {
			// It was created again with its ID, so the data plane counts on in the same row.
			counts = s.counts(row, &u)
			fresh := newUsage(c.is.Set.URR(id), now)
			fresh.update(c.is.Set.URR(id), now)
			fresh.Reported = pdusession.Counts{Up: counts.Up, Down: counts.Down, UpPackets: counts.UpPackets, DownPackets: counts.DownPackets}
			*is = fresh
			is.regrant(c.is.Set.URR(id))
			s.arm(c.is, is)
		} else {
			counts = s.lastCounts(final, row, &u)
		}
		list = append(list, ie.New(ie.UsageReportWithinSessionModificationResponse, u.report(c.was.Set.URR(id), counts, termination, now)))
	}
	for _, id := range queries {
		if slices.Contains(made.RemovedURRs, id) {
			continue
		}
		u, r := c.is.usage(id), c.is.Set.URR(id)
		list = append(list, ie.New(ie.UsageReportWithinSessionModificationResponse, u.report(r, s.counts(c.is.Rows.Usages[id], u), immediate, now)))
		s.arm(c.is, u)
	}
	return list
}

// regrant begins the quotas that a new URR has.
func (u *usage) regrant(r *rules.URR) {
	if r.HasQuota {
		u.grantVolume(r)
	}
	if r.HasTimeQuota {
		u.grantTime(r)
	}
}

// counts returns those of a row. If they cannot be read, nothing more is reported now than before.
func (s *keeper) counts(row uint32, u *usage) pdusession.Counts {
	c, err := s.data.Counts(row)
	if err != nil {
		s.log.Error("N4 usage", "row", row, "error", err)
		return u.Reported
	}
	return c
}

// lastCounts returns those of a usage that was removed.
func (s *keeper) lastCounts(final map[uint32]pdusession.Counts, row uint32, u *usage) pdusession.Counts {
	c, ok := final[row]
	if !ok {
		s.log.Error("N4 usage", "row", row, "urr", u.ID, "error", "no last counts")
		return u.Reported
	}
	return c
}

// arm has the data plane compare counts with the limits of a URR.
func (s *keeper) arm(is *session, u *usage) {
	threshold, quota := u.limits(is.Set.URR(u.ID))
	if err := s.data.Arm(is.Rows.Usages[u.ID], threshold, quota); err != nil {
		s.log.Error("N4 usage", "node", is.Node, "seid", is.SEID, "urr", u.ID, "error", err)
	}
}

// deletion adds the removal of a session to the batch. The response has the last usage reports.
func (s *Server) deletion(m *incoming) (uint64, error) {
	is, err := s.owned(m)
	if err != nil {
		return 0, err
	}
	return is.CPSEID, s.remove(is, m, func(m *incoming) { s.sessionRequest(m, s.deletion) })
}

// remove adds the removal of a session to the batch; without a request, nobody is answered.
func (s *keeper) remove(is *session, m *incoming, retry func(*incoming)) error {
	if err := s.begun().Remove(is.Rows); err != nil {
		return systemFailure(err)
	}
	c := &change{was: is, claim: s.resources.claim(is.Number), request: m, retry: retry, durable: len(is.Usages) > 0}
	c.done = func(final map[uint32]pdusession.Counts) []*ie.IE {
		list := []*ie.IE{ie.NewCause(ie.CauseRequestAccepted)}
		for _, r := range is.Pending {
			if r.Kind == ie.UsageReportWithinSessionReportRequest {
				list = append(list, ie.New(ie.UsageReportWithinSessionDeletionResponse, r.Value))
			}
		}
		now := time.Now()
		for _, u := range is.Usages {
			list = append(list, ie.New(ie.UsageReportWithinSessionDeletionResponse, u.report(is.Set.URR(u.ID), s.lastCounts(final, is.Rows.Usages[u.ID], &u), termination, now)))
		}
		return list
	}
	c.after = func() {
		for _, r := range is.Pending {
			delete(s.requests, r.sent) // the response has what they report
		}
		s.log.Debug("N4 session removed", "node", is.Node, "seid", is.SEID)
	}
	s.add(c)
	return nil
}
