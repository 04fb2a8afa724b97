// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// The addresses change in the packet when it is run again, so the benchmark uses a frame that the NAT leaves unchanged:
// from the host that has the external address. It takes the path of every session.
func BenchmarkSession(b *testing.B) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, name := range []string{"UDP", "UDP of IPv6", "TCP", "without NAT"} {
			b.Run(strings.ToLower(string(typ))+"/"+name, func(b *testing.B) {
				l := bpftest.New(b, bpftest.Options{Type: typ, Hosts: 2})
				config := snatOwn
				if name == "without NAT" {
					config = ""
				}
				t := newBench(b, l, config)
				frame := out4("203.0.113.1", "198.51.100.1").UDP(4000, 53).Payload(18).Bytes()
				if name == "UDP of IPv6" {
					frame = out6("2001:db8::1", "2001:db8:9::1").UDP(4000, 53).Payload(18).Bytes()
				}
				if name == "TCP" {
					there, back := out4("203.0.113.1", "198.51.100.1"), in4("198.51.100.1", "203.0.113.1")
					frame = there.TCP(4000, 80, ack).Bytes()
					_, sent := t.pass(false, there.TCP(4000, 80, syn).Bytes())
					_, answered := t.pass(true, back.TCP(80, 4000, synAck).Bytes())
					if err := errors.Join(sent, answered); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := t.pass(false, frame); err != nil {
					b.Fatal(err)
				}
				l.Time(b, "veth1", frame)
			})
		}
	}
}

const snatOwn = `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"0.0.0.0/0","external-ip":"203.0.113.1"},
	{"id":2,"internal-net":"::/0","external-ip":"2001:db8::1"}]}}}`
