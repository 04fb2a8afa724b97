// SPDX-License-Identifier: Apache-2.0

package fates

// Frames for services that the frames of all services do not reach: random ones are no messages of a protocol of their own.

import (
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/pkt"
)

// sample is a frame that comes in at a netdev, as often as times says, or flood: at once.
type sample struct {
	dev          string
	frame        []byte
	times, flood int
}

// subject is a cube that drops samples for each of its reasons, except for those that runs of programs do not reach.
type subject struct {
	cube    string
	samples []sample
	except  []string
}

// subjects are those of services. The function also writes what is not configuration.
var subjects = map[string]func(t *testing.T, l *bpftest.Lab) subject{
	"edpi": func(t *testing.T, l *bpftest.Lab) subject { return subject{"e", flows(t, l), nil} },
	"gtphandler": func(*testing.T, *bpftest.Lab) subject {
		return subject{"g", messages(1, "2001:db8::9"), append(slices.Clone(framesOnly), superframe)}
	},
	"upf": func(t *testing.T, l *bpftest.Lab) subject {
		return subject{"u", append(messages(1, device(passes)), sessions(t, l)...), []string{superframe}}
	},
}

// superframe is a reason of frames that GRO makes.
const superframe = "superframe"

// run sends the samples.
func (s *subject) run(t *testing.T, l *bpftest.Lab) {
	t.Helper()
	for _, one := range s.samples {
		if one.flood > 0 {
			l.Flood(one.dev, one.frame, uint32(one.flood))
			continue
		}
		for range max(one.times, 1) {
			explained(t, l, one.dev, one.frame)
		}
	}
	for _, reason := range l.Unmet(s.cube) {
		if !slices.Contains(s.except, reason) {
			t.Errorf("no sample is dropped as %s: add one", reason)
		}
	}
}

// The ends of tunnels, and somebody in the network.
const (
	station, gateway = "10.0.0.1", "10.0.0.2"
	server, server6  = "10.0.9.9", "2001:db8:9::9"
)

// message is a datagram to the gateway.
func message(packet []byte) sample {
	return sample{dev: "veth1", frame: mobile.Frame(macs[1], cubeMACs[1], packet)}
}

// uplink is a packet in a tunnel.
func uplink(teid uint32, packet []byte) sample {
	return message(mobile.Message(station, gateway, gtpu.Message{Type: gtpu.PDU, TEID: teid, Payload: packet}))
}

// serverOf is the server that a device talks to.
func serverOf(device string) string {
	if strings.Contains(device, ":") {
		return server6
	}
	return server
}

// from is a packet of a device.
func from(device string, length int) []byte {
	return mobile.Datagram(device, serverOf(device), 1000, 53, make([]byte, length), 0)
}

// to is one for it.
func to(device string) sample {
	return sample{dev: "veth2", frame: mobile.Frame(macs[2], macs[1], mobile.Datagram(serverOf(device), device, 53, 1000, make([]byte, 40), 0))}
}

// messages are for a cube that ends the tunnel of a device.
func messages(teid uint32, device string) []sample {
	packet := uplink(teid, from(device, 40))
	fragment := pkt.IPv4Header{From: station, To: gateway, Protocol: pkt.ProtoUDP, TTL: 64, Fragment: 0x2000}.Packet(packet.frame[34:])
	tagged := to(device)
	tagged.frame = slices.Insert(tagged.frame, 12, 0x81, 0, 0, 10)
	raw := func(b ...byte) sample { return message(mobile.Datagram(station, gateway, 3000, gtpu.Port, b, 0)) }
	flood := uplink(4711, from("10.0.0.9", 40))
	flood.flood = 5000
	return []sample{
		packet, to(device), tagged, message(fragment),
		raw(0x48, 1, 0, 4, 0, 0, 0, 0), raw(0x30), // GTP version 2, and a message that is cut off
		uplink(teid, from("10.0.0.9", 40)), uplink(teid, make([]byte, 30)),
		message(mobile.Message(station, gateway, gtpu.Message{Type: 100})), message(mobile.Message(station, gateway, gtpu.End(teid))),
		message(mobile.Message(station, gateway, gtpu.Echo(false, 1))), message(mobile.Message(station, gateway, gtpu.Supported())),
		message(mobile.Message(station, gateway, gtpu.Message{Type: gtpu.PDU, TEID: teid, Extensions: []gtpu.Extension{{Type: 0xc0, Content: []byte{1, 2}}}})),
		flood,
	}
}
