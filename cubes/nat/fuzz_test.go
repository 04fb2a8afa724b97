// SPDX-License-Identifier: Apache-2.0

package nat

// Packets that nobody meant: each has a fate, and checksums that were right are right behind.

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
)

// noise makes packets: whole ones, cut ones, and ones with changed bytes.
type noise struct{ *rand.Rand }

func (r noise) pick(of ...string) string { return of[r.IntN(len(of))] }

// inner is an IP packet between two ends; both families have the same protocols.
func (r noise) inner(from, to string, v6 bool) []byte {
	wrap := func(proto byte, l4 []byte) []byte {
		if !v6 {
			return plain4(from, to, proto, l4)
		}
		if r.IntN(4) == 0 {
			proto, l4 = nextHopByHop, append(extension(proto), l4...)
		}
		return ip6(from, to, proto, l4)
	}
	ports := [...]uint16{53, 80, 4000, 4001, 0, 65535}
	sport, dport, data := ports[r.IntN(len(ports))], ports[r.IntN(len(ports))], bytesOf(r.IntN(70))
	switch r.IntN(6) {
	case 0:
		if !v6 {
			return wrap(nextTCP, tcp4(from, to, sport, dport, byte(r.IntN(64)), data))
		}
		fallthrough
	case 1:
		return wrap(nextUDP, udp(from, to, sport, dport, data))
	case 2:
		kind := byte(r.IntN(20))
		if v6 {
			return wrap(nextICMPv6, icmp6(from, to, byte(r.IntN(6)+126), 0, r.Uint32(), data))
		}
		return wrap(nextICMP, icmp(kind, 0, r.Uint32(), data))
	case 3:
		return wrap(byte(r.IntN(256)), data)
	case 4:
		if v6 {
			return ip6(from, to, nextFragment, append(fragment6(nextUDP, uint16(r.IntN(3)*8|r.IntN(2)), 7), udp(from, to, sport, dport, data)...))
		}
		return ip4(from, to, nextUDP, 7, uint16(r.IntN(2)<<13|r.IntN(3)), make([]byte, 4*r.IntN(11)), udp(from, to, sport, dport, data))
	}
	about := r.inner(to, from, v6)
	about = about[:min(len(about), 28+r.IntN(100))]
	if v6 {
		return wrap(nextICMPv6, icmp6(from, to, byte(1+r.IntN(4)), 0, 0, about))
	}
	return wrap(nextICMP, icmp([...]byte{3, 4, 5, 11, 12}[r.IntN(5)], 0, 0, about))
}

func (r noise) frame(in bool) (frame raw, whole bool) {
	v6 := r.IntN(3) == 0
	from, to := r.pick(host, "10.0.0.8", "10.9.0.1", ours), r.pick(other, "198.51.100.2", ours, "203.0.113.2")
	if v6 {
		from, to = r.pick(host6, "fd00::8", ours6, "fe80::1"), r.pick(other6, "2001:db8:9::2", ours6, "ff02::1")
	}
	make := outFrame
	if in {
		from, make = to, inFrame
		to = r.pick(ours, "203.0.113.2", host)
		if v6 {
			to = r.pick(ours6, "2001:db8::2", host6)
		}
	}
	frame, whole = make(r.inner(from, to, v6)), true
	switch r.IntN(4) {
	case 0:
		head := map[bool]int{false: 34, true: 54}[v6] // shorter ones a test run does not take
		frame, whole = frame[:head+r.IntN(len(frame)-head+1)], false
	case 1:
		for range 1 + r.IntN(4) {
			frame[14+r.IntN(min(len(frame)-14, 60))] = byte(r.Uint32())
		}
		whole = false
	}
	return frame, whole
}

func TestFuzzedPacketsHaveAFate(t *testing.T) {
	const config = `{"behaviour":{"filtering":"address-dependent"},"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},
		{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]},
		"dnat":{"entry":[{"id":1,"external-ip":"203.0.113.2","internal-ip":"10.0.0.8"},{"id":2,"external-ip":"2001:db8::2","internal-ip":"fd00::8"}]},
		"port-forwarding":{"entry":[{"id":1,"external-ip":"203.0.113.1","external-port":80,"internal-ip":"10.0.0.7","internal-port":8080}]}}}`
	reasons := "malformed filtered no-session endpoint-taken fragment-without-first icmp-unrelated protocol"
	seed, times := repeat.Seed(t), 400
	if os.Getenv("POLYCUBE_SOAK") != "" {
		times = 50000
	}
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b, r := newBench(t, l, config), noise{rand.New(rand.NewPCG(seed, 1))}
		through, dropped := 0, 0
		for range times {
			in := r.IntN(2) == 0
			frame, whole := r.frame(in)
			dev := map[bool]string{false: "veth1", true: "veth2"}[in]
			out, got := b.RunBytes(dev, frame)
			switch {
			case out.Verdict == "drop":
				dropped++
				if why := strings.TrimPrefix(out.Fate, "n "); !strings.Contains(reasons, why) {
					t.Fatalf("seed %d: %x: %+v", seed, []byte(frame), out)
				}
			case out.Verdict != "send" || len(got) != len(frame):
				t.Fatalf("seed %d: %x: %+v\n%x", seed, []byte(frame), out, got)
			default:
				through++
				b.harmless(seed, frame, got, whole)
			}
		}
		if through < times/10 || dropped < times/10 {
			t.Errorf("seed %d: %d went through, %d were dropped", seed, through, dropped)
		}
	})
}

// harmless fails the test if a packet lost a right checksum, or changed where no NAT has business.
func (b *bench) harmless(seed uint64, was, is []byte, whole bool) {
	b.t.Helper()
	if whole && !bytes.Equal(was, is) {
		offset := uint16(0)
		if was[12] == 0x08 {
			offset = uint16(was[20])<<8 | uint16(was[21])
		}
		v6plain := was[12] != 0x08 && was[20] != nextHopByHop && was[20] != nextFragment
		if offset == 0 && (was[12] == 0x08 || v6plain) && checked(was) == nil {
			if err := checked(is); err != nil {
				b.t.Errorf("seed %d: %v\nfrom %x\n  to %x", seed, err, was, is)
			}
		}
	}
	// Addresses, ports, checksums, and what is inside of an error: nothing else changes.
	if !bytes.Equal(was[12:22], is[12:22]) {
		b.t.Errorf("seed %d: a header changed\nfrom %x\n  to %x", seed, was, is)
	}
}
