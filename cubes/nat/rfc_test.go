// SPDX-License-Identifier: Apache-2.0

package nat

// The requirements of RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP) and RFC 7857 (their update), by number. The
// README has the list.

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// port sends a datagram, or a segment with SYN, out and returns the external address and port.
func (b *bench) port(proto byte, from string, sport uint16, to string, dport uint16) (string, uint16) {
	b.t.Helper()
	var l4 []byte
	switch proto {
	case nextTCP:
		l4 = tcp4(from, to, sport, dport, 2, nil)
	case nextICMP:
		l4 = icmp(8, 0, uint32(sport)<<16, nil)
	default:
		l4 = udp(from, to, sport, dport, nil)
	}
	got, err := b.pass(false, outFrame(plain4(from, to, proto, l4)))
	if err != nil {
		b.t.Errorf("%s:%d to %s:%d: %v", from, sport, to, dport, err)
		return "", 0
	}
	if err := checked(got); err != nil {
		b.t.Errorf("%s:%d to %s:%d: %v", from, sport, to, dport, err)
	}
	at := 34
	if proto == nextICMP {
		at = 38
	}
	return addr4(got[26:30]), binary.BigEndian.Uint16(got[at:])
}

const anyTen = `"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/8","external-ip":"203.0.113.1"%s}]}}`

func snatWith(behaviour, more string) string {
	return fmt.Sprintf(`{"behaviour":{%s},`+anyTen+`}`, behaviour, more)
}

func TestRFC4787Mapping(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snatWith("", ""))
		for _, proto := range []byte{nextUDP, nextTCP, nextICMP} { // and REQ-1 of RFC 5382 and RFC 5508
			b.port(proto, "10.0.0.9", 4000, other, 53)
			_, first := b.port(proto, host, 4000, other, 53)
			if first == 4000 {
				t.Errorf("REQ-3: protocol %d: one endpoint for two hosts", proto)
			}
			for _, remote := range []string{other, "198.51.100.2", "192.0.2.9"} {
				if _, p := b.port(proto, host, 4000, remote, 9999); p != first {
					t.Errorf("REQ-1: protocol %d: port %d for one remote, %d for another", proto, first, p)
				}
			}
			if _, p := b.port(proto, host, 4001, other, 53); p != 4001 {
				t.Errorf("protocol %d: port 4001 is free, but %d was given", proto, p)
			}
		}
		for _, p := range []uint16{700, 1023, 80, 1} {
			for n := range 3 {
				if _, got := b.port(nextUDP, fmt.Sprintf("10.0.1.%d", n), p, other, 53); got < 512 || got > 1023 || got%2 != p%2 {
					t.Errorf("REQ-3 a, REQ-4: port %d became %d", p, got)
				}
			}
		}
		for n := range 20 {
			for _, p := range []uint16{6000, 6001} {
				if _, got := b.port(nextUDP, fmt.Sprintf("10.0.2.%d", n), p, other, 53); got < 1024 || got%2 != p%2 {
					t.Errorf("REQ-3 a, REQ-4: port %d became %d", p, got)
				}
			}
		}
	})
}

func TestRFC4787PairedPool(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/8","external-ip":"203.0.113.16/28"}]}}}`)
		used := map[string]int{}
		for n := range 64 {
			from := fmt.Sprintf("10.0.0.%d", n)
			first, _ := b.port(nextUDP, from, 4000, other, 53)
			used[first]++
			for i, proto := range []byte{nextUDP, nextTCP, nextICMP} {
				if a, _ := b.port(proto, from, uint16(5000+i), "192.0.2.9", 53); a != first {
					t.Errorf("REQ-2: %s has %s and %s", from, first, a)
				}
			}
		}
		if len(used) < 12 {
			t.Errorf("64 hosts share %d of 16 addresses: %v", len(used), used)
		}
	})
}

func TestRFC4787Filtering(t *testing.T) {
	const near, far = "198.51.100.1", "198.51.100.2"
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snatWith("", ""))
		for n, tt := range []struct {
			filtering  string
			port, addr bool // another port of the remote, another remote may send
		}{
			{"endpoint-independent", true, true},
			{"address-dependent", true, false},
			{"address-and-port-dependent", false, false},
		} {
			l.Set("PATCH", "n behaviour", fmt.Sprintf(`{"filtering":%q}`, tt.filtering))
			mine := uint16(4000 + n)
			for _, proto := range []byte{nextUDP, nextTCP} { // and REQ-3 of RFC 5382
				b.port(proto, host, mine, near, 53)
				b.fromOutside(tt.filtering, proto, near, 53, mine, true)
				b.fromOutside(tt.filtering, proto, near, 54, mine, tt.port)
				b.fromOutside(tt.filtering, proto, far, 53, mine, tt.addr)
			}
		}
	})
}

// TestNobodyPassesTheFilter: the unspecified address without a port is the key of the mapping itself.
func TestNobodyPassesTheFilter(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		echo := func(from, to string) []byte { return plain4(from, to, nextICMP, icmp(8, 0, 7<<16, nil)) }
		echo6 := func(from, to string) []byte { return ip6(from, to, nextICMPv6, icmp6(from, to, 128, 0, 7<<16, nil)) }
		for _, filtering := range []string{"address-and-port-dependent", "address-dependent", "endpoint-independent"} {
			l.Set("PATCH", "n behaviour", fmt.Sprintf(`{"filtering":%q}`, filtering))
			b.steps(
				step{"UDP", false, out4(host, other).UDP(4000, 53), out4(ours, other).UDP(4000, 53), ""},
				step{filtering + ": UDP from nobody", true, in4("0.0.0.0", ours).UDP(0, 4000), nil, "filtered"},
				step{"echo", false, outFrame(echo(host, other)), outFrame(echo(ours, other)), ""},
				step{filtering + ": echo from nobody", true, inFrame(echo("0.0.0.0", ours)), nil, "filtered"},
				step{"echo of IPv6", false, outFrame(echo6(host6, other6)), outFrame(echo6(ours6, other6)), ""},
				step{filtering + ": echo of IPv6 from nobody", true, inFrame(echo6("::", ours6)), nil, "filtered"},
				same("an error about a packet to nobody", true, inFrame(plain4(other, ours, nextICMP, icmp(3, 1, 0, echo(ours, "0.0.0.0"))))),
			)
		}
	})
}

// fromOutside sends a packet to the mapping of a port of the host, which must get there or not, and
// the answer to it.
func (b *bench) fromOutside(name string, proto byte, from string, sport, dport uint16, want bool) {
	b.t.Helper()
	l4 := func(to string) []byte {
		if proto == nextTCP {
			return tcp4(from, to, sport, dport, 2, nil)
		}
		return udp(from, to, sport, dport, nil)
	}
	s := step{fmt.Sprintf("REQ-8: %s: protocol %d from %s:%d", name, proto, from, sport), true,
		inFrame(plain4(from, ours, proto, l4(ours))), nil, "filtered"}
	if want {
		s.want, s.why = inFrame(plain4(from, host, proto, l4(host))), ""
	}
	b.step(s)
	if !want {
		return
	}
	if _, p := b.port(proto, host, dport, from, sport); p != dport {
		b.t.Errorf("%s: answered from port %d", s.name, p)
	}
}

func TestRFC4787NoOverloadingUnlessWanted(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snatWith("", `,"port-first":20000,"port-last":20003`))
		all := func() (ports map[uint16]int, refused int) {
			ports = map[uint16]int{}
			for n := range 6 {
				from := fmt.Sprintf("10.0.0.%d", n)
				to := fmt.Sprintf("198.51.100.%d", n)
				got, err := b.pass(false, outFrame(plain4(from, to, nextUDP, udp(from, to, 4000, 53, nil))))
				if err != nil {
					if err.Error() != "n ports-exhausted" {
						t.Errorf("REQ-3: %v", err)
					}
					refused++
					continue
				}
				ports[binary.BigEndian.Uint16(got[34:])]++
			}
			return ports, refused
		}
		if ports, refused := all(); len(ports) != 4 || refused != 2 {
			t.Errorf("REQ-3: 6 hosts, 4 ports: %v, %d refused", ports, refused)
		}
		l.Set("PATCH", "n behaviour", `{"overload":true}`)
		if ports, refused := all(); len(ports) != 4 || refused != 0 {
			t.Errorf("overload: 6 hosts, 4 ports: %v, %d refused", ports, refused)
		}
		b.claimedAlone()
	})
}

// claimedAlone checks that no two sessions have the same external endpoint and remote.
func (b *bench) claimedAlone() {
	b.t.Helper()
	seen := map[key]key{}
	for _, s := range tablesOf(b.t, b.Lab).all(0) {
		if s.is(flagMapping) {
			continue
		}
		if had, ok := seen[s.twin()]; ok {
			b.t.Errorf("%v and %v are both %v outside", had, s.Key, s.twin())
		}
		seen[s.twin()] = s.Key
	}
}

// One external address carries more sessions than it has ports, when mappings depend on the remote.
func TestAddressAndPortDependentMappingReusesPorts(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snatWith(`"mapping":"address-and-port-dependent"`, `,"port-first":20000,"port-last":20003`))
		for n := range 40 {
			if a, p := b.port(nextUDP, fmt.Sprintf("10.0.0.%d", n), 4000, fmt.Sprintf("198.51.100.%d", n/4), 53); a != ours || p < 20000 || p > 20003 {
				t.Errorf("host %d: %s:%d", n, a, p)
			}
		}
		b.claimedAlone()
	})
}

func TestRFC5382SimultaneousOpen(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		b.steps(
			step{"REQ-2: SYN out", false, out4(host, other).TCP(4000, 80, syn), out4(ours, other).TCP(4000, 80, syn), ""},
			step{"REQ-2: SYN in", true, in4(other, ours).TCP(80, 4000, syn), in4(other, host).TCP(80, 4000, syn), ""},
			step{"REQ-2: SYN, ACK out", false, out4(host, other).TCP(4000, 80, synAck), out4(ours, other).TCP(4000, 80, synAck), ""},
			step{"REQ-2: SYN, ACK in", true, in4(other, ours).TCP(80, 4000, synAck), in4(other, host).TCP(80, 4000, synAck), ""},
			step{"REQ-4: an unwanted SYN is not answered", true, in4(other, ours).TCP(81, 4000, syn), nil, "filtered"},
		)
	})
}

func TestTheStateOfAConnectionIsInBothDirections(t *testing.T) {
	t.Parallel()
	fin, rst := pkt.TCPFlags{FIN: true, ACK: true}, pkt.TCPFlags{RST: true}
	test := func(t *testing.T, l *bpftest.Lab, config string, both func(*bench) (out, in session)) {
		b := newBench(t, l, config)
		for _, s := range []struct {
			name  string
			in    bool
			flags pkt.TCPFlags
			want  conntrack.Phase
		}{
			{"SYN", false, syn, conntrack.SynSent},
			{"SYN, ACK", true, synAck, conntrack.SynRecv},
			{"ACK: established", false, ack, conntrack.Open},
			{"RST in", true, rst, conntrack.Closed},
			{"still there: it was forged (RFC 7857, 2.2)", true, ack, conntrack.Open},
			{"RST out", false, rst, conntrack.Closed},
			{"what was on its way does not make it undone", true, ack, conntrack.Closed},
			{"another connection of the same endpoints", false, syn, conntrack.SynSent},
			{"SYN, ACK", true, synAck, conntrack.SynRecv},
			{"ACK", false, ack, conntrack.Open},
			{"FIN", true, fin, conntrack.FinWait},
			{"half closed", false, ack, conntrack.CloseWait},
			{"FIN", false, fin, conntrack.LastAck},
			{"and another one, from outside", true, syn, conntrack.SynSent},
		} {
			frame := out4(host, other).TCP(4000, 80, s.flags)
			if s.in {
				frame = in4(other, ours).TCP(80, 4000, s.flags)
			}
			if _, err := b.pass(s.in, frame.Bytes()); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			if out, in := both(b); out.Progress.State != s.want || in.Progress != out.Progress {
				t.Errorf("%s: %+v and %+v, want %v", s.name, out.Progress, in.Progress, s.want)
			}
		}
		if out, in := both(b); out.Packets != 7 || in.Packets != 7 || out.Bytes != 7*54 || in.Bytes != 7*54 {
			t.Errorf("counted %d packets, %d bytes out; %d, %d in", out.Packets, out.Bytes, in.Packets, in.Bytes)
		}
	}
	t.Run("one entry, found by the mapping", func(t *testing.T) {
		atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
			test(t, l, snat, func(b *bench) (out, in session) {
				out = b.session(0, host, 4000, other, 80, nextTCP)
				return out, session{Progress: out.Progress, Packets: out.InPackets, Bytes: out.InBytes}
			})
		})
	})
	t.Run("an entry for each direction", func(t *testing.T) {
		atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
			test(t, l, snatWith(`"mapping":"address-and-port-dependent"`, ""), func(b *bench) (out, in session) {
				return b.session(0, host, 4000, other, 80, nextTCP), b.session(zoneOutside, ours, 4000, other, 80, nextTCP)
			})
		})
	})
}

// RFC 5508, REQ-7: errors between two internal hosts.
func TestRFC5508HairpinOfErrors(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snatWith(`"filtering":"endpoint-independent"`, ""))
		const a, z = "10.0.0.7", "10.0.0.8"
		b.port(nextUDP, z, 5000, other, 53)
		asked := func(from, to string, sport, dport uint16) []byte {
			return plain4(from, to, nextUDP, udp(from, to, sport, dport, bytesOf(9)))
		}
		b.turn("a datagram", outFrame(asked(a, ours, 4000, 5000)), inFrame(asked(ours, z, 4000, 5000)), "f:p1")
		b.turn("nobody listens", outFrame(plain4(z, ours, nextICMP, icmp(3, 3, 0, asked(ours, z, 4000, 5000)))),
			inFrame(plain4(ours, a, nextICMP, icmp(3, 3, 0, asked(a, ours, 4000, 5000)))), "f:p1")
		b.turn("a fragment", outFrame(ip4(a, ours, nextUDP, 5, 0x2000, nil, udp(a, ours, 4000, 5000, bytesOf(8)))),
			inFrame(ip4(ours, z, nextUDP, 5, 0x2000, nil, udp(ours, z, 4000, 5000, bytesOf(8)))), "f:p1")
	})
}
