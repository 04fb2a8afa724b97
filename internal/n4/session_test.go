// SPDX-License-Identifier: Apache-2.0

package n4

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/smf"
)

var device = netip.MustParseAddr("10.45.0.7")

func TestASessionIsEstablishedModifiedAndDeleted(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is, err := m.Establish(b.context(), 77, smf.Device(device, base, 5)...)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := b.data.only(t)
	if got.IPv4 != device || len(got.Rules) != 2 || len(got.Meters) != 1 || len(got.Usages) != 1 {
		t.Fatalf("the data plane has %+v", got)
	}
	if up := got.Rules[0]; up.ID != 1 || up.TEID == 0 || up.TEID != is.TEIDs[1] || up.FromNetwork || up.Forward.Action != pdusession.Pass || up.Forward.Peer.IsValid() {
		t.Errorf("uplink: %+v", up)
	}
	want := pdusession.Forward{Action: pdusession.Pass, Peer: base, TEID: 5, QFI: 9}
	if down := got.Rules[1]; down.TEID != 0 || down.Forward != want || !slices.Equal(down.Meters, []uint32{1}) || !slices.Equal(down.Usages, []uint32{1}) {
		t.Errorf("downlink: %+v", down)
	}
	if m := got.Meters[0]; m.Up != (pdusession.Rate{Limited: true, BitsPerSecond: 1e8}) || m.Down.BitsPerSecond != 2e8 {
		t.Errorf("meter: %+v", m)
	}
	other := netip.MustParseAddr("2001:db8:1::9")
	if _, err := m.Modify(b.context(), is, smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: other, TEID: 6, EndMarkers: true}.Update()); err != nil {
		t.Fatal(err)
	}
	got, _ = b.data.only(t)
	if f := got.Rules[1].Forward; f.Peer != other || f.TEID != 6 {
		t.Errorf("after the handover: %+v", f)
	}
	if got := b.data.ended(); !slices.Equal(got, []string{base.String() + " 5"}) {
		t.Errorf("end markers: %v", got)
	}
	if _, err := m.Delete(b.context(), is); err != nil {
		t.Fatal(err)
	}
	if sessions, usages := b.data.size(); sessions != 0 || usages != 0 {
		t.Errorf("after the deletion: %d sessions, %d usages", sessions, usages)
	}
	if st := b.status(); st.Sessions != 0 || st.Addresses != 0 {
		t.Errorf("after the deletion: %+v", st)
	}
}

func refused(t *testing.T, err error) smf.RefusedError {
	t.Helper()
	var r *smf.RefusedError
	if !errors.As(err, &r) {
		t.Fatalf("not refused, but: %v", err)
	}
	return *r
}

func TestASessionBelongsToItsSMF(t *testing.T) {
	b := start(t, nil)
	m, other := b.smf(), b.smf()
	is, err := m.Establish(b.context(), 1, smf.Device(device, base, 5)...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Delete(b.context(), is)
	if r := refused(t, err); r.Cause != ie.CauseSessionContextNotFound {
		t.Error(r)
	}
	_, err = b.stranger(netip.AddrPortFrom(loopback(), Port)).Delete(b.context(), is)
	if r := refused(t, err); r.Cause == ie.CauseRequestAccepted {
		t.Error(r)
	}
	_, err = other.Establish(b.context(), 1, smf.Device(device, base, 5)...)
	if r := refused(t, err); r.Cause != ie.CauseRuleCreationModificationFailure {
		t.Errorf("another session with the address: %v", r)
	}
	if sessions, _ := b.data.size(); sessions != 1 {
		t.Errorf("%d sessions", sessions)
	}
}

func TestAnFSEIDThatIsGivenAgainReplacesItsSession(t *testing.T) {
	b := start(t, nil)
	m, other := b.smf(), b.smf()
	old, err := m.Establish(b.context(), 7, plain()...)
	if err != nil {
		t.Fatal(err)
	}
	p := uplink()
	p.UE4 = base
	if _, err := other.Establish(b.context(), 7, p.Create(), toCore().Create()); err != nil {
		t.Fatal(err)
	}
	is, err := m.Establish(b.context(), 7, plain()...)
	if err != nil || is.Seid == old.Seid {
		t.Fatalf("%+v, error %v", is, err)
	}
	if n, _ := b.data.size(); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

func TestARemovalThatIsNotCommittedIsTriedAgain(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	for i := range 3 {
		p := uplink()
		p.UE4 = netip.AddrFrom4([4]byte{10, 45, 1, byte(1 + i)})
		b.establish1(m, p.Create(), toCore().Create())
	}
	failures := 3
	b.data.set(func(f *fake) {
		f.failCommit = func(*fakeBatch) error {
			if failures--; failures >= 0 {
				return errors.New("busy")
			}
			return nil
		}
	})
	if err := m.Release(b.context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no sessions", func() bool {
		n, _ := b.data.size()
		return n == 0 && b.status().Sessions == 0 && b.teids() == 0
	})
}
