// SPDX-License-Identifier: Apache-2.0

package fates

// Ethernet sessions of gtphandler: its other two programs.

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// framesOnly are reasons of Ethernet sessions alone.
var framesOnly = []string{"address-in-use", "too-many-addresses", "not-tunnelled", "unknown-device", "unknown-station"}

// Devices: one that is learned, one that is configured, and one at a station that is not heard.
const learns, configured, unheard = "02:0d:00:00:00:01", "02:0d:00:00:00:02", "02:0d:00:00:00:03"

func TestEveryFrameOfAnEthernetSessionHasAFate(t *testing.T) {
	for _, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: v.typ, Mode: v.mode, Old: v.old})
			between(l)
			l.Create("gtphandler", "g", `{"session-type":"ETHERNET","mtu":1344,"echo-interval":0,"local-address":[{"address":"10.0.0.2"},{"address":"2001:db8::2"}],
				"ethernet-session":[{"teid":257,"tunnel-endpoint":"10.0.0.1","remote-teid":1,"qfi":9,"max-learned-addresses":1},
				{"teid":258,"tunnel-endpoint":"10.0.0.1","remote-teid":2,"mac-address":[{"address":"`+configured+`"}]},
				{"teid":259,"tunnel-endpoint":"2001:db8::1","remote-teid":3,"mac-address":[{"address":"`+unheard+`"}]},
				{"teid":260,"tunnel-endpoint":"10.0.0.1","remote-teid":4}]}`)
			l.Attach("g", "f:p1")
			explained(t, l, "veth1", framed(257, learns).frame)
			netns.Eventually(t, bpftest.Patience, func() error {
				if got := l.Read("g ethernet-session 257"); !strings.Contains(got, learns) {
					return errors.New(got)
				}
				return nil
			})
			s := subject{"g", append(ethernet(), messages(258, "10.0.0.7")...), []string{superframe}}
			s.run(t, l)
			good := meant()
			for _, one := range s.samples {
				good = append(good, one.frame)
			}
			feed(t, l, rand.New(rand.NewPCG(repeat.Seed(t), 0)), good, 150+len(s.samples))
		})
	}
}

// framed is a frame of a device in a tunnel.
func framed(teid uint32, device string) sample {
	return uplink(teid, mobile.Frame(device, macs[2], from("10.0.0.9", 40)))
}

// ethernet are frames of devices, and for them.
func ethernet() []sample {
	down := func(to string) sample {
		return sample{dev: "veth2", frame: mobile.Frame(macs[2], to, from("10.0.0.9", 40))}
	}
	all := []sample{
		framed(258, configured), down(learns), down(configured), down("ff:ff:ff:ff:ff:ff"),
		framed(260, learns), framed(257, "02:0d:00:00:00:0a"), framed(258, learns), framed(257, configured), down("02:0d:00:00:00:0b"), down(unheard),
		{dev: "veth1", frame: mobile.Frame(macs[1], cubeMACs[1], from("10.0.0.9", 40))},
		{dev: "veth1", frame: pkt.Eth(macs[1], "ff:ff:ff:ff:ff:ff").ARPRequest(macs[1], station, gateway).Bytes()},
		{dev: "veth2", frame: pkt.EthernetFrame(pkt.MAC(learns), pkt.MAC(macs[2]), 0x88b5, make([]byte, 1400))},
		{dev: "veth2", frame: mobile.Frame(macs[2], learns, from("10.0.0.9", 1350))},
		message(mobile.Message(station, gateway, gtpu.Message{Type: gtpu.PDU, TEID: 257, Payload: make([]byte, 13)})),
	}
	for i := range 3 { // tags are of the frame
		tagged := down(learns)
		for range i {
			tagged.frame = pkt.Tagged(tagged.frame, 0x81000000|uint32(i))
		}
		all = append(all, tagged)
	}
	return all
}
