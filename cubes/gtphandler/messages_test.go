// SPDX-License-Identifier: Apache-2.0

package gtphandler_test

// Messages that are no packets of users, between the gateway and a base station on the wire.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// onWires runs a test in which host 1 is a base station, and host 2 the network.
func onWires(t *testing.T, conf string, test func(t *testing.T, g *gatewayLab, station, network *bpftest.Wire)) {
	each(t, 2, conf, func(t *testing.T, g *gatewayLab) {
		wires := g.Wires()
		test(t, g, wires[0], wires[1])
	})
}

// receives waits for a message to an address; all others are ignored.
func (g *gatewayLab) receives(what string, w *bpftest.Wire, to string, is func(m gtpu.Message) bool) (m gtpu.Message) {
	g.t.Helper()
	_, err := w.Recv(func(got []byte) bool {
		if len(got) < 14+20+8+8 || binary.BigEndian.Uint16(got[12:]) != 0x0800 || got[14+9] != pkt.ProtoUDP {
			return false
		}
		got = got[:14+int(binary.BigEndian.Uint16(got[16:]))] // without padding
		read := g.read(got)
		m = read.Message
		return read.From.String() == gateway && read.To.String() == to && is(m)
	}, bpftest.Patience)
	if err != nil {
		g.t.Errorf("%s: %v", what, err)
	}
	return m
}

// counts checks counters of messages.
func (g *gatewayLab) counts(want map[string]int) {
	g.t.Helper()
	netns.Eventually(g.t, bpftest.Patience, func() error {
		var got map[string]json.Number
		if err := json.Unmarshal([]byte(g.Read("g messages")), &got); err != nil {
			return err
		}
		for name, n := range want {
			if got[name] != json.Number(fmt.Sprint(n)) {
				return fmt.Errorf("%s is %s, want %d", name, got[name], n)
			}
		}
		return nil
	})
}

func TestMessagesAreAnswered(t *testing.T) {
	onWires(t, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab, s, _ *bpftest.Wire) {
		request := gtpu.Echo(false, 77)
		s.Puts(mobile.Frame(stationMAC, gatewayMAC, mobile.Datagram(station, gateway, gtpu.Port, gtpu.Port, encoded(request), 0)))
		g.receives("an Echo Request is answered", s, station, func(m gtpu.Message) bool { return bytes.Equal(encoded(m), encoded(gtpu.Echo(true, 77))) })

		packet := mobile.Datagram("10.1.0.9", server, 1, 53, nil, 0)
		s.Puts(uplink(4711, 9, packet))
		m := g.receives("a packet with an unknown TEID is answered", s, station, func(m gtpu.Message) bool { return m.Type == gtpu.ErrorIndication })
		if teid, address, err := m.Indicated(); err != nil || teid != 4711 || address.String() != gateway {
			t.Errorf("the Error Indication is about TEID %d at %s, %v", teid, address, err)
		}

		unknown := gtpu.Message{Type: gtpu.PDU, TEID: 257, Extensions: []gtpu.Extension{{Type: 0xc0, Content: []byte{1, 2}}}, Payload: packet}
		s.Puts(message(unknown))
		g.receives("an unknown extension header is answered", s, station, func(m gtpu.Message) bool { return bytes.Equal(encoded(m), encoded(gtpu.Supported())) })

		indication := gtpu.Indication(1025, pkt.Prefixes(station + "/32")[0].Addr())
		s.Puts(message(indication))
		s.Puts(mobile.Frame(stationMAC, gatewayMAC, mobile.Datagram("192.0.2.99", gateway, gtpu.Port, gtpu.Port, encoded(indication), 0))) // a stranger
		s.Puts(message(gtpu.Message{Type: gtpu.ErrorIndication, Payload: []byte{1}}))
		s.Puts(message(gtpu.Echo(true, 5))) // to no request
		s.Puts(message(gtpu.Message{Type: gtpu.EchoRequest}))
		g.counts(map[string]int{"echo-requests-answered": 1, "error-indications-sent": 1, "extensions-answered": 1, "error-indications-received": 1, "invalid": 4})
		if logs := g.Logs(); !strings.Contains(logs, "a base station does not know a tunnel") || !strings.Contains(logs, "1025") {
			t.Errorf("the log does not say that the base station does not know the tunnel:\n%s", logs)
		}
	})
}

func TestPacketsThatAreTooBigAreAnsweredOrFragmented(t *testing.T) {
	onWires(t, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab, s, network *bpftest.Wire) {
		const overhead = 20 + 8 + 16 // of 10.1.0.1
		most := mobile.Datagram(server, "10.1.0.1", 53, 1, make([]byte, 1500-overhead-28), 0)
		network.Puts(mobile.Frame(gatewayMAC, stationMAC, most))
		g.receives("the longest one", s, station, func(m gtpu.Message) bool { return bytes.Equal(m.Payload, most) })

		long := mobile.Datagram(server, "10.1.0.1", 53, 1, make([]byte, 1500-overhead-27), 0)
		network.Puts(mobile.Frame(gatewayMAC, stationMAC, long))
		answer := func(got []byte) bool {
			return len(got) >= 14+20+8+20 && got[14+9] == pkt.ProtoICMP && got[34] == 3 && got[35] == 4 &&
				binary.BigEndian.Uint16(got[40:]) == 1500-overhead && bytes.HasPrefix(got[42:], long[:28])
		}
		if _, err := network.Recv(answer, bpftest.Patience); err != nil {
			t.Errorf("a longer one is not answered with the MTU: %v", err)
		}

		whole := pkt.IPv4Header{From: server, To: "10.1.0.1", Protocol: pkt.ProtoUDP, TTL: 64, ID: 5}.Packet(pkt.UDPDatagram(server, "10.1.0.1", 53, 1, make([]byte, 1465)))
		network.Puts(mobile.Frame(gatewayMAC, stationMAC, whole))
		length := 0
		for length < 1465+8 {
			m := g.receives("its fragments", s, station, func(m gtpu.Message) bool { return m.Type == gtpu.PDU && len(m.Payload) > 20 && m.Payload[5] == 5 })
			if len(m.Payload) <= 20 {
				break
			}
			length += len(m.Payload) - 20
		}
		six := mobile.Datagram(server6, "2001:db8:0:3::1", 53, 1, make([]byte, 1400), 0)
		network.Puts(mobile.Frame(gatewayMAC, stationMAC, six))
		answer = func(got []byte) bool {
			return len(got) >= 14+40+8 && got[14+6] == pkt.ProtoICMPv6 && got[54] == 2 && binary.BigEndian.Uint32(got[58:]) == 1500-40-8-8
		}
		if _, err := network.Recv(answer, bpftest.Patience); err != nil {
			t.Errorf("one of IPv6 is not answered with the MTU: %v", err)
		}
		g.counts(map[string]int{"too-big-answered": 2, "fragmented": 1, "invalid": 0})
	})
}

// status waits until a base station has a status.
func (g *gatewayLab) status(address, want string) {
	g.t.Helper()
	netns.Eventually(g.t, bpftest.Patience, func() error {
		if got := g.Read("g base-station " + address + " status"); strings.Trim(got, "\"\n") != want {
			return fmt.Errorf("%s is %s, want %s", address, got, want)
		}
		return nil
	})
}

func TestBaseStationsAreWatched(t *testing.T) {
	onWires(t, `{`+locals+`,`+devices+`,"echo-interval":1,"echo-timeout":1,"echo-requests":2}`, func(t *testing.T, g *gatewayLab, s, _ *bpftest.Wire) {
		g.status(station, "UNKNOWN")
		s.Puts(uplink(257, 9, mobile.Datagram("10.1.0.1", server, 1, 53, nil, 0))) // tells where it is
		request := func(m gtpu.Message) bool { return m.Type == gtpu.EchoRequest && m.Sequence != nil }
		m := g.receives("an Echo Request", s, station, request)
		s.Puts(message(gtpu.Echo(true, *m.Sequence+1))) // another number
		s.Puts(message(gtpu.Echo(true, *m.Sequence)))
		g.status(station, "UP")
		next := g.receives("the next one", s, station, func(n gtpu.Message) bool { return request(n) && *n.Sequence != *m.Sequence })
		again := g.receives("the same once more", s, station, request)
		if next.Sequence != nil && again.Sequence != nil && *again.Sequence != *next.Sequence {
			t.Errorf("a repeated request has number %d after %d", *again.Sequence, *next.Sequence)
		}
		g.status(station, "DOWN")
		m = g.receives("one for a station that is down", s, station, func(n gtpu.Message) bool { return request(n) && *n.Sequence != *next.Sequence })
		s.Puts(message(gtpu.Echo(true, *m.Sequence)))
		g.status(station, "UP")
		if logs := g.Logs(); !strings.Contains(logs, "base station is down") || !strings.Contains(logs, "base station is up") {
			t.Errorf("the log does not say so:\n%s", logs)
		}
		up, down := "g: base station "+station+" is UP", "g: base station "+station+" is DOWN: 2 Echo Requests were not answered"
		if got := g.Events("cube"); !slices.Equal(got, []string{up, down, up}) {
			t.Errorf("events are %q", got)
		}
		var all []struct {
			Address, Status, MAC string
			Users                json.Number `json:"user-equipment"`
		}
		if err := json.Unmarshal([]byte(g.Read("g base-station")), &all); err != nil || len(all) != 2 {
			t.Errorf("base stations: %+v, %v", all, err)
		}
		for _, is := range all {
			if is.Address == station && (is.MAC != stationMAC || is.Users != "2") {
				t.Errorf("%+v", is)
			}
		}
	})
}

func TestTheStationThatADeviceLeavesGetsAnEndMarker(t *testing.T) {
	onWires(t, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab, s, network *bpftest.Wire) {
		s.Puts(uplink(257, 9, mobile.Datagram("10.1.0.1", server, 1, 53, []byte("here"), 0)))
		if _, err := network.Recv(func(got []byte) bool { return bytes.Contains(got, []byte("here")) }, bpftest.Patience); err != nil {
			t.Fatal(err)
		}
		g.Set("PATCH", "g user-equipment 10.1.0.1", `{"tunnel-endpoint":"192.0.2.20","remote-teid":2000}`)
		g.receives("End Marker", s, station, func(m gtpu.Message) bool { return m.Type == gtpu.EndMarker && m.TEID == 1025 && len(m.Payload) == 0 })
		network.Puts(mobile.Frame(gatewayMAC, stationMAC, mobile.Datagram(server, "10.1.0.1", 53, 1, []byte("there"), 0)))
		g.receives("a packet in the new tunnel", s, "192.0.2.20", func(m gtpu.Message) bool { return m.Type == gtpu.PDU && m.TEID == 2000 })
		g.counts(map[string]int{"end-markers-sent": 1})
	})
}

// TestFloodsAreLimited: of messages that user space answers, most are dropped before they reach it, and packets of users pass.
func TestFloodsAreLimited(t *testing.T) {
	each(t, 0, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab) {
		const flood = 10_000
		packet := mobile.Datagram("10.1.0.1", server, 1, 53, nil, 0)
		for name, f := range map[string][]byte{
			"Echo":             message(gtpu.Echo(false, 1)),
			"unknown TEID":     uplink(4711, 9, mobile.Datagram("10.1.0.9", server, 1, 53, nil, 0)),
			"Error Indication": message(gtpu.Indication(1025, pkt.Prefixes(station + "/32")[0].Addr())),
		} {
			before := g.Fates("g")
			g.Flood("veth1", f, flood)
			after := g.Fates("g")
			came, dropped := after["slowpath"]-before["slowpath"], after["flooded"]-before["flooded"]
			if came+dropped+after["slowpath-shed"]-before["slowpath-shed"] != flood || dropped < flood/2 {
				t.Errorf("%s: %d of %d messages reach user space, and %d are dropped", name, came, flood, dropped)
			}
		}
		netns.Eventually(t, bpftest.Patience, func() error { // an answer may still be counted with it
			if outcome, got := g.RunBytes("veth1", uplink(257, 9, packet)); outcome.Sent != "f:p2" || !bytes.Equal(got[14:], packet) {
				return fmt.Errorf("a packet of a user: %+v", outcome)
			}
			return nil
		})
	})
}
