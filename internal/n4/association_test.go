// SPDX-License-Identifier: Apache-2.0

package n4

import (
	"net/netip"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/smf"
)

func TestAnAssociationNamesTheFeatures(t *testing.T) {
	b := start(t, func(c *Config) {
		c.NodeID = "upf.example.org"
		c.Pools = []Pool{{"", netip.MustParsePrefix("10.0.0.0/8")}}
	})
	m := b.stranger(netip.AddrPortFrom(loopback(), Port))
	got, err := m.Associate(b.context())
	if err != nil {
		t.Fatal(err)
	}
	f := got.UPFunctionFeatures
	if !f.HasFTUP() || !f.HasEMPU() || !f.HasFRRT() || !f.HasDDND() || !f.HasUEIP() || !f.HasMNOP() || f.HasBUCP() || f.HasTREU() || f.HasPDIU() || f.HasPFDM() {
		t.Errorf("features %x", f.Payload)
	}
	if node, err := got.NodeID.NodeID(); err != nil || node != "upf.example.org" {
		t.Errorf("node %s, error %v", node, err)
	}
	if peers := b.status().Peers; len(peers) != 1 || peers[0].Node != m.Node || !peers[0].Up {
		t.Errorf("%+v", peers)
	}
}

func TestWithoutAnAssociationThereAreNoSessions(t *testing.T) {
	b := start(t, nil)
	m := b.stranger(netip.AddrPortFrom(loopback(), Port))
	_, err := m.Establish(b.context(), 1, plain()...)
	if r := refused(t, err); r.Cause != ie.CauseNoEstablishedPFCPAssociation {
		t.Error(r)
	}
	if err := m.Release(b.context()); refused(t, err).Cause != ie.CauseNoEstablishedPFCPAssociation {
		t.Error(err)
	}
	if _, err := m.Heartbeat(b.context()); err != nil {
		t.Error(err)
	}
}

func TestOnlyAllowedSMFs(t *testing.T) {
	b := start(t, func(c *Config) { c.Allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
	_, err := b.stranger(netip.AddrPortFrom(loopback(), Port)).Associate(b.context())
	if r := refused(t, err); r.Cause != ie.CauseRequestRejected {
		t.Error(r)
	}
}

func TestAnAssociationCannotBeTakenOver(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, plain()...)
	thief := b.stranger(netip.AddrPortFrom(loopback(), Port))
	thief.Node = m.Node
	if _, err := thief.Associate(b.context()); refused(t, err).Cause != ie.CauseRequestRejected {
		t.Error(err)
	}
	if err := thief.Release(b.context()); refused(t, err).Cause != ie.CauseNoEstablishedPFCPAssociation {
		t.Error(err)
	}
	if n, _ := b.data.size(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestWhatRemovesTheSessionsOfAnSMF(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(b *bench, m *smf.SMF) error
		left int
	}{
		{"release", func(b *bench, m *smf.SMF) error { return m.Release(b.context()) }, 0},
		{"a new association", func(b *bench, m *smf.SMF) error { _, err := m.Associate(b.context()); return err }, 0},
		{"a new association that retains them", func(b *bench, m *smf.SMF) error {
			_, err := m.Associate(b.context(), ie.NewGroupedIE(ie.PFCPSessionRetentionInformation))
			return err
		}, 1},
		{"a new recovery time stamp", func(b *bench, m *smf.SMF) error {
			m.Restart()
			_, err := m.Heartbeat(b.context())
			return err
		}, 0},
		{"a heartbeat", func(b *bench, m *smf.SMF) error { _, err := m.Heartbeat(b.context()); return err }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, nil)
			m, other := b.smf(), b.smf()
			b.establish1(m, plain()...)
			p := uplink()
			p.UE4 = base
			b.establish1(other, p.Create(), toCore().Create())
			if err := tt.do(b, m); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the sessions that should be left", func() bool {
				n, _ := b.data.size()
				return n == 1+tt.left && b.status().Sessions == 1+tt.left
			})
		})
	}
}

func TestHeartbeatsFindARestart(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, plain()...)
	m.Restart()
	eventually(t, "no session", func() bool { n, _ := b.data.size(); return n == 0 })
}

func TestAnSMFThatDoesNotAnswerIsDown(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, plain()...)
	m.Answer(func(message.Message) message.Message { return nil })
	eventually(t, "down", func() bool { return !b.status().Peers[0].Up })
	if n, _ := b.data.size(); n != 1 {
		t.Errorf("%d sessions", n)
	}
	m.Answer(m.Accept)
	eventually(t, "up", func() bool { return b.status().Peers[0].Up })
}

func TestAnAssociationIsSetUpWithAConfiguredSMF(t *testing.T) {
	at := netip.AddrPortFrom(loopback(), Port)
	b := start(t, func(c *Config) { c.Peers = []netip.AddrPort{at} })
	m := b.stranger(at)
	eventually(t, "an association", func() bool { return len(b.status().Peers) == 1 })
	b.establish1(m, plain()...)
	if err := b.Leave(); err != nil {
		t.Fatal(err)
	}
	b.await(m, "an Association Update Request", func(is message.Message) bool {
		u, ok := is.(*message.AssociationUpdateRequest)
		return ok && u.PFCPAssociationReleaseRequest != nil
	})
	if err := m.Release(b.context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Associate(b.context()); refused(t, err).Cause != 64 {
		t.Errorf("an association after Leave: %v", err)
	}
	if is := b.status(); len(is.Peers) != 0 || is.Sessions != 0 {
		t.Errorf("after Leave there is %+v", is)
	}
}

// TestLeaveWhileAnAssociationIsSetUp: the SMF accepts a request that was on its way when the UPF left. It is asked to release the
// association, and this end has none, also after a restart.
func TestLeaveWhileAnAssociationIsSetUp(t *testing.T) {
	at := netip.AddrPortFrom(loopback(), Port)
	b := start(t, func(c *Config) { c.Peers, c.T1 = []netip.AddrPort{at}, time.Minute }) // sent once
	eventually(t, "a request on its way", func() bool { return b.status().Pending == 1 })
	if err := b.Leave(); err != nil {
		t.Fatal(err)
	}
	var request uint32
	if err := b.do(func() { request = b.sequence }); err != nil {
		t.Fatal(err)
	}
	m := b.stranger(at)
	b.inbox <- datagram{at, bytesOf(t, message.NewAssociationSetupResponse(request, m.NodeID(), ie.NewCause(ie.CauseRequestAccepted), ie.NewRecoveryTimeStamp(time.Now())))}
	b.await(m, "an Association Update Request", func(is message.Message) bool {
		u, ok := is.(*message.AssociationUpdateRequest)
		return ok && u.PFCPAssociationReleaseRequest != nil
	})
	if is := b.status(); len(is.Peers) != 0 {
		t.Errorf("after Leave there is %+v", is.Peers)
	}
	b.config.Peers = nil
	b.restart()
	if is := b.status(); len(is.Peers) != 0 {
		t.Errorf("after a restart there is %+v", is.Peers)
	}
}

// TestLeaveWhileFormerSessionsAreRemoved: the new association that waits for that is refused, and the former one ends.
func TestLeaveWhileFormerSessionsAreRemoved(t *testing.T) {
	b := start(t, slow)
	m := b.smf()
	b.many(m, 0, 4*maxBatch)
	g := b.gate(m)
	answer := make(chan error, 1)
	go func() { _, err := m.Associate(b.context()); answer <- err }()
	eventually(t, "a batch", func() bool { return g.held.Load() > 0 })
	b.retire() // the server is in the batch that is held
	g.open()
	if err := <-answer; refused(t, err).Cause != ie.CauseRequestRejected {
		t.Error(err)
	}
	if is := b.status(); len(is.Peers) != 0 || is.Sessions != 0 {
		t.Errorf("after Leave there is %+v", is)
	}
}

// await returns the first request of the UPF that is expected.
func (b *bench) await(m *smf.SMF, what string, expected func(message.Message) bool) message.Message {
	b.t.Helper()
	ctx := b.context()
	for {
		select {
		case is := <-m.Requests():
			if expected(is) {
				return is
			}
		case <-ctx.Done():
			b.t.Fatalf("still not: %s", what)
		}
	}
}

func TestBothFamilies(t *testing.T) {
	for _, tt := range []struct{ listen, smf string }{{"[::1]:0", "[::1]:0"}, {"[::]:0", "[::1]:0"}, {"[::]:0", "127.0.0.1:0"}, {"127.0.0.1:0", "127.0.0.1:0"}} {
		t.Run(tt.listen+" "+tt.smf, func(t *testing.T) {
			b := start(t, func(c *Config) { c.Address = netip.MustParseAddrPort(tt.listen) })
			from := netip.MustParseAddrPort(tt.smf)
			m, err := smf.New(from, netip.AddrPortFrom(from.Addr(), b.Addr().Port()), "smf.example.org")
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			got, err := m.Associate(b.context())
			if err != nil {
				t.Fatal(err)
			}
			if node, err := got.NodeID.NodeID(); err != nil || node != from.Addr().String() {
				t.Errorf("node %s, error %v", node, err)
			}
			b.establish1(m, smf.PDR{ID: 1, Choose: true, UE6: netip.MustParseAddr("2001:db8:9::1"), FAR: 1}.Create(), toCore().Create())
			if s, _ := b.data.only(t); s.IPv6.String() != "2001:db8:9::/64" {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestTheRecoveryTimeStampIsThatOfTheStore(t *testing.T) {
	b := start(t, nil)
	was := b.status().Recovery
	if err := b.do(func() { b.recovery = b.recovery.Add(-time.Minute) }); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if is := b.status().Recovery; !is.Equal(was) {
		t.Errorf("%v after the restart, %v before", is, was)
	}
}
