// SPDX-License-Identifier: Apache-2.0

package fastpath_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/examples/cubes/fastpath" // registers itself
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// routed is a lab with a fast path on veth1, which has one output.
func routed(t *testing.T, l *bpftest.Lab) bpftest.Route {
	t.Helper()
	r := l.Route()
	l.Create("fastpath", "f", `{"outputs":[{"number":5,"to":"veth2"}]}`)
	l.Attach("f", "veth1")
	redirected(r, "once the MAC address and the output are known", packet4(r, neighbour, 64))
	return r
}

const (
	sender, neighbour, neighbour6 = bpftest.RouteSender, bpftest.RouteNeighbour, bpftest.RouteNeighbour6
)

func redirected(r bpftest.Route, what string, frame []byte) {
	r.Wants(what, frame, bpftest.Outcome{Verdict: "send", Fate: "f redirected"}, r.Next(frame))
}

func passed(r bpftest.Route, what string, frame []byte) {
	r.Wants(what, frame, bpftest.Outcome{Verdict: "pass", Fate: "f pass"}, frame)
}

func packet4(r bpftest.Route, to string, ttl uint8) []byte {
	return r.Frame(pkt.IPv4Header{From: sender, To: to, Protocol: pkt.ProtoUDP, TTL: ttl}.Packet(pkt.UDPDatagram(sender, to, 1, 2, make([]byte, 40))))
}

func packet6(r bpftest.Route, to string, limit uint8) []byte {
	const from = bpftest.RouteSender6
	return r.Frame(pkt.IPv6Header{From: from, To: to, Next: pkt.ProtoUDP, HopLimit: limit}.Packet(pkt.UDPDatagram(from, to, 1, 2, make([]byte, 40))))
}

func TestPacketsAreForwardedByTheRoutesOfTheHost(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2, Follow: true}, func(t *testing.T, l *bpftest.Lab) {
		r := routed(t, l)
		for what, frame := range map[string][]byte{"IPv4": packet4(r, neighbour, 64), "TTL 2": packet4(r, neighbour, 2), "IPv6": packet6(r, neighbour6, 64)} {
			redirected(r, what, frame)
		}
	})
}

func TestTheStackGetsEverythingElse(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2, Follow: true}, func(t *testing.T, l *bpftest.Lab) {
		r := routed(t, l)
		wrongSum := packet4(r, neighbour, 64)
		wrongSum[24]++
		elsewhere := packet4(r, neighbour, 64)
		elsewhere[5]++
		back := packet4(r, "10.0.1.8", 64)
		l.Lab.Run("ip", "neigh", "add", "10.0.1.8", "lladdr", bpftest.RouteNeighbourMAC, "dev", "veth1", "nud", "permanent")
		l.Lab.Run("ip", "rule", "add", "ipproto", "udp", "dport", "53", "blackhole")
		from := func(source string) []byte {
			return r.Frame(pkt.IPv4Header{From: source, To: neighbour, Protocol: pkt.ProtoUDP, TTL: 64}.Packet(make([]byte, 40)))
		}
		from6 := func(source string) []byte {
			return r.Frame(pkt.IPv6Header{From: source, To: neighbour6, Next: pkt.ProtoUDP, HopLimit: 64}.Packet(make([]byte, 40)))
		}
		for _, c := range []struct {
			what    string
			frame   []byte
			counter string
		}{
			{"the last TTL", packet4(r, neighbour, 1), "exception"},
			{"the last hop limit", packet6(r, neighbour6, 1), "exception"},
			{"a wrong checksum", wrongSum, "exception"},
			{"options", r.Frame(pkt.IPv4Header{From: sender, To: neighbour, Protocol: pkt.ProtoUDP, TTL: 64, Options: []byte{1, 1, 1, 1}}.Packet(make([]byte, 40))), "exception"},
			{"link-local", packet6(r, "fe80::1", 64), "exception"},
			{"multicast", packet6(r, "ff02::1", 64), "exception"},
			{"from the loopback network", from("127.0.0.1"), "exception"},
			{"from a multicast address", from("224.0.0.1"), "exception"},
			{"from nobody", from6("::"), "exception"},
			{"from a link-local address", from6("fe80::1"), "exception"},
			{"to a port that a rule forbids", r.Frame(pkt.IPv4Header{From: sender, To: neighbour, Protocol: pkt.ProtoUDP, TTL: 64}.Packet(pkt.UDPDatagram(sender, neighbour, 1, 53, nil))), "no-way"},
			{"for the host", packet4(r, "10.0.2.254", 64), "no-way"},
			{"without a route", packet4(r, "192.0.2.1", 64), "no-way"},
			{"to a neighbour that is not resolved", packet4(r, "10.0.2.8", 64), "no-way"},
			{"for another station", elsewhere, "not-routed"},
			{"ARP", pkt.Eth(bpftest.RouteSenderMAC, bpftest.RouteMAC).ARPRequest(bpftest.RouteSenderMAC, sender, "10.0.1.254").Bytes(), "not-routed"},
			{"back where it came from", back, "no-output"},
		} {
			netns.Eventually(t, bpftest.Patience, func() error { // what the host sends meanwhile passes the cube, too
				before := counters(l)
				if got, want := l.Run("veth1", c.frame), (bpftest.Outcome{Verdict: "pass", Fate: "f pass"}); got != want {
					return fmt.Errorf("%s: %+v, want %+v", c.what, got, want)
				}
				for name, n := range counters(l) {
					if n-before[name] != map[bool]uint64{true: 1}[name == c.counter] {
						return fmt.Errorf("%s: counter %s has grown by %d", c.what, name, n-before[name])
					}
				}
				return nil
			})
		}
		// Outputs that are removed, or lead elsewhere, are not used any more.
		l.Set("DELETE", "f outputs 5", "")
		passed(r, "without an output", packet4(r, neighbour, 64))
		l.Set("POST", "f outputs 7", `{"to":"veth2"}`)
		redirected(r, "with another output", packet4(r, neighbour, 64))
	})
}

// counters reads what the stack got.
func counters(l *bpftest.Lab) map[string]uint64 {
	out := map[string]uint64{}
	for _, name := range []string{"not-routed", "exception", "no-way", "no-output"} {
		var n uint64
		if _, err := fmt.Sscan(strings.Trim(l.Read("f to-stack "+name), `"`), &n); err != nil {
			panic(err)
		}
		out[name] = n
	}
	return out
}

// TestHostsTalkThroughTheFastPath: TCP and ping between two networks, in both directions, at each hook. The stack resolves
// neighbours and answers what has expired.
func TestHostsTalkThroughTheFastPath(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			o := bpftest.Options{Type: typ, Hosts: 2, Follow: true}
			if typ != cube.TypeTC {
				o.Host = []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
			}
			l := bpftest.New(t, o)
			l.Forward()
			for i, h := range l.Hosts {
				h.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", i+1), "dev", netns.Inner)
				h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.254", i+1))
			}
			cross(t, l, typ)
			if out, err := l.Hosts[0].Command("ping", "-c", "1", "-W", "5", "-t", "1", "10.0.2.1").CombinedOutput(); !strings.Contains(string(out), "10.0.1.254") ||
				!strings.Contains(string(out), "Time to live exceeded") {
				t.Errorf("a packet with TTL 1: %v, %s", err, out)
			}
		})
	}
}

// cross puts a cube on the netdev of each host, with an output for that of the other one, and lets the hosts talk.
func cross(t *testing.T, l *bpftest.Lab, typ cube.Type) {
	t.Helper()
	l.CreateAll(`[{"name":"a","service-name":"fastpath","type":"` + string(typ) + `","outputs":[{"number":0,"to":"veth2"}]},
		{"name":"b","service-name":"fastpath","type":"` + string(typ) + `","outputs":[{"number":0,"to":"veth1"}]}]`)
	l.Attach("a", "veth1")
	l.Attach("b", "veth2")
	near, far := l.Hosts[0], l.Hosts[1]
	near.Reaches(t, bpftest.Patience, "10.0.2.1", netns.PingOptions{Count: 20})
	far.AnswerLines("10.0.2.1:7000", func(_ net.Addr, line string) string { return line })
	if err := talks(near, "10.0.2.1:7000"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a", "b"} {
		if fates := l.Fates(name); fates["redirected"] < 20 {
			t.Errorf("%s: %v, want most packets redirected", name, fates)
		}
	}
}

// talks exchanges lines of 10 KB.
func talks(from *netns.Node, address string) error {
	return from.Do(func() error {
		c, err := net.DialTimeout("tcp", address, pace.Stretch(10*time.Second))
		if err != nil {
			return err
		}
		defer c.Close()
		line := append(bytes.Repeat([]byte("x"), 10_000), '\n')
		got := make([]byte, len(line))
		for range 50 {
			if err := c.SetDeadline(time.Now().Add(pace.Stretch(10 * time.Second))); err != nil {
				return err
			}
			if _, err := c.Write(line); err != nil {
				return err
			}
			for n := 0; n < len(got); {
				m, err := c.Read(got[n:])
				if err != nil {
					return err
				}
				n += m
			}
			if !bytes.Equal(got, line) {
				return errors.New("the answer differs")
			}
		}
		return nil
	})
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
