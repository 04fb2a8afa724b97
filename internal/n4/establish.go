// SPDX-License-Identifier: Apache-2.0

package n4

// PFCP Session Establishment (TS 29.244 7.5.2).

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
)

// sessionRequest carries out a request, or refuses it with the SEID of the SMF, as far as that is known.
func (s *Server) sessionRequest(m *incoming, do func(m *incoming) (seid uint64, err error)) {
	if seid, err := do(m); err != nil {
		s.refuse(m, seid, err)
	}
}

// readFSEID reads the F-SEID of an SMF. Of two addresses, it is that of the family of the association.
func readFSEID(i tlv.IE, peer netip.Addr) (uint64, netip.Addr, error) {
	f, err := ie.ParseFSEIDFields(i.Value)
	if err != nil {
		return 0, netip.Addr{}, rules.Incorrect(i.Type, err)
	}
	v4, has4 := netip.AddrFromSlice(f.IPv4Address)
	v6, has6 := netip.AddrFromSlice(f.IPv6Address)
	switch {
	case has4 && (peer.Is4() || !has6):
		return f.SEID, v4, nil
	case has6:
		return f.SEID, v6, nil
	}
	return 0, netip.Addr{}, rules.Incorrect(i.Type, fmt.Errorf("no address"))
}

// readInactivity reads the user plane inactivity timer; 0 stops it.
func readInactivity(g tlv.Group, into *time.Duration) error {
	i, ok := g.First(ie.UserPlaneInactivityTimer)
	if !ok {
		return nil
	}
	n, err := i.Uint(4)
	if err != nil {
		return rules.Incorrect(i.Type, err)
	}
	*into = time.Duration(n) * time.Second
	return nil
}

// checkPDNType refuses sessions whose packets are not IP.
func checkPDNType(g tlv.Group) error {
	i, ok := g.First(ie.PDNType)
	if !ok {
		return nil
	}
	n, err := i.Uint(1)
	if err != nil {
		return rules.Incorrect(i.Type, err)
	}
	if n &= 7; n < uint64(ie.PDNTypeIPv4) || n > uint64(ie.PDNTypeIPv4v6) {
		return &rules.RefusalError{Cause: ie.CauseServiceNotSupported, Offending: i.Type}
	}
	return nil
}

// establish adds a new session to the batch.
func (s *Server) establish(m *incoming) (uint64, error) {
	var cpSEID uint64
	var cp netip.Addr
	i, ok := m.ies.First(ie.FSEID)
	if ok {
		var err error
		if cpSEID, cp, err = readFSEID(i, m.from.Addr()); err != nil {
			return 0, err
		}
	}
	p, err := s.associated(m)
	if err != nil {
		return cpSEID, err
	}
	if s.blocked(p.Node) {
		return cpSEID, &rules.RefusalError{Cause: ie.CauseNoEstablishedPFCPAssociation, Why: "sessions of the former association are being removed"}
	}
	if !ok {
		return 0, rules.Missing(ie.FSEID)
	}
	for _, kind := range []uint16{ie.CreatePDR, ie.CreateFAR} {
		if !m.ies.Has(kind) {
			return cpSEID, rules.Missing(kind)
		}
	}
	if err := checkPDNType(m.ies); err != nil {
		return cpSEID, err
	}
	s.disown(cpSession{p.Node, cpSEID})
	now := time.Now()
	s.last++
	is := &session{Number: s.last, SEID: s.newSEID(), CPSEID: cpSEID, CP: cp, Node: p.Node, Created: now, Set: &rules.Set{}}
	if err := readInactivity(m.ies, &is.Inactivity); err != nil {
		return cpSEID, err
	}
	if is.Sets, err = readSets(m.ies); err != nil {
		return cpSEID, err
	}
	c := &change{is: is, claim: s.resources.claim(is.Number), request: m, retry: func(m *incoming) { s.sessionRequest(m, s.establish) }}
	made, err := s.apply(c, m.ies, now)
	if err != nil {
		return cpSEID, err
	}
	c.done = func(map[uint32]pdusession.Counts) []*ie.IE {
		list := []*ie.IE{p.id, ie.NewCause(ie.CauseRequestAccepted), fseid(is.SEID, p.local)}
		return append(list, s.chosen(is.Set, ie.CreatedPDR, made.PDRs)...)
	}
	c.after = func() {
		s.schedule(is, time.Now())
		s.log.Debug("N4 session established", "node", is.Node, "seid", is.SEID, "ipv4", is.Set.IPv4, "ipv6", is.Set.IPv6)
	}
	s.add(c)
	return cpSEID, nil
}

// disown removes a session whose F-SEID the SMF gives to another one: it has not received the response that would have told
// it about the first, which otherwise kept the device's address for ever.
func (s *Server) disown(of cpSession) {
	number, ok := s.sessions.byCP[of]
	if !ok {
		return
	}
	if is := s.session(number); is != nil {
		s.log.Warn("N4 session replaced", "node", is.Node, "seid", is.SEID, "cp-seid", is.CPSEID)
		s.removeOwn(is)
		s.commit()
	}
}

// apply carries out the rules of a request on the session of a change, and puts it into the batch.
func (s *keeper) apply(c *change, g tlv.Group, now time.Time) (made *rules.Change, err error) {
	defer func() {
		if err != nil || made == nil {
			c.claim.undo() // made is nil after a panic
		}
	}()
	is := c.is
	change, err := is.Set.Apply(g, c.claim)
	if err != nil {
		return nil, err
	}
	var was *rules.Set
	var rows *pdusession.Rows
	if c.was != nil {
		was, rows = c.was.Set, c.was.Rows
	}
	if err := c.claim.complete(was, is.Set); err != nil {
		return nil, err
	}
	is.measure(change, now)
	converted, err := is.convert()
	if err != nil {
		return nil, err
	}
	if c.was != nil && dropsBuffered(g) {
		if rows, err = s.dropBuffered(c.was); err != nil {
			return nil, systemFailure(err)
		}
	}
	if is.Rows, err = s.begun().Put(rows, converted); err != nil {
		return nil, systemFailure(err)
	}
	return change, nil
}

// measure has a usage for each URR, and none more.
func (is *session) measure(change *rules.Change, now time.Time) {
	list := make([]usage, 0, len(is.Set.URRs))
	for i := range is.Set.URRs {
		r := &is.Set.URRs[i]
		u := newUsage(r, now)
		if was := is.usage(r.ID); was != nil {
			u = *was
		}
		u.update(r, now)
		if slices.Contains(change.VolumeQuotas, r.ID) {
			u.grantVolume(r)
		}
		if slices.Contains(change.TimeQuotas, r.ID) {
			u.grantTime(r)
		}
		list = append(list, u)
	}
	is.Usages = list
}

// newSEID returns one that cannot be guessed.
func (s *keeper) newSEID() uint64 {
	for {
		seid := s.resources.random.Uint64()
		if _, used := s.sessions.bySEID[seid]; !used && seid != 0 {
			return seid
		}
	}
}

// fseid is that of this end.
func fseid(seid uint64, local netip.Addr) *ie.IE {
	if local.Is4() {
		return ie.NewFSEID(seid, local.AsSlice(), nil)
	}
	return ie.NewFSEID(seid, nil, local.AsSlice())
}

// chosen returns Created PDR or Updated PDR IEs: what this end has allocated.
func (s *Server) chosen(set *rules.Set, kind uint16, pdrs []uint16) []*ie.IE {
	var list []*ie.IE
	for _, id := range pdrs {
		r := set.PDR(id)
		if r == nil {
			continue
		}
		in := []*ie.IE{ie.NewPDRID(id)}
		if r.Chosen {
			in = append(in, s.fteid(r))
		}
		if r.UEChosen {
			in = append(in, ueAddress(set, r))
		}
		list = append(list, ie.NewGroupedIE(kind, in...))
	}
	return list
}

// fteid is the local F-TEID of a PDR. Its addresses were there when the PDR was read.
func (s *Server) fteid(r *rules.PDR) *ie.IE {
	var v4, v6 net.IP
	var flags uint8
	locals := s.data.Locals()
	if a, err := locals.Address(r.Local, netip.IPv4Unspecified()); r.Tunnel4 && err == nil {
		flags, v4 = flags|1, a.AsSlice()
	}
	if a, err := locals.Address(r.Local, netip.IPv6Unspecified()); r.Tunnel6 && err == nil {
		flags, v6 = flags|2, a.AsSlice()
	}
	return ie.NewFTEID(flags, r.TEID, v4, v6, 0)
}

func ueAddress(set *rules.Set, r *rules.PDR) *ie.IE {
	const v6, v4 = 1, 2
	var flags uint8
	if r.UE4 {
		flags |= v4
	}
	if r.UE6 {
		flags |= v6
	}
	return ie.NewUEIPAddress(flags, set.IPv4.String(), set.IPv6.Addr().String(), 0, 0)
}
