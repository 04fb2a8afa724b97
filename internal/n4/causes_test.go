// SPDX-License-Identifier: Apache-2.0

package n4

// The cause of each refusal, with the offending IE or the failed rule.

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/test/smf"
)

// The rules of a plain session, which the tests change.
func uplink() smf.PDR {
	return smf.PDR{ID: 1, Source: ie.SrcInterfaceAccess, Choose: true, UE4: device, FAR: 1}
}
func downlink() smf.PDR { return smf.PDR{ID: 2, Source: ie.SrcInterfaceCore, UE4: device, FAR: 2} }
func toCore() smf.FAR {
	return smf.FAR{ID: 1, Action: smf.Forward, Destination: ie.DstInterfaceCore}
}
func toBase() smf.FAR {
	return smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: base, TEID: 5}
}

func plain(more ...*ie.IE) []*ie.IE {
	return append([]*ie.IE{uplink().Create(), downlink().Create(), toCore().Create(), toBase().Create()}, more...)
}

// withUplink and others are a plain session with one rule changed.
func withUplink(change func(*smf.PDR)) []*ie.IE {
	p := uplink()
	change(&p)
	return []*ie.IE{p.Create(), downlink().Create(), toCore().Create(), toBase().Create()}
}

func withDownlink(change func(*smf.PDR)) []*ie.IE {
	p := downlink()
	change(&p)
	return []*ie.IE{uplink().Create(), p.Create(), toCore().Create(), toBase().Create()}
}

func withFAR(change func(*smf.FAR)) []*ie.IE {
	f := toBase()
	change(&f)
	return []*ie.IE{uplink().Create(), downlink().Create(), toCore().Create(), f.Create()}
}

func pdi(more ...*ie.IE) []*ie.IE {
	return withDownlink(func(p *smf.PDR) { p.InPDI = more })
}

func forwarding(more ...*ie.IE) []*ie.IE {
	return withFAR(func(f *smf.FAR) { f.InParameters = more })
}

func urr(triggers byte, second byte, more ...*ie.IE) []*ie.IE {
	return plain(smf.URR{ID: 1, Triggers: [2]byte{triggers, second}, More: more}.Create())
}

const (
	pdrType = int(ie.RuleIDTypePDR)
	farType = int(ie.RuleIDTypeFAR)
	noRule  = -1
)

var refusals = []struct {
	name      string
	ies       []*ie.IE
	cause     uint8
	offending uint16
	rule      int
}{
	{"no PDR", []*ie.IE{toCore().Create()}, 66, ie.CreatePDR, noRule},
	{"no FAR", []*ie.IE{uplink().Create()}, 66, ie.CreateFAR, noRule},
	{"a PDR without PDI", plain(ie.NewCreatePDR(ie.NewPDRID(3), ie.NewPrecedence(1), ie.NewFARID(1))), 66, ie.PDI, noRule},
	{"a PDR without precedence", plain(ie.NewCreatePDR(ie.NewPDRID(3), ie.NewPDI(ie.NewSourceInterface(0)), ie.NewFARID(1))), 66, ie.Precedence, noRule},
	{"a PDR without FAR ID", plain(ie.NewCreatePDR(ie.NewPDRID(3), ie.NewPrecedence(1), ie.NewPDI(ie.NewSourceInterface(0)))), 67, ie.FARID, noRule},
	{"a PDI without source interface", plain(ie.NewCreatePDR(ie.NewPDRID(3), ie.NewPrecedence(1), ie.NewPDI(), ie.NewFARID(1))), 66, ie.SourceInterface, noRule},
	{"a short PDR ID", plain(ie.NewCreatePDR(ie.New(ie.PDRID, []byte{1}), ie.NewPrecedence(1), ie.NewPDI(ie.NewSourceInterface(0)), ie.NewFARID(1))), 69, ie.PDRID, noRule},
	{"an unknown FAR", withUplink(func(p *smf.PDR) { p.FAR = 9 }), 73, 0, pdrType},
	{"an unknown QER", withUplink(func(p *smf.PDR) { p.QERs = []uint32{9} }), 73, 0, pdrType},
	{"an unknown URR", withUplink(func(p *smf.PDR) { p.URRs = []uint32{9} }), 73, 0, pdrType},
	{"an unknown BAR", withFAR(func(f *smf.FAR) { f.BAR = 3 }), 73, 0, farType},
	{"a PDR twice", plain(uplink().Create()), 73, 0, pdrType},
	{"a FAR twice", plain(toCore().Create()), 73, 0, farType},
	{"predefined rules", withUplink(func(p *smf.PDR) { p.More = []*ie.IE{ie.NewActivatePredefinedRules("x")} }), 73, 0, pdrType},
	{"a MAR", withUplink(func(p *smf.PDR) { p.More = []*ie.IE{ie.NewMARID(1)} }), 76, ie.MARID, noRule},
	{"an application", pdi(ie.NewApplicationID("x")), 73, 0, pdrType},
	{"an Ethernet filter", pdi(ie.NewEthernetPacketFilter(ie.NewEthernetFilterID(1))), 76, ie.EthernetPacketFilter, noRule},
	{"a traffic endpoint", pdi(ie.NewTrafficEndpointID(1)), 76, ie.TrafficEndpointID, noRule},
	{"a framed route that is none", pdi(ie.NewFramedRoute("x")), 69, ie.FramedRoute, noRule},
	{"a framed route to everything", pdi(ie.NewFramedRoute("0.0.0.0/0 0.0.0.0 1")), 69, ie.FramedRoute, noRule},
	{"a framed route of the other family", pdi(ie.NewFramedIPv6Route("10.5.0.0/16")), 69, ie.FramedIPv6Route, noRule},
	{"5G VN internal", withDownlink(func(p *smf.PDR) { p.Source = 4 }), 76, ie.SourceInterface, noRule},
	{"another network instance", withDownlink(func(p *smf.PDR) { p.Instance = "other" }), 73, 0, pdrType},
	{"no tunnel from the access network", withUplink(func(p *smf.PDR) { p.Choose = false }), 67, ie.FTEID, noRule},
	{"the header kept", withUplink(func(p *smf.PDR) { p.Keep = true }), 67, ie.OuterHeaderRemoval, noRule},
	{"an outer header removal of VLAN tags", withDownlink(func(p *smf.PDR) { p.More = []*ie.IE{ie.NewOuterHeaderRemoval(3, 0)} }), 76, ie.OuterHeaderRemoval, noRule},
	{"an outer header removal without a tunnel", withDownlink(func(p *smf.PDR) { p.More = []*ie.IE{ie.NewOuterHeaderRemoval(0, 0)} }), 73, 0, pdrType},
	{"TEID 0", pdi(ie.NewFTEID(1, 0, local4.AsSlice(), nil, 0)), 69, ie.FTEID, noRule},
	{"another tunnel address", withUplink(func(p *smf.PDR) { p.Choose, p.TEID, p.Local = false, 9, base }), 73, 0, pdrType},
	{"an F-TEID without a family", pdi(ie.NewFTEID(4, 0, nil, nil, 0)), 69, ie.FTEID, noRule},
	{"a second address", withDownlink(func(p *smf.PDR) { p.UE4 = base }), 73, 0, pdrType},
	{"no address of the device", []*ie.IE{smf.PDR{ID: 1, Choose: true, FAR: 1}.Create(), toCore().Create()}, 67, ie.UEIPAddress, noRule},
	{"a delegated prefix", pdi2(ie.NewUEIPAddress(0x09, "", "2001:db8:9::", 8, 0)), 76, ie.UEIPAddress, noRule},
	{"an IPv6 prefix of 56 bits", pdi2(ie.NewUEIPAddress(0x41, "", "2001:db8:9::", 0, 56)), 76, ie.UEIPAddress, noRule},
	{"an empty UE IP address", pdi2(ie.New(ie.UEIPAddress, []byte{0})), 69, ie.UEIPAddress, noRule},
	{"no pool of addresses", []*ie.IE{smf.PDR{ID: 1, Choose: true, ChooseUE6: true, FAR: 1}.Create(), toCore().Create()}, 79, 0, noRule},
	{"a QFI without a tunnel", withDownlink(func(p *smf.PDR) { p.QFIs = []uint8{1} }), 73, 0, pdrType},
	{"a wrong flow description", withDownlink(func(p *smf.PDR) { p.Filters = []string{"deny out ip from any to any"} }), 69, ie.SDFFilter, noRule},
	{"a truncated flow description", pdi(ie.New(ie.SDFFilter, []byte{1, 0, 0, 99, 'p'})), 69, ie.SDFFilter, noRule},
	{"an SPI", pdi(ie.NewSDFFilter("", "", "1234", "", 0)), 76, ie.SDFFilter, noRule},
	{"a flow label", pdi(ie.NewSDFFilter("", "", "", "123", 0)), 76, ie.SDFFilter, noRule},
	{"a ToS mask of ECN bits", pdi(ie.NewSDFFilter("", "\x28\xff", "", "", 0)), 76, ie.SDFFilter, noRule},
	{"an unknown SDF filter ID", pdi(ie.NewSDFFilter("", "", "", "", 7)), 73, 0, pdrType},
	{"a flow to another device", withDownlink(func(p *smf.PDR) { p.Filters = []string{"permit out ip from any to 10.99.0.1"} }), 73, 0, pdrType},
	{"too many flows", withDownlink(func(p *smf.PDR) {
		p.Filters = []string{"permit out 6 from any " + strings.Repeat("1,", 31) + "2 to assigned 3,4"}
	}), 73, 0, pdrType},
	{"duplication", withFAR(func(f *smf.FAR) { f.Action = 0x12 }), 76, ie.ApplyAction, noRule},
	{"no action", withFAR(func(f *smf.FAR) { f.Action = 0 }), 69, ie.ApplyAction, noRule},
	{"two actions", withFAR(func(f *smf.FAR) { f.Action = smf.Drop | smf.Forward }), 69, ie.ApplyAction, noRule},
	{"forwarding with a notification", withFAR(func(f *smf.FAR) { f.Action = smf.Forward | smf.Notify }), 69, ie.ApplyAction, noRule},
	{"forwarding to the access network without a tunnel", withFAR(func(f *smf.FAR) { f.Peer = netip.Addr{} }), 67, ie.OuterHeaderCreation, noRule},
	{"forwarding without parameters", []*ie.IE{uplink().Create(), ie.NewCreateFAR(ie.NewFARID(1), ie.NewApplyAction(2))}, 67, ie.ForwardingParameters, noRule},
	{"a FAR without action", []*ie.IE{uplink().Create(), ie.NewCreateFAR(ie.NewFARID(1))}, 66, ie.ApplyAction, noRule},
	{"a tunnel of TEID 0", withFAR(func(f *smf.FAR) { f.TEID = 0 }), 69, ie.OuterHeaderCreation, noRule},
	{"an outer header of UDP", forwarding2(ie.NewOuterHeaderCreation(0x0400, 0, "192.0.2.5", "", 9, 0, 0)), 76, ie.OuterHeaderCreation, noRule},
	{"redirection to an IPv4 address", forwarding(ie.NewRedirectInformation(0, "192.0.2.1")), 76, ie.RedirectInformation, noRule},
	{"redirection to an IPv6 address", forwarding(ie.NewRedirectInformation(1, "2001:db8::1")), 76, ie.RedirectInformation, noRule},
	{"redirection of SIP", forwarding(ie.NewRedirectInformation(3, "sip:x@y.example")), 76, ie.RedirectInformation, noRule},
	{"redirection to both families", forwarding(ie.NewRedirectInformation(4, "192.0.2.1", "2001:db8::1")), 76, ie.RedirectInformation, noRule},
	{"a short redirection", forwarding(ie.New(ie.RedirectInformation, []byte{2, 0})), 69, ie.RedirectInformation, noRule},
	{"a truncated redirection", forwarding(ie.New(ie.RedirectInformation, []byte{2, 0, 9, 'h'})), 69, ie.RedirectInformation, noRule},
	{"redirection to another line", forwarding(ie.NewRedirectInformation(2, "http://x/\r\nSet-Cookie: y")), 69, ie.RedirectInformation, noRule},
	{"redirection to a script", forwarding(ie.NewRedirectInformation(2, "javascript:alert(1)")), 69, ie.RedirectInformation, noRule},
	{"redirection to a path", forwarding(ie.NewRedirectInformation(2, "/portal")), 69, ie.RedirectInformation, noRule},
	{"redirection to a long URL", forwarding(ie.NewRedirectInformation(2, "http://x/"+strings.Repeat("y", 1100))), 76, ie.RedirectInformation, noRule},
	{"redirection of packets to the device", forwarding(ie.NewRedirectInformation(2, "http://x/")), 73, 0, pdrType},
	{"header enrichment", forwarding(ie.NewHeaderEnrichment(0, "a", "b")), 76, ie.HeaderEnrichment, noRule},
	{"an access to the data network", forwarding(ie.NewDataNetworkAccessIdentifier("x")), 76, ie.DataNetworkAccessIdentifier, noRule},
	{"a forwarding policy", forwarding(ie.NewForwardingPolicy("x")), 70, ie.ForwardingPolicy, noRule},
	{"a QER without gates", plain(ie.NewCreateQER(ie.NewQERID(1))), 66, ie.GateStatus, noRule},
	{"reflective QoS", plain(smf.QER(1, 0, 0, 0, ie.NewRQI(1))), 76, ie.RQI, noRule},
	{"a rate of several sessions", plain(smf.QER(1, 0, 0, 0, ie.NewQERCorrelationID(5))), 76, ie.QERCorrelationID, noRule},
	{"a packet rate", plain(smf.QER(1, 0, 0, 0, ie.NewPacketRate(1, 0, 9, 0, 0))), 76, ie.PacketRate, noRule},
	{"a short MBR", plain(smf.QER(1, 0, 0, 0, ie.New(ie.MBR, []byte{1}))), 69, ie.MBR, noRule},
	{"guaranteed rates above the capacity", plain(smf.QER(1, 0, 0, 0, ie.NewGBR(1001, 0))), 75, 0, noRule},
	{"events", plain(ie.NewCreateURR(ie.NewURRID(1), ie.NewMeasurementMethod(1, 0, 0), ie.NewReportingTriggers(0, 0))), 76, ie.MeasurementMethod, noRule},
	{"a URR without triggers", plain(ie.NewCreateURR(ie.NewURRID(1), ie.NewMeasurementMethod(0, 1, 0))), 66, ie.ReportingTriggers, noRule},
	{"linked usage", urr(0x80, 0), 76, ie.ReportingTriggers, noRule},
	{"a quota validity time", urr(0, 0x80), 76, ie.ReportingTriggers, noRule},
	{"periodic reports without a period", urr(1, 0), 67, ie.MeasurementPeriod, noRule},
	{"a volume threshold without a volume", urr(2, 0), 67, ie.VolumeThreshold, noRule},
	{"a time threshold without a time", urr(4, 0), 67, ie.TimeThreshold, noRule},
	{"linked usage without its trigger", urr(0, 0, ie.NewLinkedURRID(2)), 76, ie.LinkedURRID, noRule},
	{"an inactivity detection time", urr(0, 0, ie.NewInactivityDetectionTime(10)), 76, ie.InactivityDetectionTime, noRule},
	{"a quota holding time", urr(0, 0, ie.New(ie.QuotaHoldingTime, []byte{0, 0, 0, 9})), 76, ie.QuotaHoldingTime, noRule},
	{"a monitoring time", urr(0, 0, ie.New(ie.MonitoringTime, make([]byte, 4))), 76, ie.MonitoringTime, noRule},
	{"measurement before enforcement", urr(0, 0, ie.NewMeasurementInformation(1)), 76, ie.MeasurementInformation, noRule},
	{"an Ethernet session", plain(ie.NewPDNType(5)), 76, ie.PDNType, noRule},
	{"a trace", plain(ie.New(ie.TraceInformation, []byte{0})), 76, ie.TraceInformation, noRule},
	{"a traffic endpoint of the session", plain(ie.NewCreateTrafficEndpoint(ie.NewTrafficEndpointID(1))), 76, ie.CreateTrafficEndpoint, noRule},
}

// pdi2 and forwarding2 are of a rule that has nothing else of the kind.
func pdi2(ue *ie.IE) []*ie.IE {
	return withDownlink(func(p *smf.PDR) { p.UE4, p.InPDI = netip.Addr{}, []*ie.IE{ue} })
}

func forwarding2(i *ie.IE) []*ie.IE {
	return withFAR(func(f *smf.FAR) { f.Peer, f.InParameters = netip.Addr{}, []*ie.IE{i} })
}

func TestEachRefusalHasItsCause(t *testing.T) {
	b := start(t, func(c *Config) { c.GuaranteedKbps, c.Instances = 1000, []string{"internet"} })
	m := b.smf()
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			_, err := m.Establish(b.context(), 1, tt.ies...)
			r := refused(t, err)
			if r.Cause != tt.cause || r.Offending != tt.offending || r.HasRule != (tt.rule != noRule) || r.HasRule && int(r.RuleType) != tt.rule {
				t.Errorf("%+v, instead of %+v", r, tt)
			}
		})
	}
	st := b.status()
	if sessions, usages := b.data.size(); sessions+usages+st.Sessions+st.Addresses != 0 || b.teids() != 0 {
		t.Errorf("something is left: %d sessions, %d usages, %+v", sessions, usages, st)
	}
	if st.Panics != 0 {
		t.Errorf("%d panics", st.Panics)
	}
	if _, err := m.Establish(b.context(), 1, plain()...); err != nil {
		t.Errorf("the plain session: %v", err)
	}
}

func TestAModificationIsAppliedWholeOrNotAtAll(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is, err := m.Establish(b.context(), 1, plain()...)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := b.data.only(t)
	for _, tt := range []struct {
		name  string
		ies   []*ie.IE
		cause uint8
	}{
		{"an unknown PDR", []*ie.IE{ie.NewRemovePDR(ie.NewPDRID(9))}, 73},
		{"a FAR in use", []*ie.IE{ie.NewRemoveFAR(ie.NewFARID(1))}, 73},
		{"an unknown FAR", []*ie.IE{toBase().Update(), smf.FAR{ID: 9, Action: smf.Drop}.Update()}, 73},
		{"an unknown URR", []*ie.IE{ie.NewQueryURR(ie.NewURRID(3))}, 73},
		{"an unknown QER", []*ie.IE{ie.NewUpdateQER(ie.NewQERID(3))}, 73},
		{"an unknown BAR", []*ie.IE{ie.NewRemoveBAR(ie.NewBARID(3))}, 73},
		{"a new PDR with a wrong one", []*ie.IE{smf.PDR{ID: 3, Choose: true, FAR: 1}.Create(), smf.PDR{ID: 4, Choose: true, FAR: 7}.Create()}, 73},
	} {
		_, err := m.Modify(b.context(), is, tt.ies...)
		if r := refused(t, err); r.Cause != tt.cause {
			t.Errorf("%s: %v", tt.name, r)
		}
	}
	if after, _ := b.data.only(t); after != before {
		t.Errorf("%+v became %+v", before, after)
	}
	if b.teids() != 1 {
		t.Errorf("%d TEIDs", b.teids())
	}
	if _, err := m.Modify(b.context(), &smf.Session{Seid: 1}, toBase().Update()); refused(t, err).Cause != 65 {
		t.Error(err)
	}
}

func TestUnknownIEsAreIgnored(t *testing.T) {
	b := start(t, nil)
	more := []*ie.IE{ie.New(9999, []byte{1}), ie.NewVendorSpecificIE(0x8001, 10415, []byte{1, 2}), ie.NewUserID(0, "", "", "", "")}
	if _, err := b.smf().Establish(b.context(), 1, plain(more...)...); err != nil {
		t.Error(err)
	}
}
