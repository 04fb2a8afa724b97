// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
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

// A reset of no connection is compared with the rules of the table nat, and opens none: what remains is the walk.
func BenchmarkTable(b *testing.B) {
	for _, rules := range []int{0, 10, 100, 1000} {
		b.Run(fmt.Sprintf("%d rules", rules), func(b *testing.B) {
			l := bpftest.New(b, bpftest.Options{Type: cube.TypeTC, Hosts: 2})
			var text strings.Builder
			for i := range rules {
				fmt.Fprintf(&text, "-A PREROUTING -d 203.0.113.1/32 -p tcp -m tcp --dport %d -j DNAT --to-destination 10.0.0.7\n", 1000+i)
			}
			t := newBench(b, l, withTable(text.String(), ""))
			frame := in4("198.51.100.1", "203.0.113.1").TCP(4000, 80, pkt.TCPFlags{RST: true}).Bytes()
			if _, err := t.pass(true, frame); err != nil {
				b.Fatal(err)
			}
			l.Time(b, "veth2", frame)
		})
	}
	b.Run("a session that stays as it is", func(b *testing.B) {
		l := bpftest.New(b, bpftest.Options{Type: cube.TypeTC, Hosts: 2})
		t := newBench(b, l, withTable("", ""))
		frame := in4("198.51.100.1", "203.0.113.1").UDP(4000, 53).Payload(18).Bytes()
		if _, err := t.pass(true, frame); err != nil {
			b.Fatal(err)
		}
		l.Time(b, "veth2", frame)
	})
}
