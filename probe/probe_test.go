// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

var patience = pace.Stretch(20 * time.Second)

var (
	source  = netip.MustParseAddr("10.0.2.1")
	source6 = netip.MustParseAddr("2001:db8:2::1")
	vip     = netip.MustParseAddr("10.0.0.100")
	vip6    = netip.MustParseAddr("2001:db8::100")
)

// open opens a path; send gets what comes out.
func open(t *testing.T, send func(p *Path, server uint32, frame []byte)) *Path {
	t.Helper()
	netns.NeedRoot(t)
	var p *Path
	ready := make(chan struct{})
	p, err := Open(Options{MTU: 1400, Send: func(server uint32, frame []byte) {
		<-ready
		send(p, server, frame)
	}})
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.SetSources([]netip.Addr{source, source6}); err != nil {
		t.Fatal(err)
	}
	return p
}

// take takes ports for a server.
func take(t *testing.T, p *Path, to Target, server uint32) inet.Ports {
	t.Helper()
	ports, err := p.Take(to, server)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// answered is the answer of a server to a frame of a check: to a SYN or an echo request; nil to others.
func answered(frame []byte) []byte {
	ip, err := wire.ParseIP(frame)
	if err != nil {
		return nil
	}
	b := ip.Payload
	to := func() *pkt.Frame {
		if ip.V6() {
			return pkt.Eth("02:00:00:00:02:11", "02:00:00:00:02:01").IPv6(ip.Dst.String(), ip.Src.String())
		}
		return pkt.Eth("02:00:00:00:02:11", "02:00:00:00:02:01").IPv4(ip.Dst.String(), ip.Src.String())
	}
	switch {
	case ip.Proto == wire.ProtoTCP && b[13] == 2: // SYN
		out := to().TCP(binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint16(b), pkt.TCPFlags{SYN: true, ACK: true}).Bytes()
		is, _ := wire.ParseIP(out)
		binary.BigEndian.PutUint32(is.Payload[8:], binary.BigEndian.Uint32(b[4:])+1)
		pseudo(&is)
		return out
	case ip.Proto == wire.ProtoICMP:
		return to().Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(0, 0, binary.BigEndian.Uint32(b[4:]), b[8:])).Bytes()
	case ip.Proto == wire.ProtoICMPv6 && b[0] == echoRequest6:
		message := pkt.ICMPv6Message(ip.Dst.String(), ip.Src.String(), 129, 0, binary.BigEndian.Uint32(b[4:]), b[8:])
		return to().Protocol(pkt.ProtoICMPv6).Data(message).Bytes()
	}
	return nil
}

// pseudo leaves the checksum as a sending host does: the sum of the pseudo header.
func pseudo(p *wire.Packet) {
	var sum uint32
	for _, a := range []netip.Addr{p.Src, p.Dst} {
		for b := a.AsSlice(); len(b) > 0; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
	}
	sum += uint32(p.Proto) + uint32(len(p.Payload))
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(p.Payload[16:], uint16(sum))
}

func TestChecksReachTheirServer(t *testing.T) {
	t.Parallel()
	p := open(t, func(p *Path, server uint32, frame []byte) {
		if server%2 == 1 { // the others are dead
			if a := answered(frame); a != nil && !p.Receive(a) {
				t.Errorf("the answer of server %d is not accepted: % x", server, a)
			}
		}
	})
	checker, err := health.New(health.Options{Namespace: p.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	defer checker.Close()
	number := uint32(0)
	for _, kind := range []health.Kind{health.TCP, health.ICMP} {
		for _, to := range []netip.Addr{vip, vip6} {
			target, from := Target{Addr: to}, source
			if kind == health.TCP {
				target.Port = 80
			}
			if to.Is6() {
				from = source6
			}
			for range 6 {
				number++
				c := health.Check{Kind: kind, Target: netip.AddrPortFrom(to, 80), Source: from, SourcePorts: take(t, p, target, number), Interval: 250 * time.Millisecond, Timeout: 100 * time.Millisecond, Fall: 1, Rise: 1}
				if err := checker.Set(fmt.Sprint(number), c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	netns.Eventually(t, patience, func() error {
		for n := uint32(1); n <= number; n++ {
			want := health.Down
			if n%2 == 1 {
				want = health.Up
			}
			if s, _ := checker.State(fmt.Sprint(n)); s.Status != want || s.Checks < 3 {
				return fmt.Errorf("server %d: %+v, want %v", n, s, want)
			}
		}
		return nil
	})
	if n := p.Strays(); n != 0 {
		t.Errorf("%d packets belonged to no check", n)
	}
}

func TestStrangersAreNotAccepted(t *testing.T) {
	t.Parallel()
	p := open(t, func(*Path, uint32, []byte) {})
	ports := take(t, p, Target{vip, 80}, 7)
	take(t, p, Target{Addr: vip}, 7)
	flags := pkt.TCPFlags{SYN: true, ACK: true}
	from := func(src, dst string, options ...pkt.IPv4Options) *pkt.Frame {
		return pkt.Eth("02:00:00:00:02:11", "02:00:00:00:02:01").IPv4(src, dst, options...)
	}
	fine := from("10.0.0.100", "10.0.2.1").TCP(80, ports.Last, flags).Bytes()
	if !p.Receive(fine) {
		t.Fatal("a packet of a check is not accepted")
	}
	strange := map[string][]byte{
		"another source":       from("10.0.0.101", "10.0.2.1").TCP(80, ports.First, flags).Bytes(),
		"another source port":  from("10.0.0.100", "10.0.2.1").TCP(81, ports.First, flags).Bytes(),
		"a port of no server":  from("10.0.0.100", "10.0.2.1").TCP(80, ports.Last+1, flags).Bytes(),
		"a low port":           from("10.0.0.100", "10.0.2.1").TCP(80, 22, flags).Bytes(),
		"another destination":  from("10.0.0.100", "10.0.2.9").TCP(80, ports.First, flags).Bytes(),
		"UDP":                  from("10.0.0.100", "10.0.2.1").UDP(80, ports.First).Bytes(),
		"a fragment":           from("10.0.0.100", "10.0.2.1", pkt.IPv4Options{MoreFragments: true}).TCP(80, ports.First, flags).Bytes(),
		"half a header":        fine[:40],
		"not IP":               pkt.Eth("02:00:00:00:02:11", "02:00:00:00:02:01").EtherType(0x88cc).Payload(50).Bytes(),
		"an echo request":      from("10.0.0.100", "10.0.2.1").Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(8, 0, FirstPort<<16, nil)).Bytes(),
		"an unexpected answer": from("10.0.0.100", "10.0.2.1").Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(0, 0, 7<<16, nil)).Bytes(),
		"an error":             from("10.0.0.100", "10.0.2.1").Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(3, 1, 0, fine[14:42])).Bytes(),
	}
	before := p.Strays()
	for what, frame := range strange {
		if p.Receive(frame) {
			t.Errorf("%s is accepted", what)
		}
	}
	if n := p.Strays() - before; n != uint64(len(strange)) {
		t.Errorf("%d strange packets are counted, want %d", n, len(strange))
	}
	p.Release(Target{vip, 80}, ports)
	if p.Receive(fine) {
		t.Error("a packet of a check that has ended is accepted")
	}
}

func TestPortsOfServers(t *testing.T) {
	t.Parallel()
	p := open(t, func(*Path, uint32, []byte) {})
	to := Target{vip, 80}
	if n := p.Ports(to); n != 0 {
		t.Errorf("a target that is not checked has %d ports", n)
	}
	first, second := take(t, p, to, 1), take(t, p, to, 2)
	if first != (inet.Ports{First: 32768, Last: 32771}) || second != (inet.Ports{First: 32772, Last: 32775}) || p.Ports(to) != 8 {
		t.Errorf("the servers have %v and %v, together %d", first, second, p.Ports(to))
	}
	if other := take(t, p, Target{vip, 81}, 3); other != first {
		t.Errorf("a server of another target has %v", other)
	}
	p.Release(to, first)
	p.Release(to, first) // twice
	if again := take(t, p, to, 4); again != first {
		t.Errorf("the next server has %v, want those that were given back", again)
	}
	p.Release(to, first)
	p.Release(to, second)
	if n := p.Ports(to); n != 0 {
		t.Errorf("a target without servers has %d ports", n)
	}
	for server := range uint32(8192) {
		take(t, p, to, server)
	}
	if _, err := p.Take(to, 8192); !errors.Is(err, cube.ErrFull) {
		t.Errorf("one server more than there are ports: %v", err)
	}
	p.Release(to, inet.Ports{First: 40000, Last: 40003})
	if again := take(t, p, to, 9); again.First != 40000 {
		t.Errorf("the only free ports are not found: %v", again)
	}
}

func TestSourcesAndSizeChange(t *testing.T) {
	t.Parallel()
	packets := make(chan string, 100)
	p := open(t, func(_ *Path, _ uint32, frame []byte) {
		ip, _ := wire.ParseIP(frame)
		select {
		case packets <- ip.Src.String():
		default:
		}
	})
	checker, err := health.New(health.Options{Namespace: p.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	defer checker.Close()
	ports := take(t, p, Target{vip6, 80}, 1)
	set := func(from netip.Addr) {
		t.Helper()
		c := health.Check{Kind: health.TCP, Target: netip.AddrPortFrom(vip6, 80), Source: from, SourcePorts: ports, Interval: 100 * time.Millisecond}
		if err := checker.Set("s", c); err != nil {
			t.Fatal(err)
		}
	}
	leaves := func(from string) {
		t.Helper()
		netns.Eventually(t, patience, func() error {
			if got := <-packets; got != from {
				return fmt.Errorf("a check came from %s, want %s", got, from)
			}
			return nil
		})
	}
	set(source6)
	leaves(source6.String())
	other := netip.MustParseAddr("2001:db8:2::7")
	if err := p.SetSources([]netip.Addr{other}); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, patience, func() error {
		if s, _ := checker.State("s"); !strings.HasPrefix(s.Error, "cannot check") {
			return fmt.Errorf("with a source that is gone: %+v", s)
		}
		return nil
	})
	for _, mtu := range []int{600, 1280} { // below 1280 there is no IPv6
		if err := p.SetMTU(mtu); err != nil {
			t.Fatal(err)
		}
		if err := p.SetSources([]netip.Addr{other, source}); err != nil {
			t.Fatal(err)
		}
	}
	set(other)
	leaves(other.String())
}
