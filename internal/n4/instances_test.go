// SPDX-License-Identifier: Apache-2.0

package n4

// Network instances of the data plane: which local address the tunnels of a rule have, and TEIDs of their own.

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/test/smf"
)

var (
	n9, n9v6   = netip.MustParseAddr("192.0.3.1"), netip.MustParseAddr("2001:db8:9::1")
	n4u, slice = netip.MustParseAddr("192.0.4.1"), netip.MustParseAddr("192.0.5.1")
	// severalLocals are addresses without a network instance, and those of others.
	severalLocals = rules.Locals{
		{Address: local4}, {Address: local6}, {Address: n9, Instance: "N9"}, {Address: netip.MustParseAddr("192.0.3.9"), Instance: "N9"},
		{Address: n9v6, Instance: "N9"}, {Address: n4u, Instance: "n4-u"}, {Address: slice, Instance: "slice2"},
	}
)

// startWith starts a server whose data plane has these.
func startWith(t *testing.T, locals rules.Locals) *bench {
	b := start(t, nil)
	b.data.set(func(f *fake) { f.locals = locals })
	return b
}

func TestRulesHaveTheLocalAddressOfTheirInterface(t *testing.T) {
	for _, tt := range []struct {
		name     string
		source   uint8
		instance string
		want     netip.Addr
	}{
		{"access", ie.SrcInterfaceAccess, "", local4},
		{"access, a name that no address has", ie.SrcInterfaceAccess, "internet", local4},
		{"access, by name", ie.SrcInterfaceAccess, "slice2", slice},
		{"core", ie.SrcInterfaceCore, "", n9},
		{"core, a name that no address has", ie.SrcInterfaceCore, "internet", n9},
		{"core, by name", ie.SrcInterfaceCore, "slice2", slice},
		{"the CP function", ie.SrcInterfaceCPFunction, "", n4u},
		{"N6-LAN", ie.SrcInterfaceSGiLANN6LAN, "", local4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := startWith(t, severalLocals)
			p, f := uplink(), toBase()
			p.Source, p.Instance, p.FAR = tt.source, tt.instance, 2
			f.Destination, f.Instance = tt.source, tt.instance // the two have the same numbers
			is := b.establish1(b.smf(), p.Create(), f.Create())
			if got := is.Locals[1]; got != tt.want {
				t.Errorf("the F-TEID is at %v, want %v", got, tt.want)
			}
			instance, _ := severalLocals.Of(tt.want)
			s, _ := b.data.only(t)
			if r := &s.Rules[0]; r.Instance != instance || r.Forward.Instance != instance {
				t.Errorf("packets come to %q and are sent from %q, want %q", r.Instance, r.Forward.Instance, instance)
			}
		})
	}
}

func TestTheLowestAddressOfANetworkInstanceIsItsSource(t *testing.T) {
	for of, want := range map[string]netip.Addr{"0.0.0.0": n9, "::": n9v6} {
		if got, err := severalLocals.Address("N9", netip.MustParseAddr(of)); err != nil || got != want {
			t.Errorf("of the family of %s: %v, %v, want %v", of, got, err, want)
		}
	}
	if got, err := severalLocals.Address("slice2", netip.IPv6Unspecified()); err == nil {
		t.Errorf("IPv6 of slice2: %v", got)
	}
}

// given is a PDR whose F-TEID the SMF gives.
func given(teid uint32, local, ue netip.Addr) []*ie.IE {
	p := uplink()
	p.Choose, p.TEID, p.Local, p.UE4 = false, teid, local, ue
	return []*ie.IE{p.Create(), toCore().Create()}
}

func TestTheSameTEIDInTwoNetworkInstances(t *testing.T) {
	b := startWith(t, severalLocals)
	m := b.smf()
	first := b.establish1(m, given(700, local4, device)...)
	b.establish1(m, given(700, n9, device.Next())...)
	check := func(what string, cp uint64, local netip.Addr, why string) {
		t.Helper()
		_, err := m.Establish(b.context(), cp, given(700, local, device.Next().Next())...)
		if r := refused(t, err); r.Cause != ie.CauseRuleCreationModificationFailure || !strings.Contains(b.logs.String(), why) {
			t.Errorf("%s: %v\n%s", what, r, b.logs)
		}
	}
	check("again", 50, n9, "another session has the TEID")
	check("again, at another address of it", 51, n9v6, "another session has the TEID")
	check("no local address", 52, base, "192.0.2.100 is not an address of tunnels")
	b.restart()
	check("after a restart", 53, n9, "another session has the TEID")
	if _, err := m.Delete(b.context(), first); err != nil {
		t.Fatal(err)
	}
	check("the other one is gone", 54, n9, "another session has the TEID")
	b.establish1(m, given(700, local4, device)...)
	if got := b.teids(); got != 2 {
		t.Errorf("%d TEIDs are in use, want 2", got)
	}
}

func TestAnFTEIDIsInOneNetworkInstance(t *testing.T) {
	b := startWith(t, severalLocals)
	with := func(v4, v6 netip.Addr) []*ie.IE {
		p := uplink()
		p.Choose = false
		p.InPDI = []*ie.IE{ie.NewFTEID(3, 700, v4.AsSlice(), v6.AsSlice(), 0)}
		p.More = []*ie.IE{ie.NewOuterHeaderRemoval(6, 0)}
		return []*ie.IE{p.Create(), toCore().Create()}
	}
	m := b.smf()
	_, err := m.Establish(b.context(), 90, with(local4, n9v6)...)
	if r := refused(t, err); r.Cause != ie.CauseRuleCreationModificationFailure {
		t.Error(r)
	}
	b.establish1(m, with(n9, n9v6)...)
	if s, _ := b.data.only(t); s.Rules[0].Instance != "N9" {
		t.Errorf("it is in %q", s.Rules[0].Instance)
	}
	// A family that the network instance does not have.
	p := uplink()
	p.Choose, p.Instance, p.UE4 = false, "slice2", device.Next()
	p.InPDI = []*ie.IE{ie.NewFTEID(6, 0, nil, nil, 0)} // CHOOSE, IPv6
	_, err = m.Establish(b.context(), 91, p.Create(), toCore().Create())
	if r := refused(t, err); r.Cause != ie.CauseRuleCreationModificationFailure {
		t.Error(r)
	}
	f := toBase()
	f.Instance, f.Peer = "slice2", netip.MustParseAddr("2001:db8:1::9")
	up := uplink()
	up.UE4 = device.Next()
	_, err = m.Establish(b.context(), 92, up.Create(), f.Create(), toCore().Create())
	if r := refused(t, err); r.Cause != ie.CauseRuleCreationModificationFailure {
		t.Error(r)
	}
}

func TestAnEndMarkerComesFromTheFormerNetworkInstance(t *testing.T) {
	b := startWith(t, severalLocals)
	m := b.smf()
	p, f := uplink(), toCore()
	f.Peer, f.TEID = base, 8
	is := b.establish1(m, p.Create(), f.Create())
	f.Instance, f.TEID, f.EndMarkers = "slice2", 9, true
	if _, err := m.Modify(b.context(), is, f.Update()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an end marker", func() bool { return slices.Equal(b.data.ended(), []string{base.String() + " 8 from N9"}) })
	if s, _ := b.data.only(t); s.Rules[0].Forward.Instance != "slice2" {
		t.Errorf("packets are sent from %q", s.Rules[0].Forward.Instance)
	}
}

// TestPDRsWithAChooseIDShareATEID of their network instance alone.
func TestPDRsWithAChooseIDShareATEID(t *testing.T) {
	b := startWith(t, severalLocals)
	pdr := func(id uint16, source uint8) *ie.IE {
		return smf.PDR{ID: id, Source: source, Choose: true, ChooseID: 3, UE4: device, FAR: 1}.Create()
	}
	is := b.establish1(b.smf(), pdr(1, ie.SrcInterfaceAccess), pdr(2, ie.SrcInterfaceAccess), pdr(3, ie.SrcInterfaceCore), toCore().Create())
	if is.TEIDs[1] != is.TEIDs[2] || is.Locals[1] != local4 || is.Locals[3] != n9 || is.TEIDs[3] == 0 || b.teids() != 2 {
		t.Errorf("%v at %v", is.TEIDs, is.Locals)
	}
}
