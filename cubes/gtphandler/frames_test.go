// SPDX-License-Identifier: Apache-2.0

package gtphandler_test

// Ethernet sessions: frames in and out of tunnels, byte by byte.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const (
	deviceA, deviceB = "02:0d:00:00:00:01", "02:0d:00:00:00:02"
	hostMAC          = "02:0e:00:00:00:01" // in the network
	broadcast        = "ff:ff:ff:ff:ff:ff"
)

// sessions are one that learns, one with a configured address, and one over IPv6.
const sessions = `"session-type":"ETHERNET","ethernet-session":[
	{"teid":257,"tunnel-endpoint":"` + station + `","remote-teid":1025,"qfi":9,"max-learned-addresses":2,"traffic-class":7},
	{"teid":258,"tunnel-endpoint":"` + station + `","remote-teid":1026,"mac-address":[{"address":"` + deviceB + `"}]},
	{"teid":259,"tunnel-endpoint":"` + station6 + `","remote-teid":1027,"qfi":5}]`

// bridged is a gateway for Ethernet sessions. Host 1 is the link of base stations, host 2 the network.
type bridged struct {
	*gatewayLab
	stations, network *bpftest.Wire
	own               string // the MAC address of the port
}

func eachBridged(t *testing.T, conf string, test func(t *testing.T, g *bridged)) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) { test(t, bridge(t, l, conf)) })
}

// onBridge runs a test of user space, which is the same at each hook, at one.
func onBridge(t *testing.T, conf string, test func(t *testing.T, g *bridged)) {
	t.Parallel()
	test(t, bridge(t, bpftest.New(t, bpftest.Options{Hosts: 2, Type: cube.TypeXDPDRV}), conf))
}

// bridge creates one.
func bridge(t *testing.T, l *bpftest.Lab, conf string) *bridged {
	t.Helper()
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
			"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("gtphandler", "g", `{`+locals+`,"echo-interval":0,`+conf+`}`)
	l.Attach("g", "f:p1")
	wires := l.Wires()
	b := &bridged{gatewayLab: &gatewayLab{l, t}, stations: wires[0], network: wires[1]}
	b.learnOwn()
	return b
}

// learnOwn finds the gateway as a base station does, and lets it find the base stations.
func (g *bridged) learnOwn() {
	g.t.Helper()
	g.stations.Puts(pkt.Eth(stationMAC, broadcast).ARPRequest(stationMAC, station, gateway).Bytes())
	got, err := g.stations.Recv(func(got []byte) bool { return len(got) >= 42 && got[13] == 6 && got[21] == 2 }, bpftest.Patience)
	if err != nil {
		g.t.Fatalf("the gateway does not answer an ARP request: %v", err)
	}
	g.own = net.HardwareAddr(got[6:12]).String()
	if want := pkt.Eth(g.own, stationMAC).ARPReply(g.own, gateway, stationMAC, station).Bytes(); !bytes.Equal(got[:42], want[:42]) {
		g.t.Errorf("ARP reply\n got %x\nwant %x", got[:42], want[:42])
	}
	advertisement := pkt.ICMPv6Message(station6, gateway6, 136, 0, 0x60000000, append(address6(station6), append([]byte{2, 1}, pkt.MAC(stationMAC)...)...))
	g.stations.Puts(mobile.Frame(stationMAC, g.own, pkt.IPv6Header{From: station6, To: gateway6, Next: pkt.ProtoICMPv6, HopLimit: 255}.Packet(advertisement)))
	g.heard(station6)
}

func address6(text string) []byte { return pkt.Prefixes(text + "/128")[0].Addr().AsSlice() }

// heard waits until the gateway knows where a base station is.
func (g *bridged) heard(station string) {
	g.t.Helper()
	netns.Eventually(g.t, bpftest.Patience, func() error {
		if got := g.Read("g base-station " + station); !strings.Contains(got, stationMAC) {
			return fmt.Errorf("the base station is %s", got)
		}
		return nil
	})
}

// inTunnel is a frame from a base station with a device's frame.
func (g *bridged) inTunnel(teid uint32, frame []byte) []byte {
	m := gtpu.Message{Type: gtpu.PDU, TEID: teid, Extensions: []gtpu.Extension{gtpu.Session{Uplink: true, QFI: 9}.Extension()}, Payload: frame}
	return mobile.Frame(stationMAC, g.own, mobile.Message(station, gateway, m))
}

// udp is a frame with a datagram.
func udp(from, to string, length int) []byte {
	return mobile.Frame(from, to, mobile.Datagram("10.9.0.1", "10.9.0.2", 1000, 2000, bytes.Repeat([]byte{0xa5}, length), 0xb8))
}

// learn lets a device send its first frame.
func (g *bridged) learn(teid uint32, device string) {
	g.t.Helper()
	g.stations.Puts(g.inTunnel(teid, udp(device, hostMAC, 30)))
	netns.Eventually(g.t, bpftest.Patience, func() error {
		if got := g.Read(fmt.Sprintf("g ethernet-session %d", teid)); !strings.Contains(got, device) {
			return fmt.Errorf("%s is not learned: %s", device, got)
		}
		return nil
	})
}

// leaves checks that a device's frame comes out to the network as it is, maybe padded.
func (g *bridged) leaves(what string, teid uint32, frame []byte) {
	g.t.Helper()
	same := func(got []byte) bool {
		return len(got) <= max(len(frame), 60) && bytes.HasPrefix(got, frame) && len(bytes.TrimRight(got[len(frame):], "\x00")) == 0
	}
	if g.Type == cube.TypeTC && frame[12]&0x7f == 1 || frame[12] == 0x88 && frame[13] == 0xa8 { // a test run does not show a tag in the skb
		g.stations.Puts(g.inTunnel(teid, frame))
		if _, err := g.network.Recv(same, bpftest.Patience); err != nil {
			g.t.Errorf("%s: %v", what, err)
		}
		return
	}
	outcome, got := g.RunBytes("veth1", g.inTunnel(teid, frame))
	if want := (bpftest.Outcome{Verdict: "send", Sent: "f:p2"}); outcome != want || !same(got) {
		g.t.Errorf("%s: %+v, want %+v\n got %x\nwant %x", what, outcome, want, got, frame)
	}
}

// enters checks the tunnel that a frame from the network gets into.
func (g *bridged) enters(what string, frame []byte, to string, teid uint32, qfi uint8) {
	g.t.Helper()
	outcome, got := g.RunBytes("veth2", frame)
	if want := (bpftest.Outcome{Verdict: "send", Sent: "f:p1"}); outcome != want {
		g.t.Errorf("%s: %+v, want %+v", what, outcome, want)
		return
	}
	is := g.read(got)
	from := gateway
	if strings.Contains(to, ":") {
		from = gateway6
	}
	session, has := is.Message.Session()
	if is.From.String() != from || is.To.String() != to || is.FromMAC != mac(g.own) || is.ToMAC != mac(stationMAC) || is.Message.TEID != teid ||
		has != (qfi != 0) || session != (gtpu.Session{QFI: qfi}) || !bytes.Equal(is.Message.Payload, frame) {
		g.t.Errorf("%s: %+v\nwant a tunnel from %s to %s with TEID %d, QFI %d and\n%x", what, is, from, to, teid, qfi, frame)
	}
}

// frameKinds are frames from one address to another of all kinds.
func frameKinds(from, to string) map[string][]byte {
	return map[string][]byte{
		"UDP over IPv4":   udp(from, to, 100),
		"an odd length":   udp(from, to, 101),
		"a short packet":  udp(from, to, 12),
		"IPv6":            mobile.Frame(from, to, mobile.Datagram("2001:db8::1", "2001:db8::2", 1, 2, []byte("six"), 0x28)),
		"ICMP":            pkt.Eth(from, to).IPv4("10.9.0.1", "10.9.0.2").Echo(1, 2).Payload(33).Bytes(),
		"ARP":             pkt.Eth(from, to).ARPReply(from, "10.9.0.1", to, "10.9.0.2").Bytes(),
		"a tag":           pkt.Tagged(udp(from, to, 40), 0x81000064),
		"two tags":        pkt.Tagged(udp(from, to, 40), 0x88a80007, 0x81000064),
		"a tagged ARP":    pkt.Tagged(pkt.Eth(from, to).ARPReply(from, "10.9.0.1", to, "10.9.0.2").Bytes(), 0x81006064),
		"another type":    pkt.EthernetFrame(pkt.MAC(to), pkt.MAC(from), 0x88b5, bytes.Repeat([]byte{7}, 61)),
		"the longest one": udp(from, to, 1500-44-14-28),
	}
}

func TestFramesLeaveAndEnterTheirTunnels(t *testing.T) {
	eachBridged(t, sessions, func(t *testing.T, g *bridged) {
		g.learn(257, deviceA)
		for what, frame := range frameKinds(deviceA, hostMAC) {
			g.leaves(what, 257, frame)
		}
		short := pkt.EthernetFrame(pkt.MAC(hostMAC), pkt.MAC(deviceA), 0x88b5, nil)
		g.leaves("a header alone", 257, short)
		padded := append(g.inTunnel(257, udp(deviceA, hostMAC, 60)), 1, 2, 3, 4)
		if _, got := g.RunBytes("veth1", padded); !bytes.Equal(got, udp(deviceA, hostMAC, 60)) {
			t.Errorf("what is behind a message stays: %x", got)
		}
		for what, frame := range frameKinds(hostMAC, deviceA) {
			g.enters(what, frame, station, 1025, 9)
		}
		for what, frame := range frameKinds(hostMAC, deviceB) {
			g.enters(what+" without a QFI", frame, station, 1026, 0)
		}
		if outcome, got := g.RunBytes("veth2", udp(hostMAC, deviceA, 9)); outcome.Verdict == "send" && g.read(got).TOS != 0xb8 {
			t.Error("DSCP is not copied")
		}
		g.learn(259, "02:0d:00:00:00:03")
		for what, frame := range frameKinds(hostMAC, "02:0d:00:00:00:03") {
			if what != "the longest one" { // the outer header is 20 bytes longer
				g.enters(what+" over IPv6", frame, station6, 1027, 5)
			}
		}
	})
}

func TestFramesThatAreDropped(t *testing.T) {
	eachBridged(t, sessions, func(t *testing.T, g *bridged) {
		g.learn(257, deviceA)
		g.learn(257, "02:0d:00:00:00:0a")
		in := func(teid uint32, from string) []byte { return g.inTunnel(teid, udp(from, hostMAC, 20)) }
		g.fate("13 bytes", "veth1", g.inTunnel(257, udp(deviceA, hostMAC, 20)[:13]), "g malformed")
		g.fate("no byte", "veth1", g.inTunnel(257, nil), "g malformed")
		g.fate("from a group", "veth1", in(257, "03:00:00:00:00:01"), "g malformed")
		g.fate("from nobody", "veth1", in(257, "00:00:00:00:00:00"), "g malformed")
		g.fate("not the configured address", "veth1", in(258, "02:0d:00:00:00:0b"), "g spoofed-source")
		g.fate("the configured address of another session", "veth1", in(257, deviceB), "g spoofed-source")
		g.fate("the learned address of another session", "veth1", in(259, deviceA), "g address-in-use")
		netns.Eventually(t, bpftest.Patience, func() error {
			if outcome, _ := g.RunBytes("veth1", in(257, "02:0d:00:00:00:0c")); outcome.Fate != "g too-many-addresses" {
				return fmt.Errorf("one more than are learned: %+v", outcome)
			}
			return nil
		})
		g.fate("not in a tunnel", "veth1", udp(stationMAC, g.own, 20), "g not-tunnelled")
		g.fate("a tagged tunnel", "veth1", pkt.Tagged(in(257, deviceA), 0x81000005), "g not-tunnelled")
		g.fate("no device", "veth2", udp(hostMAC, "02:0d:00:00:00:0d", 20), "g unknown-device")
		g.fate("too long, and no IP", "veth2", pkt.EthernetFrame(pkt.MAC(deviceA), pkt.MAC(hostMAC), 0x88b5, make([]byte, 1500-44-13)), "g not-encapsulated")
		g.Set("POST", "g ethernet-session 260", `{"tunnel-endpoint":"192.0.2.99","remote-teid":5,"mac-address":[{"address":"02:0d:00:00:00:60"}]}`)
		g.fate("a station that was never heard", "veth2", udp(hostMAC, "02:0d:00:00:00:60", 20), "g unknown-station")
	})
}

// TestDevicesReachEachOther through the cube alone, whatever is behind it.
func TestDevicesReachEachOther(t *testing.T) {
	eachBridged(t, sessions, func(t *testing.T, g *bridged) {
		g.learn(257, deviceA)
		frame := udp(deviceA, deviceB, 77)
		g.stations.Puts(g.inTunnel(257, frame))
		g.received("another session", map[uint32][]byte{1026: frame})

		group := udp(deviceA, broadcast, 78)
		g.stations.Puts(g.inTunnel(257, group))
		g.received("a broadcast of a device", map[uint32][]byte{1026: group})
		g.network.Gets(group)

		group = pkt.Eth(hostMAC, broadcast).ARPRequest(hostMAC, "10.9.0.2", "10.9.0.1").Bytes()
		g.network.Puts(group)
		g.received("an ARP request", map[uint32][]byte{1025: group, 1026: group})
	})
}

// received waits for frames in tunnels, by their TEID.
func (g *bridged) received(what string, want map[uint32][]byte) {
	g.t.Helper()
	for len(want) > 0 {
		_, err := g.stations.Recv(func(got []byte) bool {
			is, ok := tunnelled(got)
			if !ok || want[is.Message.TEID] == nil || !bytes.HasPrefix(is.Message.Payload, want[is.Message.TEID]) {
				return false
			}
			delete(want, is.Message.TEID)
			return true
		}, bpftest.Patience)
		if err != nil {
			g.t.Fatalf("%s: not received: %v: %v", what, want, err)
		}
	}
}

// tunnelled reads a frame, if it is one with a tunnel over IPv4.
func tunnelled(frame []byte) (is mobile.Tunnelled, ok bool) {
	if len(frame) < 14+20+8+8 || frame[12] != 8 || frame[13] != 0 || frame[14+9] != pkt.ProtoUDP {
		return is, false
	}
	is, err := mobile.ReadTunnel(frame)
	return is, err == nil
}

func TestTheGatewayIsAHostOnTheLink(t *testing.T) {
	onBridge(t, sessions, func(t *testing.T, g *bridged) {
		g.stations.Puts(pkt.Eth(stationMAC, g.own).IPv4(station, gateway).Echo(5, 6).Payload(40).Bytes())
		if _, err := g.stations.Recv(func(got []byte) bool {
			return len(got) >= 42 && got[14+9] == pkt.ProtoICMP && got[34] == 0 && bytes.Equal(got[26:30], []byte{192, 0, 2, 1})
		}, bpftest.Patience); err != nil {
			t.Errorf("an echo request is not answered: %v", err)
		}
		solicitation := pkt.ICMPv6Message(station6, "ff02::1:ff00:1", 135, 0, 0, append(address6(gateway6), append([]byte{1, 1}, pkt.MAC(stationMAC)...)...))
		g.stations.Puts(mobile.Frame(stationMAC, "33:33:ff:00:00:01", pkt.IPv6Header{From: station6, To: "ff02::1:ff00:1", Next: pkt.ProtoICMPv6, HopLimit: 255}.Packet(solicitation)))
		if _, err := g.stations.Recv(func(got []byte) bool {
			return len(got) >= 86 && got[54] == 136 && bytes.Equal(got[80:86], pkt.MAC(g.own)) && got[58]&0x80 == 0
		}, bpftest.Patience); err != nil {
			t.Errorf("a Neighbor Solicitation is not answered: %v", err)
		}
		// It looks for a station that was not heard, and finds it.
		g.Set("POST", "g ethernet-session 260", `{"tunnel-endpoint":"192.0.2.99","remote-teid":5}`)
		asks := pkt.Eth(g.own, broadcast).ARPRequest(g.own, gateway, "192.0.2.99").Bytes()[:42]
		if _, err := g.stations.Recv(func(got []byte) bool { return bytes.HasPrefix(got, asks) }, bpftest.Patience); err != nil {
			t.Errorf("it does not look for the base station: %v", err)
		}
		g.stations.Puts(pkt.Eth(stationMAC, g.own).ARPReply(stationMAC, "192.0.2.99", g.own, gateway).Bytes())
		g.heard("192.0.2.99")
		var counted struct {
			Neighbours json.Number `json:"neighbours-answered"`
			Echoes     json.Number `json:"echo-requests-answered"`
		}
		if err := json.Unmarshal([]byte(g.Read("g frames")), &counted); err != nil || counted.Neighbours != "2" || counted.Echoes != "1" {
			t.Errorf("%+v, %v", counted, err)
		}
	})
}

func TestSessionsChange(t *testing.T) {
	onBridge(t, sessions, func(t *testing.T, g *bridged) {
		g.learn(257, deviceA)
		frame := udp(hostMAC, deviceA, 20)
		g.enters("before", frame, station, 1025, 9)
		g.Set("PATCH", "g ethernet-session 257", `{"remote-teid":2025,"qfi":3}`)
		g.received("the old tunnel ends", map[uint32][]byte{1025: {}}) // no End Marker is on its way in what follows
		g.enters("another tunnel", frame, station, 2025, 3)
		g.Restart(nil)
		g.enters("after a restart", frame, station, 2025, 3)
		g.framesCounted(257, 1, 72, 3, 3*uint64(len(frame)))
		// An address moves to another session as it is configured.
		g.Set("POST", "g ethernet-session 258 mac-address "+deviceA, `{}`)
		g.enters("it moves", frame, station, 1026, 0)
		g.fate("the old session", "veth1", g.inTunnel(257, udp(deviceA, hostMAC, 20)), "g spoofed-source")
		g.Set("DELETE", "g ethernet-session 258", "")
		g.fate("a session that is gone", "veth2", frame, "g unknown-device")
		g.learn(257, deviceA)
		g.enters("it is learned again", frame, station, 2025, 3)
	})
}

// framesCounted checks the counters of a session.
func (g *bridged) framesCounted(teid int, want ...uint64) {
	g.t.Helper()
	var n struct {
		UpPackets   uint64 `json:"uplink-packets"`
		UpBytes     uint64 `json:"uplink-bytes"`
		DownPackets uint64 `json:"downlink-packets"`
		DownBytes   uint64 `json:"downlink-bytes"`
	}
	if err := json.Unmarshal([]byte(g.Read(fmt.Sprintf("g ethernet-session %d", teid))), &n); err != nil {
		g.t.Fatal(err)
	}
	if got := []uint64{n.UpPackets, n.UpBytes, n.DownPackets, n.DownBytes}; fmt.Sprint(got) != fmt.Sprint(want) {
		g.t.Errorf("session %d: %v, want %v", teid, got, want)
	}
}

func TestSilentAddressesAreForgotten(t *testing.T) {
	onBridge(t, sessions+`,"aging-time":10`, func(t *testing.T, g *bridged) {
		g.learn(257, deviceA)
		macs := g.Map("g", "macs")
		key := append(pkt.MAC(deviceA), 0, 0)
		old := make([]byte, 16)
		copy(old[8:], []byte{1, 1, 0, 0}) // session 257, seen when the machine booted
		if err := macs.Put([]byte(key), old); err != nil {
			t.Fatal(err)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := g.Read("g ethernet-session 257"); strings.Contains(got, deviceA) {
				return errors.New(got)
			}
			return nil
		})
		g.fate("a silent device", "veth2", udp(hostMAC, deviceA, 20), "g unknown-device")
		g.learn(259, deviceA) // another session may have the address now
	})
}

func TestSessionsThatCannotBeAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("gtphandler", "g", `{`+locals+`,"max-ethernet-sessions":3,"max-mac-addresses":2,`+sessions+`}`)
	l.Create("gtphandler", "ip", `{`+locals+`}`)
	e := `"tunnel-endpoint":"192.0.2.10","remote-teid":1`
	for _, tt := range []struct {
		method, words, body, why string
		as                       error
	}{
		{"POST", "ip ethernet-session 1", `{` + e + `}`, "session-type is IP", cube.ErrInvalid},
		{"POST", "g user-equipment 10.1.0.1", `{"tunnel-endpoint":"192.0.2.10"}`, "session-type is ETHERNET", cube.ErrInvalid},
		{"POST", "g ethernet-session 1", `{` + e + `}`, "4 sessions, but max-ethernet-sessions is 3", cube.ErrFull},
		{"POST", "g ethernet-session 257 mac-address " + deviceB, `{}`, "already has it", cube.ErrExists},
		{"POST", "g ethernet-session 257 mac-address 03:00:00:00:00:01", `{}`, "not a valid unicast address", cube.ErrInvalid},
		{"POST", "g ethernet-session 257 mac-address", `[{"address":"02:00:00:00:00:01"},{"address":"02:00:00:00:00:02"}]`, "3 addresses, but max-mac-addresses is 2", cube.ErrFull},
		{"DELETE", "g local-address " + gateway6, "", "ethernet-session 259: tunnel-endpoint", cube.ErrInvalid},
		{"PATCH", "g session-type", `"IP"`, "", nil},
		{"PATCH", "g aging-time", `9`, "out of range", nil},
	} {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.why) || tt.as != nil && !errors.Is(err, tt.as) {
			t.Errorf("%s %s %s: %v, want %v: %s", tt.method, tt.words, tt.body, err, tt.as, tt.why)
		}
	}
}
