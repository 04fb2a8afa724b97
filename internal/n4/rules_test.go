// SPDX-License-Identifier: Apache-2.0

package n4

// What rules become in the data plane, and what this end allocates.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/sdf"
	"github.com/polycube/polycube/test/smf"
)

func (b *bench) establish1(m *smf.SMF, list ...*ie.IE) *smf.Session {
	b.t.Helper()
	b.established++
	is, err := m.Establish(b.context(), b.established, list...)
	if err != nil {
		b.t.Fatal(err)
	}
	return is
}

func showFlow(f sdf.Flow) string {
	text := ""
	if f.Remote != nil {
		text += fmt.Sprint(" remote ", f.Remote)
	}
	if f.L4Proto != nil {
		text += fmt.Sprint(" proto ", *f.L4Proto)
	}
	if f.RemotePort != nil {
		text += fmt.Sprint(" from ", f.RemotePort)
	}
	if f.LocalPort != nil {
		text += fmt.Sprint(" to ", f.LocalPort)
	}
	if f.DSCP != nil {
		text += fmt.Sprint(" dscp ", *f.DSCP)
	}
	if f.QFI != nil {
		text += fmt.Sprint(" qfi ", *f.QFI)
	}
	return text
}

func TestFiltersBecomeFlows(t *testing.T) {
	for _, tt := range []struct {
		name string
		pdr  smf.PDR
		want []string
	}{
		{"none", smf.PDR{}, nil},
		{"any", smf.PDR{Filters: []string{"permit out ip from any to assigned"}}, []string{""}},
		{"ports", smf.PDR{Filters: []string{"permit out 17 from 198.51.100.0/24 53,5000-5010 to assigned 9"}},
			[]string{" remote 198.51.100.0/24 proto 17 from 53 to 9", " remote 198.51.100.0/24 proto 17 from 5000-5010 to 9"}},
		{"two filters", smf.PDR{Filters: []string{"permit out 6 from any to assigned", "permit out ip from any to 10.45.0.0/16"}}, []string{" proto 6", " remote 0.0.0.0/0"}},
		{"QFIs", smf.PDR{QFIs: []uint8{1, 9}}, []string{" qfi 1", " qfi 9"}},
		{"QFI and ToS", smf.PDR{QFIs: []uint8{1}, InPDI: []*ie.IE{ie.NewSDFFilter("permit out 1 from any to any", "\xb8\xfc", "", "", 0)}}, []string{" proto 1 dscp 46 qfi 1"}},
		{"ToS", smf.PDR{InPDI: []*ie.IE{ie.NewSDFFilter("", "\x28\xfc", "", "", 0)}}, []string{" dscp 10"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, nil)
			p := tt.pdr
			p.ID, p.Choose, p.UE4, p.FAR = 1, true, device, 1
			b.establish1(b.smf(), p.Create(), toCore().Create())
			s, _ := b.data.only(t)
			var got []string
			for _, f := range s.Rules[0].Flows {
				got = append(got, showFlow(f))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q instead of %q", got, tt.want)
			}
		})
	}
}

func TestFramedRoutesAreNetworksOfTheDevice(t *testing.T) {
	b := start(t, nil)
	up, down := uplink(), downlink()
	down.InPDI = []*ie.IE{ie.NewFramedRoute("10.5.6.0/16 0.0.0.0 1"), ie.NewFramedRoute("10.6.0.0/24"), ie.NewFramedIPv6Route("2001:db8:5::/48")}
	up.InPDI = down.InPDI[:1]
	b.establish1(b.smf(), up.Create(), down.Create(), toCore().Create(), toBase().Create())
	s, _ := b.data.only(t)
	if got := fmt.Sprint(s.Routes); got != "[10.5.0.0/16 10.6.0.0/24 2001:db8:5::/48]" {
		t.Error(got)
	}
}

func TestAFilterIDStandsForItsFilter(t *testing.T) {
	b := start(t, nil)
	up, down := uplink(), downlink()
	up.InPDI = []*ie.IE{ie.NewSDFFilter("", "", "", "", 7)}
	down.InPDI = []*ie.IE{ie.NewSDFFilter("permit out 17 from any to assigned", "", "", "", 7)}
	b.establish1(b.smf(), up.Create(), down.Create(), toCore().Create(), toBase().Create())
	s, _ := b.data.only(t)
	for _, r := range s.Rules {
		if len(r.Flows) != 1 || showFlow(r.Flows[0]) != " proto 17" {
			t.Errorf("PDR %d: %v", r.ID, r.Flows)
		}
	}
}

func TestRulesAreInTheOrderOfPrecedence(t *testing.T) {
	b := start(t, nil)
	var list []*ie.IE
	for _, p := range []struct {
		id         uint16
		precedence uint32
	}{{5, 200}, {4, 100}, {3, 100}, {2, 300}, {1, 4000000000}} {
		d := downlink()
		d.ID, d.Precedence = p.id, p.precedence
		list = append(list, d.Create())
	}
	b.establish1(b.smf(), append(list, toBase().Create())...)
	s, _ := b.data.only(t)
	var got []uint16
	for _, r := range s.Rules {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, []uint16{3, 4, 5, 2, 1}) {
		t.Error(got)
	}
}

func TestFARsBecomeActions(t *testing.T) {
	marked := toBase()
	marked.InParameters = []*ie.IE{ie.NewTransportLevelMarking(0xb8fc)}
	buffered := toBase()
	buffered.Action = smf.Buffer | smf.Notify
	tunnel := pdusession.Forward{Action: pdusession.Pass, Peer: base, TEID: 5}
	for _, tt := range []struct {
		name string
		far  smf.FAR
		want func(*pdusession.Forward)
	}{
		{"forward", toBase(), func(*pdusession.Forward) {}},
		{"marked", marked, func(f *pdusession.Forward) { f.Mark, f.DSCP = true, 46 }},
		{"buffer", buffered, func(f *pdusession.Forward) { f.Action, f.Notify = pdusession.Wait, true }},
		{"drop", smf.FAR{ID: 2, Action: smf.Drop}, func(f *pdusession.Forward) { *f = pdusession.Forward{} }},
		{"to the network", smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceSGiLANN6LAN}, func(f *pdusession.Forward) { *f = pdusession.Forward{Action: pdusession.Pass} }},
		{"to the SMF", smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceCPFunction, Peer: base, TEID: 5}, func(*pdusession.Forward) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, nil)
			b.establish1(b.smf(), downlink().Create(), tt.far.Create())
			s, _ := b.data.only(t)
			want := tunnel
			tt.want(&want)
			if s.Rules[0].Forward != want {
				t.Errorf("%+v instead of %+v", s.Rules[0].Forward, want)
			}
		})
	}
}

func TestTunnelsFromTheCore(t *testing.T) {
	b := start(t, nil)
	n9, ra := smf.PDR{ID: 3, Source: ie.SrcInterfaceCore, Choose: true, UE4: device, FAR: 2}, smf.PDR{ID: 4, Source: ie.SrcInterfaceCPFunction, Choose: true, FAR: 2}
	b.establish1(b.smf(), n9.Create(), ra.Create(), toBase().Create())
	s, _ := b.data.only(t)
	for _, r := range s.Rules {
		if r.TEID == 0 || !r.FromNetwork {
			t.Errorf("%+v", r)
		}
	}
}

func TestTheSameChooseIDGivesTheSameTEID(t *testing.T) {
	b := start(t, nil)
	pdr := func(id uint16, choose uint8) *ie.IE {
		return smf.PDR{ID: id, Choose: true, ChooseID: choose, UE4: device, FAR: 1}.Create()
	}
	m := b.smf()
	is := b.establish1(m, pdr(1, 4), pdr(2, 4), pdr(3, 5), pdr(4, 0), toCore().Create())
	if _, err := m.Modify(b.context(), is, pdr(5, 4), ie.NewRemovePDR(ie.NewPDRID(4))); err != nil {
		t.Fatal(err)
	}
	id := is.TEIDs
	if id[1] != id[2] || id[1] != id[5] || id[1] == id[3] || id[4] == id[1] || id[4] == id[3] || id[1] == 0 || id[4] == 0 {
		t.Errorf("TEIDs: %v", id)
	}
	if n := b.teids(); n != 2 {
		t.Errorf("%d TEIDs in use", n)
	}
}

func TestAGivenTEIDIsKept(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	p := uplink()
	p.Choose, p.TEID, p.Local = false, 0x1234, local4
	is := b.establish1(m, p.Create(), toCore().Create())
	if s, _ := b.data.only(t); s.Rules[0].TEID != 0x1234 {
		t.Errorf("%+v", s.Rules[0])
	}
	p.UE4 = netip.MustParseAddr("10.45.0.8")
	if _, err := m.Establish(b.context(), 1002, p.Create(), toCore().Create()); refused(t, err).Cause != 73 {
		t.Error("another session has the TEID, too")
	}
	if _, err := m.Delete(b.context(), is); err != nil {
		t.Fatal(err)
	}
	b.establish1(m, p.Create(), toCore().Create())
}

func TestPoolsOfAddresses(t *testing.T) {
	b := start(t, func(c *Config) {
		c.Pools = []Pool{{"internet", netip.MustParsePrefix("10.60.0.0/30")}, {"", netip.MustParsePrefix("2001:db8:60::/63")}}
	})
	m := b.smf()
	choose := smf.PDR{ID: 1, Choose: true, Instance: "internet", ChooseUE4: true, ChooseUE6: true, FAR: 1}
	first, second := b.establish1(m, choose.Create(), toCore().Create()), b.establish1(m, choose.Create(), toCore().Create())
	if first.IPv4.String() != "10.60.0.1" || second.IPv4.String() != "10.60.0.2" || first.IPv6.String() != "2001:db8:60::" || second.IPv6.String() != "2001:db8:60:1::" {
		t.Errorf("%+v, %+v", first, second)
	}
	if _, err := m.Establish(b.context(), 1003, choose.Create(), toCore().Create()); refused(t, err).Cause != 79 {
		t.Error(err)
	}
	if _, err := m.Delete(b.context(), first); err != nil {
		t.Fatal(err)
	}
	b.restart()
	m4 := smf.PDR{ID: 1, Choose: true, Instance: "internet", ChooseUE4: true, FAR: 1}
	if is := b.establish1(m, m4.Create(), toCore().Create()); is.IPv4 != first.IPv4 {
		t.Errorf("%+v after the restart", is)
	}
	other := m4
	other.Instance = "ims"
	if _, err := m.Establish(b.context(), 1003, other.Create(), toCore().Create()); refused(t, err).Cause != 79 {
		t.Error("another network instance has the pool, too")
	}
}

func TestGuaranteedRatesAreReturned(t *testing.T) {
	b := start(t, func(c *Config) { c.GuaranteedKbps = 1000 })
	m := b.smf()
	gbr := func(up, down uint64) *ie.IE { return smf.QER(1, 0, 0, 0, ie.NewGBR(up, down)) }
	is := b.establish1(m, plain(gbr(600, 1000))...)
	p := uplink()
	p.UE4 = netip.MustParseAddr("10.45.0.8")
	another := []*ie.IE{p.Create(), toCore().Create(), gbr(400, 1)}
	if _, err := m.Establish(b.context(), 1002, another...); refused(t, err).Cause != 75 {
		t.Error(err)
	}
	if _, err := m.Modify(b.context(), is, ie.NewUpdateQER(ie.NewQERID(1), ie.NewGBR(600, 999))); err != nil {
		t.Fatal(err)
	}
	other, err := m.Establish(b.context(), 1002, another...)
	if err != nil {
		t.Fatal(err)
	}
	if st := b.status(); st.GuaranteedUp != 1000 || st.GuaranteedDown != 1000 {
		t.Errorf("%+v", st)
	}
	for _, s := range []*smf.Session{is, other} {
		if _, err := m.Delete(b.context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if st := b.status(); st.GuaranteedUp+st.GuaranteedDown != 0 {
		t.Errorf("%+v", st)
	}
}

func TestBufferedPacketsAreDropped(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	buffered := toBase()
	buffered.Action = smf.Buffer
	is := b.establish1(m, downlink().Create(), buffered.Create())
	before, _ := b.data.work()
	if _, err := m.Modify(b.context(), is, ie.NewPFCPSMReqFlags(1)); err != nil {
		t.Fatal(err)
	}
	after, _ := b.data.work()
	if s, _ := b.data.only(t); s.Rules[0].Forward.Action != pdusession.Wait || after != before+2 {
		t.Errorf("%+v after %d changes", s.Rules[0], after-before)
	}
}

func TestAPDROfOneFamilyIsForThatFamily(t *testing.T) {
	b := start(t, nil)
	v4, v6, both := downlink(), downlink(), downlink()
	prefix := netip.MustParseAddr("2001:db8:7::")
	v6.ID, v6.UE4, v6.UE6, v6.Filters = 3, netip.Addr{}, prefix, []string{"permit out 17 from any to assigned"}
	both.ID, both.UE6 = 4, prefix
	b.establish1(b.smf(), v4.Create(), v6.Create(), both.Create(), toBase().Create())
	s, _ := b.data.only(t)
	got := []string{showFlow(s.Rules[0].Flows[0]), showFlow(s.Rules[1].Flows[0]), fmt.Sprint(len(s.Rules[2].Flows))}
	if !slices.Equal(got, []string{" remote 0.0.0.0/0", " remote ::/0 proto 17", "0"}) {
		t.Errorf("%q", got)
	}
}
