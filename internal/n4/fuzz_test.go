// SPDX-License-Identifier: Apache-2.0

package n4

// Any bytes: the server neither panics nor stops, and leaves nothing behind that no session has.

import (
	"net/netip"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/smf"
)

func FuzzMessages(f *testing.F) {
	at := netip.AddrPortFrom(loopback(), Port)
	node := ie.NewNodeIDHeuristic(at.Addr().String())
	cp := ie.NewFSEID(7, at.Addr().AsSlice(), nil)
	setup := bytesOf(f, message.NewAssociationSetupRequest(1, node, ie.NewRecoveryTimeStamp(time.Now())))
	f.Add(setup)
	f.Add(bytesOf(f, message.NewHeartbeatRequest(1, ie.NewRecoveryTimeStamp(time.Now()), nil)))
	f.Add(bytesOf(f, message.NewAssociationReleaseRequest(1, node)))
	f.Add(bytesOf(f, message.NewSessionDeletionRequest(0, 0, 1, 3, 0)))
	f.Add(bytesOf(f, message.NewSessionSetDeletionRequest(1, node, ie.NewFQCSID("192.0.2.50", 1))))
	f.Add(bytesOf(f, message.NewSessionSetDeletionRequest(1, node, ofNode(2, ie.NewFQCSID("2001:db8::50", 1, 2)))))
	for _, list := range [][]*ie.IE{smf.Device(device, base, 5), measured(smf.URR{Triggers: [2]byte{7, 3}, Threshold: 5, Period: time.Second, TimeThreshold: time.Second})} {
		f.Add(bytesOf(f, message.NewSessionEstablishmentRequest(0, 0, 0, 2, 0, append([]*ie.IE{node, cp}, list...)...)))
	}
	for _, tt := range refusals {
		f.Add(bytesOf(f, message.NewSessionEstablishmentRequest(0, 0, 0, 2, 0, append([]*ie.IE{node, cp}, tt.ies...)...)))
		f.Add(bytesOf(f, message.NewSessionModificationRequest(0, 0, 0, 3, 0, tt.ies...)))
	}
	c := testConfig(f)
	c.Address = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0)
	s, err := New(c, newFake())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.conn.Close(); s.store.Close() })
	f.Fuzz(func(t *testing.T, bytes []byte) {
		// A new transaction for each message, and nothing that adds up.
		s.received, s.requests, s.timers, s.out, s.writes = newReceived(), map[uint32]*request{}, nil, nil, nil
		clear(s.peers)
		clear(s.senders)
		receive := func(b []byte) {
			s.receive(datagram{at, b})
			s.commit()
		}
		receive(setup)
		receive(bytesOf(t, message.NewSessionEstablishmentRequest(0, 0, 0, 9, 0, append([]*ie.IE{node, cp}, append(smf.Device(base, base, 6), ie.NewFQCSID("192.0.2.50", 1))...)...)))
		receive(bytes)
		// The same for the session that is there.
		if len(bytes) > 15 && bytes[0]&1 != 0 {
			changed := append([]byte(nil), bytes...)
			for seid := range s.sessions.bySEID {
				for i := range 8 {
					changed[4+i] = byte(seid >> (56 - 8*i))
				}
			}
			changed[12]++
			receive(changed)
		}
		if s.counters.panics != 0 {
			t.Errorf("%d panics", s.counters.panics)
		}
		_ = s.leave(at.Addr().String(), "the end", nil, func() {})
		if n := len(s.sessions.byNumber) + len(s.resources.teids) + len(s.resources.addresses); n != 0 {
			t.Errorf("%d sessions, %d TEIDs, %d addresses are left", len(s.sessions.byNumber), len(s.resources.teids), len(s.resources.addresses))
		}
		if s.resources.gbr.Up+s.resources.gbr.Down != 0 {
			t.Errorf("guaranteed rates %+v", s.resources.gbr)
		}
	})
}
