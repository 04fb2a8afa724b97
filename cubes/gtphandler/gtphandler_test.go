// SPDX-License-Identifier: Apache-2.0

package gtphandler_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // registers the handler, and what it is attached to
	_ "github.com/polycube/polycube/test/classes"       // registers a cube that shows the class of packets
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const (
	gateway, station   = "192.0.2.1", "192.0.2.10"
	gateway6, station6 = "2001:db8:a::1", "2001:db8:a::10"
	stationMAC         = "02:00:00:00:00:0a"
	gatewayMAC         = "02:00:00:00:00:01"
	nextHopMAC         = "02:00:00:00:00:00" // of packets for devices; the test cube writes their class, 0, over its end
	server, server6    = "198.51.100.1", "2001:db8:ffff::1"
)

// locals are the addresses of the gateway.
const locals = `"local-address":[{"address":"` + gateway + `"},{"address":"` + gateway6 + `"}]`

// gatewayLab is a forwarder with a handler g on its first port, whose wire leads to base stations.
type gatewayLab struct {
	*bpftest.Lab
	t *testing.T
}

// handle creates them. A test cube shows the class of packets that come in.
func handle(t *testing.T, l *bpftest.Lab, conf string) *gatewayLab {
	t.Helper()
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("gtphandler", "g", conf)
	l.Create("classes", "shows", `{"shows":true}`)
	l.Attach("shows", "f:p1")
	l.Attach("g", "f:p1")
	return &gatewayLab{l, t}
}

func each(t *testing.T, hosts int, conf string, test func(t *testing.T, g *gatewayLab)) {
	bpftest.Each(t, bpftest.Options{Hosts: hosts}, func(t *testing.T, l *bpftest.Lab) { test(t, handle(t, l, conf)) })
}

// message is a message to the gateway, as a frame from the base station.
func message(m gtpu.Message) []byte {
	return mobile.Frame(stationMAC, gatewayMAC, mobile.Message(station, gateway, m))
}

func encoded(m gtpu.Message) []byte {
	b, err := m.Append(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// uplink is a packet in a tunnel with a TEID.
func uplink(teid uint32, qfi uint8, packet []byte) []byte {
	return message(gtpu.Message{Type: gtpu.PDU, TEID: teid, Extensions: []gtpu.Extension{gtpu.Session{Uplink: true, QFI: qfi}.Extension()}, Payload: packet})
}

// up sends a frame in and returns the packet that comes out, and its class.
func (g *gatewayLab) up(f []byte) (packet []byte, class uint32) {
	g.t.Helper()
	outcome, got := g.RunBytes("veth1", f)
	if want := (bpftest.Outcome{Verdict: "send", Sent: "f:p2"}); outcome != want {
		g.t.Fatalf("%+v, want %+v", outcome, want)
	}
	packet = got[14:]
	if kind := binary.BigEndian.Uint16(got[12:]); kind != mobile.KindOf(packet) {
		g.t.Errorf("EtherType %#04x before %x", kind, packet[:1])
	}
	return packet, binary.BigEndian.Uint32(got[2:])
}

// comes checks what a frame becomes.
func (g *gatewayLab) comes(what string, f, packet []byte, class uint32) {
	g.t.Helper()
	if got, is := g.up(f); !bytes.Equal(got, packet) || is != class {
		g.t.Errorf("%s: class %d, want %d\n got %x\nwant %x", what, is, class, got, packet)
	}
}

// fate checks the fate of a frame at a device.
func (g *gatewayLab) fate(what, dev string, f []byte, want string) {
	g.t.Helper()
	outcome, _ := g.RunBytes(dev, f)
	is := bpftest.Outcome{Verdict: "drop", Fate: want}
	if want == "p1" || want == "p2" {
		is = bpftest.Outcome{Verdict: "send", Sent: "f:" + want}
	}
	if outcome != is {
		g.t.Errorf("%s: %+v, want %+v", what, outcome, is)
	}
}

// down sends a packet in at the other port and returns what comes out to base stations.
func (g *gatewayLab) down(packet []byte) mobile.Tunnelled {
	g.t.Helper()
	outcome, got := g.RunBytes("veth2", mobile.Frame(gatewayMAC, nextHopMAC, packet))
	if want := (bpftest.Outcome{Verdict: "send", Sent: "f:p1"}); outcome != want {
		g.t.Fatalf("%+v, want %+v", outcome, want)
	}
	return g.read(got)
}

// read reads a frame with a tunnel.
func (g *gatewayLab) read(got []byte) mobile.Tunnelled {
	g.t.Helper()
	is, err := mobile.ReadTunnel(got)
	if err != nil {
		g.t.Errorf("%+v: %v", is, err)
	}
	return is
}

func mac(text string) string { return fmt.Sprintf("% x", []byte(pkt.MAC(text))) }

// goes checks what a packet for a device becomes.
func (g *gatewayLab) goes(what string, packet []byte, to string, teid uint32, qfi uint8) {
	g.t.Helper()
	got := g.down(packet)
	from := gateway
	if strings.Contains(to, ":") {
		from = gateway6
	}
	session, has := got.Message.Session()
	if got.From.String() != from || got.To.String() != to || got.Message.TEID != teid || !bytes.Equal(got.Message.Payload, packet) || has != (qfi != 0) || session != (gtpu.Session{QFI: qfi}) {
		g.t.Errorf("%s: %+v, want a tunnel from %s to %s with TEID %d and QFI %d", what, got, from, to, teid, qfi)
	}
}

// counted checks the counters of a device: packets and bytes from it, then to it.
func (g *gatewayLab) counted(ip string, want ...uint64) {
	g.t.Helper()
	var n struct {
		UpPackets   uint64 `json:"uplink-packets"`
		UpBytes     uint64 `json:"uplink-bytes"`
		DownPackets uint64 `json:"downlink-packets"`
		DownBytes   uint64 `json:"downlink-bytes"`
	}
	if err := json.Unmarshal([]byte(g.Read("g user-equipment "+ip)), &n); err != nil {
		g.t.Fatal(err)
	}
	if got := []uint64{n.UpPackets, n.UpBytes, n.DownPackets, n.DownBytes}; fmt.Sprint(got) != fmt.Sprint(want) {
		g.t.Errorf("%s: %v, want %v", ip, got, want)
	}
}

// devices are three users: with a tunnel of its own in each direction, as in the paper, and with both families over IPv6.
const devices = `"user-equipment":[
	{"ip":"10.1.0.1","tunnel-endpoint":"` + station + `","teid":257,"remote-teid":1025,"qfi":9},
	{"ip":"10.1.0.2","tunnel-endpoint":"` + station + `"},
	{"ip":"10.1.0.3","ipv6-prefix":"2001:db8:0:3::","tunnel-endpoint":"` + station6 + `","teid":259,"remote-teid":1027,"traffic-class":7}]`

func TestPacketsLeaveTheirTunnels(t *testing.T) {
	each(t, 0, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab) {
		packet := mobile.Datagram("10.1.0.1", server, 1, 53, []byte("question"), 0)
		six := mobile.Datagram("2001:db8:0:3::77", server6, 1, 53, []byte("question"), 0)
		g.comes("a tunnel", uplink(257, 9, packet), packet, 257)
		g.comes("without any extension header", message(gtpu.Message{Type: gtpu.PDU, TEID: 257, Payload: packet}), packet, 257)
		sequence := uint16(7)
		g.comes("with everything", message(gtpu.Message{Type: gtpu.PDU, TEID: 257, Sequence: &sequence, Payload: packet,
			Extensions: []gtpu.Extension{{Type: 0x40, Content: []byte{1, 2}}, gtpu.Session{Uplink: true, QFI: 1}.Extension(), {Type: 0x20, Content: make([]byte, 6)}}}), packet, 257)
		paper := mobile.Datagram("10.1.0.2", server, 1, 53, []byte("question"), 0)
		g.comes("any TEID is the class", uplink(123456, 9, paper), paper, 123456)
		g.comes("a class of its own, IPv6", uplink(259, 9, six), six, 7)
		four := mobile.Datagram("10.1.0.3", server, 1, 53, nil, 0)
		g.comes("the same tunnel, IPv4", uplink(259, 9, four), four, 7)
		g.comes("a tunnel over IPv6", mobile.Frame(stationMAC, gatewayMAC, mobile.Message(station6, gateway6, gtpu.Message{Type: gtpu.PDU, TEID: 259, Payload: six})), six, 7)
		n := uint64(len(packet))
		g.counted("10.1.0.1", 3, 3*n, 0, 0)
		g.counted("10.1.0.3", 3, 2*uint64(len(six))+uint64(len(four)), 0, 0)
	})
}

func TestPacketsEnterTheirTunnels(t *testing.T) {
	each(t, 0, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab) {
		packet := mobile.Datagram(server, "10.1.0.1", 53, 1, []byte("answer"), 0xb9)
		g.goes("a tunnel", packet, station, 1025, 9)
		if got := g.down(packet); got.TOS != 0xb9 || got.ToMAC != mac(nextHopMAC) || got.FromMAC != mac(gatewayMAC) {
			t.Errorf("DSCP, ECN or MAC addresses are wrong: %+v", got)
		}
		g.goes("the class is the TEID, there is none", mobile.Datagram(server, "10.1.0.2", 53, 1, nil, 0), station, 0, 0)
		g.goes("IPv4 over IPv6", mobile.Datagram(server, "10.1.0.3", 53, 1, []byte("answer"), 0), station6, 1027, 0)
		g.goes("IPv6 over IPv6", mobile.Datagram(server6, "2001:db8:0:3:abcd::1", 53, 1, []byte("answer"), 0), station6, 1027, 0)
		g.fate("for nobody", "veth2", mobile.Frame(gatewayMAC, stationMAC, mobile.Datagram(server, "10.1.0.9", 53, 1, nil, 0)), "p1")
		g.counted("10.1.0.1", 0, 0, 2, 2*uint64(len(packet)))

		// Once the base station was heard, packets go to where it is.
		other := "02:00:00:00:00:0b"
		g.comes("from another MAC address", mobile.Frame(other, gatewayMAC, mobile.Message(station, gateway, gtpu.Message{Type: gtpu.PDU, TEID: 257, Payload: mobile.Datagram("10.1.0.1", server, 1, 2, nil, 0)})),
			mobile.Datagram("10.1.0.1", server, 1, 2, nil, 0), 257)
		if got := g.down(packet); got.ToMAC != mac(other) {
			t.Errorf("packets still go to %s", got.ToMAC)
		}
	})
}

func TestWhatIsNoTunnelOfAUser(t *testing.T) {
	each(t, 0, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab) {
		packet := mobile.Datagram("10.1.0.1", server, 1, 53, []byte("question"), 0)
		to := func(address string, port uint16, payload []byte) []byte {
			return mobile.Frame(stationMAC, gatewayMAC, mobile.Datagram(station, address, 3000, port, payload, 0))
		}
		whole := encoded(gtpu.Message{Type: gtpu.PDU, TEID: 257, Payload: packet})
		g.fate("another address", "veth1", to("192.0.2.2", gtpu.Port, whole), "p2")
		g.fate("another port", "veth1", to(gateway, 2153, whole), "p2")
		g.fate("ARP", "veth1", pkt.Eth(stationMAC, "ff:ff:ff:ff:ff:ff").ARPRequest(stationMAC, station, gateway).Bytes(), "p2")
		fragment := pkt.IPv4Header{From: station, To: gateway, Protocol: pkt.ProtoUDP, TTL: 64, Fragment: 0x2000}.Packet(pkt.UDPDatagram(station, gateway, 3000, gtpu.Port, whole))
		g.fate("a fragment", "veth1", mobile.Frame(stationMAC, gatewayMAC, fragment), "g outer-fragment")
		version2 := append([]byte{0x48}, whole[1:]...)
		g.fate("GTP version 2", "veth1", to(gateway, gtpu.Port, version2), "g wrong-version")
		g.fate("cut off", "veth1", to(gateway, gtpu.Port, whole[:len(whole)-1]), "g malformed")
		g.fate("empty", "veth1", to(gateway, gtpu.Port, nil), "g malformed")
		g.fate("no packet", "veth1", uplink(257, 9, []byte{0x10, 2, 3}), "g malformed")
		g.fate("no packet, but as long as one", "veth1", uplink(257, 9, make([]byte, 30)), "g malformed")
		g.fate("an unknown message", "veth1", message(gtpu.Message{Type: 100}), "g unknown-message")
		g.fate("End Marker", "veth1", message(gtpu.End(257)), "g end-marker")
		g.fate("the address of another one", "veth1", uplink(257, 9, mobile.Datagram("10.1.0.2", server, 1, 53, nil, 0)), "g spoofed-source")
		g.fate("an IPv6 address of another one", "veth1", uplink(259, 9, mobile.Datagram("2001:db8:0:4::1", server6, 1, 53, nil, 0)), "g spoofed-source")
		g.fate("an IPv6 address of one that has none", "veth1", uplink(257, 9, mobile.Datagram("2001:db8::1", server6, 1, 53, nil, 0)), "g spoofed-source")
		g.counted("10.1.0.1", 0, 0, 0, 0)
	})
}

func TestDevicesMove(t *testing.T) {
	each(t, 0, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab) {
		packet := mobile.Datagram(server, "10.1.0.1", 53, 1, []byte("answer"), 0)
		from := mobile.Datagram("10.1.0.1", server, 1, 53, nil, 0)
		g.goes("before", packet, station, 1025, 9)
		g.Set("PATCH", "g user-equipment 10.1.0.1", `{"tunnel-endpoint":"192.0.2.20","remote-teid":2000}`)
		g.goes("to another base station", packet, "192.0.2.20", 2000, 9)
		g.Set("PATCH", "g user-equipment 10.1.0.1", `{"teid":300}`)
		g.comes("another TEID", uplink(300, 9, from), from, 300)
		g.Set("POST", "g user-equipment 10.1.0.4", `{"tunnel-endpoint":"192.0.2.20","teid":257}`)
		g.fate("it belongs to another one", "veth1", uplink(257, 9, from), "g spoofed-source")
		g.counted("10.1.0.1", 1, uint64(len(from)), 2, 2*uint64(len(packet)))

		g.Restart(nil)
		g.goes("after a restart", packet, "192.0.2.20", 2000, 9)
		g.comes("after a restart", uplink(300, 9, from), from, 300)
		g.counted("10.1.0.1", 2, 2*uint64(len(from)), 3, 3*uint64(len(packet)))
		g.counted("10.1.0.4", 0, 0, 0, 0)

		g.Set("DELETE", "g user-equipment 10.1.0.1", "")
		g.fate("for a device that is gone", "veth2", mobile.Frame(gatewayMAC, nextHopMAC, packet), "p1")
		if outcome, _ := g.RunBytes("veth1", uplink(300, 9, from)); outcome.Fate != "g slowpath" {
			t.Errorf("the tunnel of a device that is gone: %+v", outcome)
		}
		g.counts(map[string]int{"error-indications-sent": 1})
	})
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	g := handle(t, l, `{`+locals+`,`+devices+`,"echo-interval":0,"max-user-equipment":4}`)
	e := `"tunnel-endpoint":"192.0.2.10"`
	for _, tt := range []struct {
		method, words, body, why string
		as                       error
	}{
		{"POST", "g user-equipment 10.1.0.5", `{}`, "tunnel-endpoint", nil},
		{"POST", "g user-equipment 10.1.0.5", `{` + e + `,"teid":257}`, "user-equipment 10.1.0.5: 10.1.0.1 has the same teid", cube.ErrExists},
		{"POST", "g user-equipment 2001:db8:0:3::", `{` + e + `}`, "10.1.0.3 has the same IPv6 prefix", cube.ErrExists},
		{"POST", "g user-equipment 2001:db8::5", `{` + e + `}`, "a device has a /64 IPv6 prefix: use its first address, 2001:db8::", cube.ErrInvalid},
		{"POST", "g user-equipment 2001:db8::", `{` + e + `,"ipv6-prefix":"2001:db8:1::"}`, "allowed only if ip is an IPv4 address", cube.ErrInvalid},
		{"POST", "g user-equipment 10.1.0.5", `{` + e + `,"traffic-class":1}`, "traffic-class: requires teid", cube.ErrInvalid},
		{"DELETE", "g local-address " + gateway6, "", "user-equipment 10.1.0.3: tunnel-endpoint 2001:db8:a::10: no local-address of IPv6", cube.ErrInvalid},
		{"POST", "g user-equipment", `[{"ip":"10.1.0.5",` + e + `},{"ip":"10.1.0.6",` + e + `}]`, "5 devices, but max-user-equipment is 4", cube.ErrFull},
		{"PATCH", "g max-user-equipment", `5`, "", nil},
		{"PATCH", "g mtu", `1343`, "out of range", nil}, // an IPv6 packet of 1280 bytes would not fit
	} {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.why) || tt.as != nil && !errors.Is(err, tt.as) {
			t.Errorf("%s %s %s: %v, want %v: %s", tt.method, tt.words, tt.body, err, tt.as, tt.why)
		}
	}
	packet := mobile.Datagram(server, "10.1.0.1", 53, 1, nil, 0)
	g.goes("after all that", packet, station, 1025, 9)
	l.Set("POST", "g local-address 192.0.2.0", "")
	if got := g.down(packet); got.From.String() != "192.0.2.0" {
		t.Errorf("tunnels come from %s, want the first local address", got.From)
	}
}

// TestManyDevices at thousands of base stations are made in a few requests, and one more costs what it costs among few.
func TestManyDevices(t *testing.T) {
	const many, peers = 100_000, 4000
	l := bpftest.New(t, bpftest.Options{Type: cube.TypeXDPDRV})
	g := handle(t, l, fmt.Sprintf(`{%s,"echo-interval":0,"max-user-equipment":%d}`, locals, many+20))
	address := func(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff) }
	peer := func(i int) string { return fmt.Sprintf("198.18.%d.%d", i%peers>>8, i%peers&0xff) }
	begin := time.Now()
	for at := 0; at < many; at += many / 4 {
		var body strings.Builder
		for i := at; i < at+many/4; i++ {
			fmt.Fprintf(&body, `%s{"ip":%q,"tunnel-endpoint":%q,"teid":%d,"remote-teid":%d,"qfi":9}`, map[bool]string{true: ",", false: "["}[i > at], address(i), peer(i), 1+i, 500_000+i)
		}
		l.Set("POST", "g user-equipment", body.String()+"]")
	}
	t.Logf("%d devices are made in %s", many, time.Since(begin))
	packet := mobile.Datagram(server, address(54_321), 53, 1, nil, 0)
	g.goes("one of them", packet, peer(54_321), 554_321, 9)
	begin = time.Now()
	for i := range 20 {
		l.Set("PATCH", "g user-equipment "+address(i), `{"tunnel-endpoint":"192.0.3.250"}`)
	}
	t.Logf("a handover takes %s", time.Since(begin)/20)
	l.Restart(nil)
	if n := strings.Count(l.Read("g base-station"), `"status"`); n != peers+1 { // and the one of the handovers
		t.Errorf("%d base stations, want %d", n, peers+1)
	}
	g.goes("after a restart", packet, peer(54_321), 554_321, 9)
	g.counted(address(54_321), 0, 0, 2, 2*uint64(len(packet)))
}
