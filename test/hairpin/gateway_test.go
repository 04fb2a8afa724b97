// SPDX-License-Identifier: Apache-2.0

package hairpin

// A gateway with a masquerade at its port to the outside, and frames through it.

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/all" // the shipped services
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// Stations: the router's ports, two hosts in the LAN, one in the guests' network, and the provider.
const (
	lanMAC, wanMAC, guestsMAC              = "02:00:00:00:01:01", "02:00:00:00:02:01", "02:00:00:00:03:01"
	clientMAC, serverMAC, guestMAC, ispMAC = "02:00:00:00:01:05", "02:00:00:00:01:0a", "02:00:00:00:03:07", "02:00:00:00:02:fe"
	wan, wan6                              = "192.0.2.1", "2001:db8::1"
	client, client6                        = "10.0.1.5", "fd00:1::5"
	server, server6                        = "10.0.1.10", "fd00:1::a"
	guest, guest6                          = "10.0.3.7", "fd00:3::7"
	isp, isp6                              = "192.0.2.254", "2001:db8::fe"
)

// ports are the ports of the router gw. An IPv6 address is used at once, and every neighbour is resolved.
const ports = `{"arp":{"duplicate-detection":false},"ports":[
	{"name":"lan","peer":"veth1","mac":"` + lanMAC + `","ip":"10.0.1.1/24","secondaryip":[{"ip":"fd00:1::1/64"}]},
	{"name":"wan","peer":"veth2","mac":"` + wanMAC + `","ip":"` + wan + `/24","secondaryip":[{"ip":"` + wan6 + `/64"}],"rp-filter":"strict"},
	{"name":"guests","peer":"veth3","mac":"` + guestsMAC + `","mtu":1300,"ip":"10.0.3.1/24","secondaryip":[{"ip":"fd00:3::1/64"}]}],
"arp-table":[
	{"address":"` + client + `","mac":"` + clientMAC + `","interface":"lan"},{"address":"` + client6 + `","mac":"` + clientMAC + `","interface":"lan"},
	{"address":"` + server + `","mac":"` + serverMAC + `","interface":"lan"},{"address":"` + server6 + `","mac":"` + serverMAC + `","interface":"lan"},
	{"address":"` + guest + `","mac":"` + guestMAC + `","interface":"guests"},{"address":"` + guest6 + `","mac":"` + guestMAC + `","interface":"guests"},
	{"address":"` + isp + `","mac":"` + ispMAC + `","interface":"wan"},{"address":"` + isp6 + `","mac":"` + ispMAC + `","interface":"wan"}],
"route":[{"network":"0.0.0.0/0","nexthop":"` + isp + `"},{"network":"::/0","nexthop":"` + isp6 + `"}]}`

// rules forward port 8080 of both families to port 80 of the server, and 5353 of UDP to the guest.
const rules = `{"rule":{"masquerade":{"enabled":true},"port-forwarding":{"entry":[
	{"id":1,"external-ip":"` + wan + `","external-port":8080,"internal-ip":"` + server + `","internal-port":80},
	{"id":2,"external-ip":"` + wan6 + `","external-port":8080,"internal-ip":"` + server6 + `","internal-port":80},
	{"id":3,"external-ip":"` + wan + `","external-port":5353,"proto":"udp","internal-ip":"` + guest + `","internal-port":53}]}}}`

// gateway is the router gw with the nat masq.
type gateway struct {
	*bpftest.Lab
	t *testing.T
}

// inEach runs a test at both hooks and in both modes. Linux 6.1 counts more stack along calls, too much for a
// router and a nat inlined in one program: on kernels before 6.12 the mode is automatic, as for users.
func inEach(t *testing.T, o bpftest.Options, test func(t *testing.T, l *bpftest.Lab)) {
	t.Parallel()
	if need.Linux(t, 6, 12) {
		bpftest.Each(t, o, test)
		return
	}
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ))+"/auto", func(t *testing.T) {
			t.Parallel()
			o := o
			o.Type, o.Mode = typ, datapath.ModeAuto
			test(t, bpftest.New(t, o))
		})
	}
}

// each runs a test with a gateway, as inEach does.
func each(t *testing.T, o bpftest.Options, test func(g *gateway)) {
	inEach(t, o, func(t *testing.T, l *bpftest.Lab) {
		g := newGateway(t, l)
		test(g)
	})
}

func newGateway(t *testing.T, l *bpftest.Lab) *gateway {
	l.Create("router", "gw", ports)
	l.Create("nat", "masq", rules)
	l.Attach("masq", "gw:wan")
	g := &gateway{l, t}
	netns.Eventually(t, bpftest.Patience, func() error { return g.masquerades(wan, wan6) })
	return g
}

// step is a received frame, and its required result.
type step struct {
	name, in string
	send     []byte
	port     string // by which it leaves
	want     []byte
	fate     string // where it does not leave
}

func (g *gateway) steps(steps ...step) {
	g.t.Helper()
	for _, s := range steps {
		out, got := g.run(s)
		want := bpftest.Outcome{Verdict: "send", Sent: "gw:" + s.port}
		if slices.Contains(strings.Fields(out.Sent), want.Sent) {
			out.Sent = want.Sent // the router sends its own packets meanwhile
		}
		if s.port == "" {
			want = bpftest.Outcome{Verdict: "drop", Fate: s.fate}
			out.Sent = ""
			s.want = s.send
			if s.want != nil && strings.HasPrefix(s.fate, "masq") {
				got = s.want // the rest of a dropped packet does not matter
			}
		}
		if out != want {
			g.t.Errorf("%s: %+v, want %+v", s.name, out, want)
		}
		if !slices.Equal(got, s.want) {
			g.t.Errorf("%s:\n got %x\nwant %x", s.name, got, s.want)
		}
	}
}

// run sends a step's frame. Cubes of TestOtherCubesOnThePort that drop what leaves drop the router's announcements meanwhile,
// too, so the frame is sent again until there are none: if the frame itself were dropped where it should not, or more than
// once, it would be each time.
func (g *gateway) run(s step) (out bpftest.Outcome, got []byte) {
	g.t.Helper()
	for until := time.Now().Add(bpftest.Patience); ; <-time.After(20 * time.Millisecond) {
		out, got = g.RunBytes(s.in, s.send)
		more := s.fate != "" && out.Fate != s.fate && strings.HasPrefix(out.Fate, s.fate)
		if !more && !strings.Contains(out.Fate, "outer egress-drop") || time.Now().After(until) {
			return out, got
		}
	}
}

// own is a packet for the router that reaches its control plane unmodified.
func own(name, in string, frame []byte) step {
	return step{name: name, in: in, send: frame, fate: "gw slowpath"}
}

// fromTo creates frames of packets from one host to another, with their TTL before and after the router.
func fromTo(fromMAC, toMAC, from, to string) *pkt.Frame {
	if netip.MustParseAddr(from).Is6() {
		return pkt.Eth(fromMAC, toMAC).IPv6(from, to)
	}
	return pkt.Eth(fromMAC, toMAC).IPv4(from, to)
}

// routed is a frame after the router.
func routed(f *pkt.Frame) []byte { return pkt.Hop(f.Bytes()) }

// icmpError is a message of ICMP or ICMPv6 about the packet of a frame.
func icmpError(fromMAC, toMAC, from, to string, kind, code byte, about []byte) []byte {
	if netip.MustParseAddr(from).Is4() {
		return fromTo(fromMAC, toMAC, from, to).Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(kind, code, 0, about[14:])).Bytes()
	}
	message := pkt.ICMPv6Message(from, to, kind, code, 0, about[14:])
	return fromTo(fromMAC, toMAC, from, to).Protocol(pkt.ProtoICMPv6).Data(message).Bytes()
}
