// SPDX-License-Identifier: Apache-2.0

package upf_test

// End Markers that come in on tunnels whose packets enter other ones.

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/sdf"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
)

// ended is the End Marker of a tunnel, from another user plane.
func ended(teid uint32) []byte {
	return mobile.Frame(stationMAC, gatewayMAC, mobile.Message(anchor, gateway, gtpu.End(teid)))
}

// markers checks what became of End Markers.
func (c *core) markers(forwarded, discarded uint64) {
	c.t.Helper()
	netns.Eventually(c.t, bpftest.Patience, func() error {
		var is struct {
			Forwarded uint64 `json:"end-markers-forwarded"`
			Discarded uint64 `json:"end-markers-discarded"`
		}
		if err := json.Unmarshal([]byte(c.Read("u messages")), &is); err != nil {
			return err
		}
		if is.Forwarded != forwarded || is.Discarded != discarded {
			return fmt.Errorf("%d End Markers were forwarded and %d discarded, want %d and %d", is.Forwarded, is.Discarded, forwarded, discarded)
		}
		return nil
	})
}

// arrival is a message that leaves for the cube behind, in short: "TEID N" for a packet, "end of TEID" for an End Marker.
func arrival(t *testing.T, wire *bpftest.Wire) string {
	t.Helper()
	frame, err := wire.Recv(func(frame []byte) bool { return len(frame) >= 50 && frame[12] == 8 && frame[23] == 17 }, bpftest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	is, err := mobile.ReadTunnel(frame[:14+int(frame[16])<<8+int(frame[17])])
	switch {
	case err != nil:
		t.Fatal(err)
	case is.From != addr(gateway) || is.To != addr(station):
		t.Errorf("from %s to %s, want %s and %s", is.From, is.To, gateway, station)
	case is.Message.Type == gtpu.EndMarker:
		return fmt.Sprintf("end of %d", is.Message.TEID)
	}
	return fmt.Sprintf("%d %d", is.Message.TEID, is.Message.Payload[28])
}

func arrive(t *testing.T, wire *bpftest.Wire, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, arrival(t, wire))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// onward is a session whose packets to the phone come from another user plane.
func onward(rules ...pdusession.Rule) *pdusession.Session {
	for i := range rules {
		rules[i].ID, rules[i].TEID, rules[i].FromNetwork = uint16(2+i), 258, true
	}
	s := session()
	s.Rules = append(s.Rules[:1], rules...)
	return s
}

func tunnel(teid uint32) pdusession.Forward {
	return pdusession.Forward{Action: pdusession.Pass, Peer: addr(station), TEID: teid}
}

func numbered(i byte, port uint16) []byte {
	return uplink(258, 0, mobile.Datagram(server, phone, port, 1000, []byte{i}, 0))
}

func TestEndMarkersFollowTheLastPackets(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		s := onward(pdusession.Rule{Forward: tunnel(1025)})
		rows := c.put(nil, s)
		wires[0].Puts(numbered(1, 53))
		wires[0].Puts(ended(258))
		arrive(t, wires[1], "1025 1", "end of 1025")
		c.markers(1, 0)

		// Behind packets that wait, into the tunnel that these enter then.
		s.Rules[1].Forward = pdusession.Forward{Action: pdusession.Wait}
		rows = c.put(rows, s)
		wires[0].Puts(numbered(2, 53))
		wires[0].Puts(numbered(3, 53))
		wires[0].Puts(ended(258))
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := c.Read("u buffer packets"); n != "3" {
				return fmt.Errorf("%s wait, want 3", n)
			}
			return nil
		})
		s.Rules[1].Forward = tunnel(1026)
		rows = c.put(rows, s)
		arrive(t, wires[1], "1026 2", "1026 3", "end of 1026")
		c.markers(2, 0)
		if got := c.Read("u buffer packets"); got != "0" {
			t.Errorf("%s packets wait still", got)
		}

		// What waits is dropped, and so is the marker.
		s.Rules[1].Forward = pdusession.Forward{Action: pdusession.Wait}
		rows = c.put(rows, s)
		wires[0].Puts(numbered(4, 53))
		for range 10 { // more than a row has room for
			wires[0].Puts(ended(258))
		}
		c.markers(2, 2)
		s.Rules[1].Forward = pdusession.Forward{Action: pdusession.Drop}
		c.put(rows, s)
		c.markers(2, 10)
		wires[0].Puts(ended(258))
		c.markers(2, 11) // its packets have waited, and are dropped now

		// No packet of these tunnels enters another one.
		for _, teid := range []uint32{257, 999} {
			c.fate("no next tunnel", "veth1", ended(teid), "end-marker")
		}
		c.markers(2, 11)
	})
}

// TestAnEndMarkerIsForAllNextTunnels of a tunnel whose flows part, once for each, and behind the packets of all.
func TestAnEndMarkerIsForAllNextTunnels(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		rule := func(port uint16, f pdusession.Forward) pdusession.Rule {
			return pdusession.Rule{Flows: []sdf.Flow{{RemotePort: ports(port)}}, Forward: f}
		}
		s := onward(rule(53, tunnel(1025)), rule(80, tunnel(1025)), rule(443, tunnel(1026)), rule(22, pdusession.Forward{Action: pdusession.Drop}))
		rows := c.put(nil, s)
		wires[0].Puts(ended(258))
		arrive(t, wires[1], "end of 1025", "end of 1026")
		c.markers(2, 0)

		s.Rules[1].Forward.Action, s.Rules[3].Forward.Action = pdusession.Wait, pdusession.Wait
		rows = c.put(rows, s)
		wires[0].Puts(numbered(1, 53))
		wires[0].Puts(numbered(2, 443))
		wires[0].Puts(ended(258))
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := c.Read("u buffer packets"); n != "4" { // the marker is behind both
				return fmt.Errorf("%s wait, want 4", n)
			}
			return nil
		})
		s.Rules[3].Forward.Action = pdusession.Pass
		rows = c.put(rows, s)
		arrive(t, wires[1], "1026 2")
		c.markers(2, 0)
		s.Rules[1].Forward.Action = pdusession.Pass
		c.put(rows, s)
		arrive(t, wires[1], "1025 1", "end of 1025", "end of 1026")
		c.markers(4, 0)
	})
}
