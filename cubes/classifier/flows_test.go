// SPDX-License-Identifier: Apache-2.0

package classifier_test

// Random flows of subscribers and random packets, against the flows one after the other in Go.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// sdf is a flow; -1 and "" match anything.
type sdf struct {
	precedence, proto, dscp, qfi, class int
	remote                              string
	remotePort, localPort               [2]int
}

// packet is a packet as its subscriber sees it.
type packet struct {
	local, remote         netip.Addr
	proto                 int // 1, which also IPv6 packets may have, has no ports
	localPort, remotePort int
	dscp, qfi             int
	uplink                bool
}

func (s *sdf) matches(p *packet) bool {
	within := func(r [2]int, port int) bool { return r[0] < 0 || p.proto != 1 && r[0] <= port && port <= r[1] }
	return (s.proto < 0 || s.proto == p.proto) && (s.dscp < 0 || s.dscp == p.dscp) && (s.qfi < 0 || s.qfi == p.qfi) &&
		(s.remote == "" || netip.MustParsePrefix(s.remote).Contains(p.remote)) &&
		within(s.remotePort, p.remotePort) && within(s.localPort, p.localPort)
}

func (s *sdf) json() map[string]any {
	m := map[string]any{"precedence": s.precedence, "class": s.class}
	if s.proto >= 0 {
		m["l4proto"] = s.proto
	}
	if s.dscp >= 0 {
		m["dscp"] = s.dscp
	}
	if s.qfi >= 0 {
		m["qfi"] = s.qfi
	}
	if s.remote != "" {
		m["remote"] = s.remote
	}
	for name, r := range map[string][2]int{"remote-port": s.remotePort, "local-port": s.localPort} {
		if r[0] >= 0 {
			m[name] = fmt.Sprintf("%d-%d", r[0], r[1])
		}
	}
	return m
}

// dice throws flows and packets that often meet.
type dice struct{ *rand.Rand }

func (d dice) pick(values ...int) int { return values[d.IntN(len(values))] }

func (d dice) ports() [2]int {
	if d.IntN(2) == 0 {
		return [2]int{-1, -1}
	}
	a, b := d.port(), d.port()
	return [2]int{min(a, b), max(a, b)}
}

func (d dice) port() int { return d.pick(0, 1, 80, 443, 1024, 32767, 32768, 65534, 65535) }

func (d dice) address(six bool) netip.Addr {
	if six {
		a := netip.MustParseAddr("2001:db8::").As16()
		a[7], a[8], a[15] = byte(d.IntN(4)), byte(d.IntN(2)<<7), byte(d.IntN(4))
		return netip.AddrFrom16(a)
	}
	return netip.AddrFrom4([4]byte{192, 0, byte(d.IntN(4)), byte(d.IntN(4))})
}

func (d dice) flow(n int) sdf {
	s := sdf{precedence: d.IntN(1000)*100 + n, class: 1000 + n, proto: d.pick(-1, -1, 6, 17, 1, 58), dscp: d.pick(-1, -1, -1, 0, 46), qfi: d.pick(-1, -1, -1, 5, 6),
		remotePort: d.ports(), localPort: d.ports()}
	switch d.IntN(4) {
	case 0:
		s.remote = netip.PrefixFrom(d.address(false), d.pick(0, 1, 22, 24, 30, 32)).Masked().String()
	case 1:
		s.remote = netip.PrefixFrom(d.address(true), d.pick(0, 1, 62, 63, 64, 65, 126, 128)).Masked().String()
	}
	return s
}

func (d dice) packet(local [2]netip.Addr) packet {
	six := d.IntN(2) == 1
	p := packet{local: local[0], remote: d.address(six), proto: d.pick(6, 17, 1), localPort: d.port(), remotePort: d.port(), dscp: d.pick(0, 46), qfi: d.pick(5, 6), uplink: d.IntN(2) == 0}
	if six {
		p.local = local[1]
	}
	return p
}

// frame builds the packet.
func (p *packet) frame() []byte {
	from, to, sport, dport := p.local, p.remote, p.localPort, p.remotePort
	if !p.uplink {
		from, to, sport, dport = to, from, dport, sport
	}
	f := pkt.Eth(fmt.Sprintf("02:00:00:00:00:%02x", p.qfi), receiver)
	if from.Is4() {
		f = f.IPv4(from.String(), to.String(), pkt.IPv4Options{TOS: uint8(p.dscp << 2)})
	} else {
		f = f.IPv6(from.String(), to.String())
	}
	switch p.proto {
	case 6:
		f = f.TCP(uint16(sport), uint16(dport), pkt.TCPFlags{ACK: true})
	case 17:
		f = f.UDP(uint16(sport), uint16(dport))
	default:
		f = f.Echo(uint16(sport), uint16(dport))
	}
	b := f.Payload(8).Bytes()
	if from.Is6() {
		b[14], b[15] = 0x60|byte(p.dscp>>2), byte(p.dscp<<6)
	}
	return b
}

func TestFlowsAreWhatALinearSearchFinds(t *testing.T) {
	seed := repeat.Seed(t)
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		c, d := classify(t, l, ""), dice{rand.New(rand.NewPCG(seed, 0))}
		local := [2]netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("2001:db8:1:1::77")}
		hits := map[uint32]int{}
		for range 12 {
			flows := make([]sdf, 1+d.IntN(32))
			var config []any
			for i := range flows {
				flows[i] = d.flow(i)
				config = append(config, flows[i].json())
			}
			body, err := json.Marshal([]any{map[string]any{"address": "10.1.0.1", "class": 1, "flow": config}, map[string]any{"address": "2001:db8:1:1::", "class": 1, "flow": config}})
			if err != nil {
				t.Fatal(err)
			}
			c.Set("PUT", "k subscriber", string(body))
			slices.SortFunc(flows, func(a, b sdf) int { return a.precedence - b.precedence })
			for range 100 {
				p, want := d.packet(local), uint32(1)
				if i := slices.IndexFunc(flows, func(s sdf) bool { return s.matches(&p) }); i >= 0 {
					want = uint32(flows[i].class)
				}
				run := c.out
				if p.uplink {
					run = c.in
				}
				if got := run(p.frame()); got != want {
					t.Fatalf("%+v has class %d, want %d of %+v", p, got, want, flows)
				}
				hits[want]++
			}
		}
		if len(hits) < 20 || hits[1] == 0 {
			t.Errorf("packets match only these: %v", hits)
		}
	})
}
