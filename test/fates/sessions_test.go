// SPDX-License-Identifier: Apache-2.0

package fates

// Sessions for cube upf, whose packets are dropped for each reason that a rule can have.

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/sdf"
	"github.com/polycube/polycube/test/bpftest"
)

// What becomes of the packets of a session: its TEID.
const (
	passes uint32 = 1 + iota
	drops
	closed
	exceeds
	used
	waits
	matches
	redirects
)

// device is the address of the device of a session. That of the first one is also host 2, which frames of all services go to.
func device(teid uint32) string {
	if teid == passes {
		return v4[2]
	}
	return fmt.Sprintf("10.1.0.%d", teid)
}

// sessions writes them, as a program beside the daemon does, and returns packets from and to their devices.
func sessions(t *testing.T, l *bpftest.Lab) (all []sample) {
	t.Helper()
	tables, err := pdusession.Open(l.PinsOf("u"))
	if err != nil {
		t.Fatal(err)
	}
	b := tables.Begin()
	for teid := passes; teid <= redirects; teid++ {
		if _, err := b.Put(nil, session(teid)); err != nil {
			t.Fatal(err)
		}
		packet := uplink(teid, from(device(teid), 40))
		if teid == exceeds { // more than the least burst
			packet = uplink(teid, from(device(teid), 1400))
			packet.times = 100
		}
		all = append(all, packet, packet, to(device(teid)))
	}
	_, err = b.Commit()
	if err := errors.Join(err, tables.Close()); err != nil {
		t.Fatal(err)
	}
	return append(all, uplink(passes, from("fd00:2::9", 40)), to(v6[2]))
}

func session(teid uint32) *pdusession.Session {
	s := &pdusession.Session{
		IPv4: netip.MustParseAddr(device(teid)),
		Rules: []pdusession.Rule{
			{ID: 1, TEID: teid, Forward: pdusession.Forward{Action: pdusession.Pass}, Meters: []uint32{1}, Usages: []uint32{1}},
			{ID: 2, Forward: pdusession.Forward{Action: pdusession.Pass, Peer: netip.MustParseAddr(station), TEID: 100 + teid, QFI: 9}},
		},
		Meters: []pdusession.Meter{{ID: 1}},
		Usages: []pdusession.Usage{{ID: 1}},
	}
	up := &s.Rules[0]
	switch teid {
	case passes:
		s.IPv6 = netip.MustParsePrefix("fd00:2::/64")
	case drops:
		up.Forward.Action = pdusession.Drop
	case closed:
		s.Meters[0].Up.Closed = true
	case exceeds:
		s.Meters[0].Up = pdusession.Rate{Limited: true, BitsPerSecond: 8}
	case used:
		s.Usages[0].Quota.Total = 1
	case waits:
		up.Forward.Action = pdusession.Wait
	case redirects:
		up.Forward.Redirect, up.Meters, up.Usages = "http://portal.example/", nil, nil
	case matches:
		up.Flows = []sdf.Flow{{RemotePort: &inet.Ports{First: 80, Last: 80}}}
	}
	return s
}
