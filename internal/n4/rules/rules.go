// SPDX-License-Identifier: Apache-2.0

// Package rules has the rules of PFCP sessions: PDRs, FARs, QERs, URRs and BARs (TS 29.244 5.2). It reads them from the
// IEs of requests, and turns them into the session that the data plane forwards by. What it does not support, and would
// change what happens to packets, it refuses.
package rules

import (
	"net/netip"
	"slices"

	"github.com/polycube/polycube/pdusession"
)

// Set is the rules of a session. Lists in rules are replaced and never changed, so that copies may share them.
type Set struct {
	// IPv4 and IPv6 are the addresses of the device.
	IPv4 netip.Addr   `json:"a4,omitzero"`
	IPv6 netip.Prefix `json:"a6,omitzero"`
	// PDRs are in the order in which packets are compared with them.
	PDRs []PDR `json:"p,omitempty"`
	FARs []FAR `json:"f,omitempty"`
	QERs []QER `json:"q,omitempty"`
	URRs []URR `json:"u,omitempty"`
	BARs []BAR `json:"b,omitempty"`
}

// PDR is a packet detection rule.
type PDR struct {
	ID         uint16 `json:"i"`
	Precedence uint32 `json:"p,omitempty"`
	// Source is the source interface, Instance the network instance.
	Source   uint8  `json:"s,omitempty"`
	Instance string `json:"n,omitempty"`
	// TEID is that of the local F-TEID, 0: none; Tunnel4 and Tunnel6 are the families of its addresses.
	TEID uint32 `json:"t,omitempty"`
	// Local is the network instance of these in the data plane.
	Tunnel4 bool   `json:"t4,omitempty"`
	Tunnel6 bool   `json:"t6,omitempty"`
	Local   string `json:"l,omitempty"`
	// Chosen: this end has chosen the TEID, for all PDRs with the same Choose.
	Chosen bool   `json:"c,omitempty"`
	Choose *uint8 `json:"ci,omitempty"`
	// UE4 and UE6: packets have the device's address of the family. UEChosen: this end has allocated it.
	UE4      bool     `json:"u4,omitempty"`
	UE6      bool     `json:"u6,omitempty"`
	UEChosen bool     `json:"uc,omitempty"`
	Filters  []Filter `json:"fl,omitempty"`
	// Routes are networks behind the device.
	Routes []netip.Prefix `json:"fr,omitempty"`
	QFIs   []uint8        `json:"qf,omitempty"`
	// Removal is the outer header removal description; nil: none.
	Removal *uint8   `json:"r,omitempty"`
	FAR     uint32   `json:"f,omitempty"`
	QERs    []uint32 `json:"q,omitempty"`
	URRs    []uint32 `json:"u,omitempty"`
}

// Filter is an SDF filter.
type Filter struct {
	// ID is the SDF Filter ID; 0: none.
	ID uint32 `json:"i,omitempty"`
	// Flow is the flow description; empty: all packets.
	Flow string `json:"f,omitempty"`
	// DSCP is that of the ToS Traffic Class; nil: any.
	DSCP *uint8 `json:"d,omitempty"`
	// Reference: only the ID was given, of a filter in another PDR.
	Reference bool `json:"r,omitempty"`
}

// Tunnel is the remote end of a GTP-U tunnel.
type Tunnel struct {
	Peer netip.Addr `json:"p,omitzero"`
	TEID uint32     `json:"t,omitempty"`
}

// FAR is a forwarding action rule.
type FAR struct {
	ID     uint32            `json:"i"`
	Action pdusession.Action `json:"a,omitempty"`
	Notify bool              `json:"n,omitempty"`
	BAR    uint8             `json:"b,omitempty"`
	// Parameters: there are forwarding parameters. Tunnel is the outer header that they create, if Peer is valid.
	Parameters  bool   `json:"f,omitempty"`
	Destination uint8  `json:"d,omitempty"`
	Instance    string `json:"ni,omitempty"`
	Tunnel      Tunnel `json:"t,omitzero"`
	// Local is the network instance in the data plane that packets in the tunnel are sent from.
	Local string `json:"l,omitempty"`
	// DSCP is that of the Transport Level Marking; nil: none.
	DSCP *uint8 `json:"m,omitempty"`
	// Redirect is the URL that HTTP requests are redirected to; empty: none are.
	Redirect string `json:"re,omitempty"`
}

// QER is a QoS enforcement rule. Rates are in kbit/s.
type QER struct {
	ID         uint32 `json:"i"`
	UpClosed   bool   `json:"uc,omitempty"`
	DownClosed bool   `json:"dc,omitempty"`
	MBR        *Rates `json:"m,omitempty"`
	GBR        *Rates `json:"g,omitempty"`
	QFI        *uint8 `json:"q,omitempty"`
}

// Rates are those of both directions, in kbit/s.
type Rates struct {
	Up   uint64 `json:"u,omitempty"`
	Down uint64 `json:"d,omitempty"`
}

// URR is a usage reporting rule. Volumes are in bytes, times in seconds; 0: none.
type URR struct {
	ID       uint32 `json:"i"`
	Volume   bool   `json:"v,omitempty"`
	Duration bool   `json:"d,omitempty"`
	// Packets are counted, too; Immediate: time is measured before the first packet.
	Packets       bool              `json:"p,omitempty"`
	Immediate     bool              `json:"im,omitempty"`
	Triggers      Trigger           `json:"t,omitempty"`
	Period        uint32            `json:"mp,omitempty"`
	Threshold     pdusession.Volume `json:"vt,omitzero"`
	Quota         pdusession.Volume `json:"vq,omitzero"`
	HasQuota      bool              `json:"hq,omitempty"`
	TimeThreshold uint32            `json:"tt,omitempty"`
	TimeQuota     uint32            `json:"tq,omitempty"`
	HasTimeQuota  bool              `json:"ht,omitempty"`
}

// BAR is a buffering action rule. Delay is in units of 50 ms.
type BAR struct {
	ID    uint8 `json:"i"`
	Delay uint8 `json:"d,omitempty"`
}

// Clone returns a copy whose rules can be changed.
func (s *Set) Clone() *Set {
	is := *s
	is.PDRs = slices.Clone(s.PDRs)
	is.FARs = slices.Clone(s.FARs)
	is.QERs = slices.Clone(s.QERs)
	is.URRs = slices.Clone(s.URRs)
	is.BARs = slices.Clone(s.BARs)
	return &is
}

// PDR returns the PDR with an ID; nil: none.
func (s *Set) PDR(id uint16) *PDR {
	return find(s.PDRs, func(r *PDR) bool { return r.ID == id })
}

// FAR returns the FAR with an ID; nil: none.
func (s *Set) FAR(id uint32) *FAR {
	return find(s.FARs, func(r *FAR) bool { return r.ID == id })
}

// QER returns the QER with an ID; nil: none.
func (s *Set) QER(id uint32) *QER {
	return find(s.QERs, func(r *QER) bool { return r.ID == id })
}

// URR returns the URR with an ID; nil: none.
func (s *Set) URR(id uint32) *URR {
	return find(s.URRs, func(r *URR) bool { return r.ID == id })
}

// BAR returns the BAR with an ID; nil: none.
func (s *Set) BAR(id uint8) *BAR {
	return find(s.BARs, func(r *BAR) bool { return r.ID == id })
}

func find[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// TEID is that of a local F-TEID, in a network instance of the data plane.
type TEID struct {
	Local string
	TEID  uint32
}

// TEIDs returns those of the local F-TEIDs, each once.
func (s *Set) TEIDs() []TEID {
	var list []TEID
	for i := range s.PDRs {
		if t := s.PDRs[i].local(); t.TEID != 0 && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}

// local returns the TEID of the local F-TEID; 0: none.
func (r *PDR) local() TEID { return TEID{r.Local, r.TEID} }

// Has reports whether the local F-TEID of a PDR has a TEID.
func (r *PDR) Has(t TEID) bool { return r.local() == t }

// GBR returns the sum of the guaranteed rates.
func (s *Set) GBR() Rates {
	var sum Rates
	for i := range s.QERs {
		if g := s.QERs[i].GBR; g != nil {
			sum.Up += g.Up
			sum.Down += g.Down
		}
	}
	return sum
}
