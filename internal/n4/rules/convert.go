// SPDX-License-Identifier: Apache-2.0

package rules

// The session of the data plane: a rule for each PDR, in the same order, a meter for each QER that limits, a usage for each
// URR.

import (
	"net/netip"
	"slices"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/pdusession"
)

// Limits returns the absolute threshold and quota of a URR.
type Limits func(urr *URR) (threshold, quota pdusession.Volume)

// Convert returns the session of a set. Its error is a RefusalError.
func (s *Set) Convert(limits Limits) (*pdusession.Session, error) {
	if !s.IPv4.IsValid() && !s.IPv6.IsValid() {
		return nil, conditional(ie.UEIPAddress, "no PDR has an address of the device")
	}
	is := &pdusession.Session{IPv4: s.IPv4, IPv6: s.IPv6, Rules: make([]pdusession.Rule, 0, len(s.PDRs))}
	flows := map[TEID]int{}
	for p := range s.PDRs {
		rule, err := s.rule(&s.PDRs[p])
		if err != nil {
			return nil, err
		}
		of := s.PDRs[p].local()
		if flows[of] += max(1, len(rule.Flows)); flows[of] > pdusession.MaxFlows {
			return nil, failure(ie.RuleIDTypePDR, uint32(rule.ID), "more than %d flows", pdusession.MaxFlows)
		}
		is.Rules = append(is.Rules, rule)
		for _, network := range s.PDRs[p].Routes {
			if !slices.Contains(is.Routes, network) {
				is.Routes = append(is.Routes, network)
			}
		}
	}
	for q := range s.QERs {
		if r := &s.QERs[q]; r.limits() {
			is.Meters = append(is.Meters, r.meter())
		}
	}
	for u := range s.URRs {
		r := &s.URRs[u]
		threshold, quota := limits(r)
		// The time that a URR measures begins with the first packet, if not at once.
		start := r.Triggers&StartOfTraffic != 0 || r.Duration && !r.Immediate
		is.Usages = append(is.Usages, pdusession.Usage{ID: r.ID, Threshold: threshold, Quota: quota, Start: start})
	}
	return is, nil
}

func (s *Set) rule(r *PDR) (pdusession.Rule, error) {
	fail := func(why string) (pdusession.Rule, error) {
		return pdusession.Rule{}, failure(ie.RuleIDTypePDR, uint32(r.ID), "%s", why)
	}
	far := s.FAR(r.FAR)
	switch {
	case r.TEID == 0 && r.Source == ie.SrcInterfaceAccess:
		return pdusession.Rule{}, conditional(ie.FTEID, "packets from the access network come in a tunnel")
	case r.TEID == 0 && r.Source == ie.SrcInterfaceCPFunction:
		return pdusession.Rule{}, conditional(ie.FTEID, "packets from the CP function come in a tunnel")
	case r.TEID == 0 && !r.UE4 && !r.UE6:
		return pdusession.Rule{}, conditional(ie.UEIPAddress, "the PDR has neither a tunnel nor an address")
	case r.TEID == 0 && r.Removal != nil:
		return fail("an outer header is removed of packets that have none")
	case r.TEID != 0 && r.Removal == nil && far.Action != pdusession.Drop:
		return pdusession.Rule{}, conditional(ie.OuterHeaderRemoval, "packets leave a tunnel")
	}
	flows, err := s.flows(r)
	if err != nil {
		return pdusession.Rule{}, err
	}
	is := pdusession.Rule{ID: r.ID, TEID: r.TEID, Instance: r.Local, FromNetwork: r.TEID != 0 && r.Source != ie.SrcInterfaceAccess, Flows: flows, Usages: r.URRs}
	is.Forward = pdusession.Forward{Action: far.Action, Notify: far.Notify}
	if t := far.Tunnel; t.Peer.IsValid() {
		is.Forward.Peer, is.Forward.TEID, is.Forward.Instance = t.Peer, t.TEID, far.Local
	}
	if far.Redirect != "" && far.Action == pdusession.Pass {
		if is.FromNetwork || is.TEID == 0 || is.Forward.Peer.IsValid() {
			return fail("only packets from the device that enter no tunnel can be redirected")
		}
		is.Forward.Redirect = far.Redirect
	}
	if far.DSCP != nil {
		is.Forward.Mark, is.Forward.DSCP = true, *far.DSCP
	}
	for _, id := range r.QERs {
		q := s.QER(id)
		if q.limits() {
			is.Meters = append(is.Meters, id)
		}
		is.Forward.Guaranteed = is.Forward.Guaranteed || q.GBR != nil
		if q.QFI != nil && is.Forward.QFI == 0 && is.Forward.Peer != (netip.Addr{}) {
			is.Forward.QFI = *q.QFI
		}
	}
	switch {
	case len(is.Meters) > pdusession.MaxRuleMeters:
		return fail("too many QERs")
	case len(is.Usages) > pdusession.MaxRuleUsages:
		return fail("too many URRs")
	}
	return is, nil
}

func (r *QER) meter() pdusession.Meter {
	is := pdusession.Meter{ID: r.ID}
	is.Up.Closed, is.Down.Closed = r.UpClosed, r.DownClosed
	if r.MBR != nil {
		is.Up.Limited, is.Up.BitsPerSecond = true, r.MBR.Up*1000
		is.Down.Limited, is.Down.BitsPerSecond = true, r.MBR.Down*1000
	}
	return is
}
