// SPDX-License-Identifier: Apache-2.0

package ministate_test

// A firewall and a NAT on one port, in both orders: the NAT translates ICMP errors and the packets that they are about, so
// for the firewall on either side they are RELATED to the connection as it sees that.

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/firewall" // it registers itself, as the next one does
	_ "github.com/polycube/polycube/cubes/nat"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// The external address, of IPv4 and IPv6, and the ends of IPv6.
const ours, ours6, in6, out6 = "203.0.113.1", "2001:db8:1::1", "fd00::1", "2001:db8::1"

// orders are the orders of the two cubes, the inner one first.
var orders = [][]string{{"m", "n"}, {"n", "m"}}

// filter is a firewall, its body, and why it drops what comes in without a connection and a rule.
type filter struct{ service, body, drop string }

var filters = []filter{
	{"ministate", `{"rules":[{"id":1,"l4_proto":"UDP","src_port":5000}]}`, "invalid"},
	{"firewall", `{"families":["ipv4","ipv6"],"chain":[{"name":"INGRESS","default":"DROP","rule":[{"id":0,"l4proto":"UDP","sport":"5000","action":"ACCEPT"}]}]}`, "default"},
}

// translated attaches a firewall and a NAT to the port at veth1, outside.
func translated(l *bpftest.Lab, f filter, order []string) {
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create(f.service, "m", f.body)
	l.Create("nat", "n", `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},
		{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8:1::1"}]},
		"port-forwarding":{"entry":[{"id":1,"external-ip":"203.0.113.1","external-port":80,"internal-ip":"10.0.0.1","internal-port":8080}]}}}`)
	for _, name := range order {
		l.Attach(name, "f:p1")
	}
}

// icmpError is an ICMP error of a host about a packet.
func icmpError(from, to string, kind, code byte, word uint32, about []byte) []byte {
	return ip(from, to, pkt.ProtoICMP, pkt.ICMPMessage(kind, code, word, about))
}

func TestErrorsAreRelatedOnBothSidesOfANAT(t *testing.T) {
	for _, order := range orders {
		t.Run(strings.Join(order, "-"), func(t *testing.T) {
			bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) { errorsAreRelated(t, l, filters[0], order) })
			t.Run("firewall", func(t *testing.T) { errorsAreRelated(t, bpftest.New(t, options), filters[1], order) })
		})
	}
}

// errorsAreRelated sends errors about translated packets in both directions.
func errorsAreRelated(t *testing.T, l *bpftest.Lab, f filter, order []string) {
	t.Helper()
	translated(l, f, order)
	run := func(name, dev, sent string, frame, want []byte) {
		t.Helper()
		out, got := l.RunBytes(dev, frame)
		if (out != bpftest.Outcome{Verdict: "send", Sent: sent}) || !bytes.Equal(got, want) {
			t.Errorf("%s: %+v\n got %x\nwant %x", name, out, got, want)
		}
	}
	in := func(name string, frame, want []byte) { t.Helper(); run(name, "veth1", "f:p2", frame, want) }
	out := func(name string, frame, want []byte) { t.Helper(); run(name, "veth2", "f:p1", frame, want) }
	const hop = "198.51.100.1" // a router on the path
	datagram := func(from string) []byte { return udp(from, outside, 4000, 53) }
	segment := func(from string) []byte { return tcp(from, outside, 4000, 80, syn, 1000, 0) }
	out("UDP", datagram(inside), datagram(ours))
	out("a SYN", segment(inside), segment(ours))
	in("port unreachable", icmpError(outside, ours, 3, 3, 0, packet(datagram(ours))), icmpError(outside, inside, 3, 3, 0, packet(datagram(inside))))
	for name, sent := range map[string]func(string) []byte{"UDP": datagram, "TCP": segment} {
		in("fragmentation needed, "+name, icmpError(hop, ours, 3, 4, 1400, packet(sent(ours))), icmpError(hop, inside, 3, 4, 1400, packet(sent(inside))))
		in("with eight bytes, "+name, icmpError(hop, ours, 3, 4, 1400, packet(sent(ours))[:28]), icmpError(hop, inside, 3, 4, 1400, packet(sent(inside))[:28]))
	}
	in("the answer after it", tcp(outside, ours, 80, 4000, syn|ack, 5000, 1001), tcp(outside, inside, 80, 4000, syn|ack, 5000, 1001))

	datagram6 := func(from string) []byte {
		return pkt.IPv6Header{From: from, To: out6, Next: pkt.ProtoUDP, HopLimit: 64}.Packet(pkt.UDPDatagram(from, out6, 4000, 53, make([]byte, 8)))
	}
	out("UDP over IPv6", framed(datagram6(in6)), framed(datagram6(ours6)))
	in("packet too big", tooBig(ours6, datagram6(ours6)), tooBig(in6, datagram6(in6)))

	came := func(to string, port uint16) []byte { return udp(outside, to, 5000, port) }
	in("to a forwarded port", came(ours, 80), came(inside, 8080))
	out("nobody listens there", icmpError(inside, outside, 3, 3, 0, packet(came(inside, 8080))), icmpError(ours, outside, 3, 3, 0, packet(came(ours, 80))))

	for name, frame := range map[string][]byte{
		"about no session":         icmpError(hop, ours, 3, 4, 1400, packet(udp(ours, outside, 4001, 53))),
		"about the inside address": icmpError(hop, ours, 3, 4, 1400, packet(datagram(inside))),
	} {
		if got, _ := l.RunBytes("veth1", frame); got != (bpftest.Outcome{Verdict: "drop", Fate: "m " + f.drop}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestHostsBehindFirewallAndNATGetErrors: real ones, about datagrams to a port where no one listens, and about those that are
// too long for the path.
func TestHostsBehindFirewallAndNATGetErrors(t *testing.T) {
	for _, order := range orders {
		for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
			t.Run(strings.Join(order, "-")+"/"+strings.ToLower(string(typ)), func(t *testing.T) {
				t.Parallel()
				o := bpftest.Options{Type: typ, Hosts: 2}
				if typ != cube.TypeTC {
					o.Host = []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
				}
				l := bpftest.New(t, o)
				translated(l, filters[0], order)
				wires, far, near := l.Wires(), l.Hosts[0], l.Hosts[1]
				far.Run("ip", "addr", "add", "203.0.113.2/24", "dev", netns.Inner)
				near.Run("ip", "addr", "add", "10.0.0.1/24", "dev", netns.Inner)
				near.Run("ip", "route", "add", "203.0.113.0/24", "dev", netns.Inner)
				far.Run("ip", "neigh", "replace", ours, "lladdr", macOf(t, near), "dev", netns.Inner)
				near.Run("ip", "neigh", "replace", "203.0.113.2", "lladdr", macOf(t, far), "dev", netns.Inner)
				patience := pace.Stretch(10 * time.Second)

				var c *net.UDPConn
				err := near.Do(func() (err error) {
					c, err = net.DialUDP("udp4", &net.UDPAddr{Port: 4000}, &net.UDPAddr{IP: net.ParseIP("203.0.113.2"), Port: 7000})
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close() }()
				if _, err := ask(c, "hello", patience); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("where no one listens: %v, want the ICMP error to arrive; fates %v, of the NAT %v", err, l.Fates("m"), l.Fates("n"))
				}
				about := packet(udp(ours, "203.0.113.2", 4000, 7000))
				wires[0].Puts(pkt.Eth(macOf(t, far), macOf(t, near)).IP(packet(icmpError("203.0.113.2", ours, 3, 4, 1300, about))).Bytes())
				netns.Eventually(t, bpftest.Patience, func() error {
					if shown := near.Run("ip", "route", "get", "203.0.113.2"); !strings.Contains(shown, "mtu 1300") {
						return fmt.Errorf("the host does not know the MTU of the path: %s; fates %v", shown, l.Fates("m"))
					}
					return nil
				})
			})
		}
	}
}

// macOf is the MAC address of a host.
func macOf(t *testing.T, host *netns.Node) string {
	t.Helper()
	var mac string
	if err := host.Do(func() error {
		i, err := net.InterfaceByName(netns.Inner)
		if err == nil {
			mac = i.HardwareAddr.String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return mac
}
