// SPDX-License-Identifier: Apache-2.0

package smf

// Builders of rules.

import (
	"net/netip"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
)

// PDR describes a Create PDR or an Update PDR.
type PDR struct {
	ID         uint16
	Precedence uint32
	Source     uint8
	Instance   string
	// Choose: the UPF chooses the TEID, the same one for the same ChooseID (0: none). Else TEID and Local are given.
	Choose   bool
	ChooseID uint8
	TEID     uint32
	Local    netip.Addr
	// UE4 and UE6 are the device's addresses, ChooseUE4 and ChooseUE6 have them allocated.
	UE4, UE6             netip.Addr
	ChooseUE4, ChooseUE6 bool
	// Filters are flow descriptions.
	Filters []string
	QFIs    []uint8
	// Keep: the outer header is not removed. That of tunnels is, otherwise.
	Keep        bool
	FAR         uint32
	QERs, URRs  []uint32
	More, InPDI []*ie.IE
}

// Create returns a Create PDR.
func (p PDR) Create() *ie.IE { return ie.NewCreatePDR(p.ies()...) }

// Update returns an Update PDR with all that a Create PDR has.
func (p PDR) Update() *ie.IE { return ie.NewUpdatePDR(p.ies()...) }

func (p PDR) ies() []*ie.IE {
	list := []*ie.IE{ie.NewPDRID(p.ID), ie.NewPrecedence(p.Precedence), ie.NewPDI(p.pdi()...)}
	if (p.Choose || p.TEID != 0) && !p.Keep {
		list = append(list, ie.NewOuterHeaderRemoval(6, 0))
	}
	list = append(list, ie.NewFARID(p.FAR))
	for _, id := range p.URRs {
		list = append(list, ie.NewURRID(id))
	}
	for _, id := range p.QERs {
		list = append(list, ie.NewQERID(id))
	}
	return append(list, p.More...)
}

func (p PDR) pdi() []*ie.IE {
	list := []*ie.IE{ie.NewSourceInterface(p.Source)}
	switch {
	case p.Choose && p.ChooseID != 0:
		list = append(list, ie.NewFTEID(0xd, 0, nil, nil, p.ChooseID))
	case p.Choose:
		list = append(list, ie.NewFTEID(0x5, 0, nil, nil, 0))
	case p.TEID != 0 && p.Local.Is4():
		list = append(list, ie.NewFTEID(1, p.TEID, p.Local.AsSlice(), nil, 0))
	case p.TEID != 0:
		list = append(list, ie.NewFTEID(2, p.TEID, nil, p.Local.AsSlice(), 0))
	}
	if p.Instance != "" {
		list = append(list, ie.NewNetworkInstance(p.Instance))
	}
	if ue := p.ue(); ue != nil {
		list = append(list, ue)
	}
	for _, text := range p.Filters {
		list = append(list, ie.NewSDFFilter(text, "", "", "", 0))
	}
	for _, qfi := range p.QFIs {
		list = append(list, ie.NewQFI(qfi))
	}
	return append(list, p.InPDI...)
}

func (p PDR) ue() *ie.IE {
	var flags uint8
	for _, f := range []struct {
		is   bool
		flag uint8
	}{{p.UE6.IsValid(), 1}, {p.UE4.IsValid(), 2}, {p.ChooseUE4, 0x10}, {p.ChooseUE6, 0x20}} {
		if f.is {
			flags |= f.flag
		}
	}
	if flags == 0 {
		return nil
	}
	if p.Source != ie.SrcInterfaceAccess {
		flags |= 4 // the destination
	}
	return ie.NewUEIPAddress(flags, p.UE4.String(), p.UE6.String(), 0, 0)
}

// FAR describes a Create FAR or an Update FAR.
type FAR struct {
	ID          uint32
	Action      uint8
	Destination uint8
	Instance    string
	// Peer and TEID are the other end of a tunnel.
	Peer netip.Addr
	TEID uint32
	BAR  uint8
	// EndMarkers: end markers are sent into the former tunnel.
	EndMarkers   bool
	InParameters []*ie.IE
}

// Actions of a FAR.
const (
	Drop    = 1
	Forward = 2
	Buffer  = 4
	Notify  = 8
)

// Create returns a Create FAR.
func (f FAR) Create() *ie.IE {
	list := []*ie.IE{ie.NewFARID(f.ID), ie.NewApplyAction(f.Action)}
	if in := f.parameters(); f.Action&Forward != 0 || len(in) > 1 {
		list = append(list, ie.NewForwardingParameters(in...))
	}
	if f.BAR != 0 {
		list = append(list, ie.NewBARID(f.BAR))
	}
	return ie.NewCreateFAR(list...)
}

// Update returns an Update FAR.
func (f FAR) Update() *ie.IE {
	list := []*ie.IE{ie.NewFARID(f.ID), ie.NewApplyAction(f.Action)}
	if in := f.parameters(); f.Action&Forward != 0 || len(in) > 1 {
		list = append(list, ie.NewUpdateForwardingParameters(in...))
	}
	return ie.NewUpdateFAR(list...)
}

func (f FAR) parameters() []*ie.IE {
	list := []*ie.IE{ie.NewDestinationInterface(f.Destination)}
	if f.Instance != "" {
		list = append(list, ie.NewNetworkInstance(f.Instance))
	}
	if f.Peer.Is4() {
		list = append(list, ie.NewOuterHeaderCreation(0x0100, f.TEID, f.Peer.String(), "", 0, 0, 0))
	} else if f.Peer.Is6() {
		list = append(list, ie.NewOuterHeaderCreation(0x0200, f.TEID, "", f.Peer.String(), 0, 0, 0))
	}
	if f.EndMarkers {
		list = append(list, ie.NewPFCPSMReqFlags(2))
	}
	return append(list, f.InParameters...)
}

// QER returns a Create QER with open gates and, if they are not 0, maximum rates in kbit/s and a QFI.
func QER(id uint32, up, down uint64, qfi uint8, more ...*ie.IE) *ie.IE {
	list := []*ie.IE{ie.NewQERID(id), ie.NewGateStatus(0, 0)}
	if up != 0 || down != 0 {
		list = append(list, ie.NewMBR(up, down))
	}
	if qfi != 0 {
		list = append(list, ie.NewQFI(qfi))
	}
	return ie.NewCreateQER(append(list, more...)...)
}

// URR describes a Create URR or an Update URR.
type URR struct {
	ID uint32
	// Triggers are the first two octets of the Reporting Triggers.
	Triggers         [2]byte
	Threshold, Quota uint64 // bytes in both directions; 0: none
	Period           time.Duration
	TimeThreshold    time.Duration
	TimeQuota        time.Duration
	Duration         bool
	// Packets: packets are measured, too.
	Packets bool
	More    []*ie.IE
}

// Create returns a Create URR.
func (u URR) Create() *ie.IE { return ie.NewCreateURR(u.ies()...) }

// Update returns an Update URR.
func (u URR) Update() *ie.IE { return ie.NewUpdateURR(u.ies()...) }

func (u URR) ies() []*ie.IE {
	duration := 0
	if u.Duration {
		duration = 1
	}
	list := []*ie.IE{ie.NewURRID(u.ID), ie.NewMeasurementMethod(0, 1, duration), ie.NewReportingTriggers(u.Triggers[0], u.Triggers[1])}
	if u.Packets {
		const mnop = 1 << 4
		list = append(list, ie.NewMeasurementInformation(mnop))
	}
	if u.Period != 0 {
		list = append(list, ie.NewMeasurementPeriod(u.Period))
	}
	if u.Threshold != 0 {
		list = append(list, ie.NewVolumeThreshold(1, u.Threshold, 0, 0))
	}
	if u.Quota != 0 {
		list = append(list, ie.NewVolumeQuota(1, u.Quota, 0, 0))
	}
	if u.TimeThreshold != 0 {
		list = append(list, ie.NewTimeThreshold(u.TimeThreshold))
	}
	if u.TimeQuota != 0 {
		list = append(list, ie.NewTimeQuota(u.TimeQuota))
	}
	return append(list, u.More...)
}

// Device returns the rules of the usual session: an uplink and a downlink PDR, a FAR for each, two QERs, a URR. The base
// station is the other end of the downlink tunnel. The UPF chooses the uplink TEID.
func Device(address netip.Addr, base netip.Addr, teid uint32) []*ie.IE {
	up := PDR{ID: 1, Precedence: 100, Source: ie.SrcInterfaceAccess, Choose: true, FAR: 1, QERs: []uint32{1, 2}, URRs: []uint32{1}}
	down := PDR{ID: 2, Precedence: 100, Source: ie.SrcInterfaceCore, FAR: 2, QERs: []uint32{1, 2}, URRs: []uint32{1}}
	if address.Is4() {
		up.UE4, down.UE4 = address, address
	} else {
		up.UE6, down.UE6 = address, address
	}
	return []*ie.IE{
		up.Create(), down.Create(),
		FAR{ID: 1, Action: Forward, Destination: ie.DstInterfaceCore}.Create(),
		FAR{ID: 2, Action: Forward, Destination: ie.DstInterfaceAccess, Peer: base, TEID: teid}.Create(),
		QER(1, 100000, 200000, 0), QER(2, 0, 0, 9),
		URR{ID: 1, Triggers: [2]byte{2}, Threshold: 1 << 30}.Create(),
	}
}
