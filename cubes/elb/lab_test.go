// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/elb"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// ends are the addresses of a lab in one family: the host has vip, and clients and servers are in the network of its netdev.
type ends struct{ vip, client, server, other, router string }

var (
	v4 = ends{"10.0.0.1", "10.0.0.2", "10.0.0.11", "10.0.0.12", "10.0.0.99"}
	v6 = ends{"fd00::1", "fd00::2", "fd00::11", "fd00::12", "fd00::99"}
)

// MAC addresses of the network.
const (
	clientMAC = "02:00:00:00:00:02"
	serverMAC = "02:00:00:00:00:11"
	otherMAC  = "02:00:00:00:00:12"
)

// rig is a host with the cube e on veth1.
type rig struct {
	*bpftest.Lab
	t *testing.T
	// mac is that of the host.
	mac string
}

// services has the cubes of a lab read the host that the lab is.
func services(l *bpftest.Lab) []cube.Service {
	list := slices.Clone(cube.Services())
	for i := range list {
		if strings.Contains(list[i].Model, "module elb {") {
			list[i].New = func(env cube.Env) (cube.Instance, error) { return elb.NewIn(l.Do, env) }
		}
	}
	return list
}

// newHost is a host without the cube.
func newHost(t *testing.T, typ cube.Type) *rig {
	t.Helper()
	return newHostOf(t, typ, 1)
}

// newHostOf is one with so many netdevs, of which the first has addresses. Tests of hosts run in parallel: they wait for most of their time.
func newHostOf(t *testing.T, typ cube.Type, netdevs int) *rig {
	t.Helper()
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: netdevs, Host: []netns.Option{netns.WithIPv6(), netns.WithoutTxChecksum(), netns.WithGRO()}, Follow: true, ServicesIn: services})
	l.Lab.Run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.veth1.disable_ipv6=0", "net.ipv6.conf.veth1.accept_dad=0")
	l.Lab.Run("ip", "link", "set", "lo", "up")
	l.Lab.Run("ip", "addr", "add", v4.vip+"/24", "dev", "veth1")
	l.Lab.Run("ip", "addr", "add", v6.vip+"/64", "dev", "veth1", "nodad")
	l.Lab.Run("ip", "addr", "add", "10.0.0.7/24", "dev", "veth1")
	l.Lab.Run("ip", "addr", "add", "fd00::7/64", "dev", "veth1", "nodad")
	return &rig{Lab: l, t: t, mac: l.Hosts[0].OuterMAC.String()}
}

// newRig is a host with the cube, and neighbours that it knows.
func newRig(t *testing.T, typ cube.Type, conf string) *rig {
	t.Helper()
	r := newHost(t, typ)
	for _, e := range []ends{v4, v6} {
		for address, mac := range map[string]string{e.client: clientMAC, e.server: serverMAC, e.other: otherMAC} {
			r.Lab.Lab.Run("ip", "neigh", "replace", address, "lladdr", mac, "dev", "veth1", "nud", "permanent")
		}
	}
	r.Create("elb", "e", conf)
	r.Attach("e", "veth1")
	r.settled()
	return r
}

// each runs a test at both hooks.
func each(t *testing.T, conf string, test func(t *testing.T, r *rig)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) { test(t, newRig(t, typ, conf)) })
	}
}

// service is the configuration of a service with servers on port 8080 ("address weight").
func (e ends) service(more string, servers ...string) string {
	var list []string
	for _, s := range servers {
		address, weight, _ := strings.Cut(s, " ")
		if weight == "" {
			weight = "1"
		}
		list = append(list, fmt.Sprintf(`{"ip":%q,"port":8080,"weight":%s}`, address, weight))
	}
	return fmt.Sprintf(`{"vip":%q,"vport":80%s,"backend":[%s]}`, e.vip, more, strings.Join(list, ","))
}

// server is an entry of the list `server`.
type server struct {
	VIP, IP, Frontend, Name, State, Reason string
	VPort, Port                            uint16
	Weight, Active                         uint32
	Opened, Packets, Bytes                 uint64
	ReplyPackets                           uint64  `json:"reply-packets"`
	ReplyBytes                             uint64  `json:"reply-bytes"`
	Sessions                               *uint64 `json:"haproxy-sessions"`
	Sent                                   *uint64 `json:"haproxy-bytes"`
	Feedback                               struct {
		State  string
		Weight string `json:"effective-weight"`
	}
}

// servers reads the list.
func (r *rig) servers() (all []server) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.Read("e server")), &all); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// server reads the entry of a server, of any of its services.
func (r *rig) server(ip string) (is server) {
	r.t.Helper()
	for _, s := range r.servers() {
		if s.IP == ip {
			return s
		}
	}
	return server{}
}

// settled waits until all servers are up.
func (r *rig) settled() {
	r.t.Helper()
	netns.Eventually(r.t, bpftest.Patience, func() error {
		for _, s := range r.servers() {
			if s.State != "UP" {
				return fmt.Errorf("server %s is %s: %s", s.IP, s.State, s.Reason)
			}
		}
		return nil
	})
}

// sessions reads a counter of the container.
func (r *rig) sessions(name string) uint64 {
	r.t.Helper()
	var all map[string]json.Number
	if err := json.Unmarshal([]byte(r.Read("e sessions")), &all); err != nil {
		r.t.Fatal(err)
	}
	n, err := all[name].Int64()
	if err != nil {
		r.t.Fatalf("sessions %s: %v in %v", name, err, all)
	}
	return uint64(n)
}

// frame is one between two addresses.
func frame(fromMAC, toMAC, from, to string) *pkt.Frame {
	f := pkt.Eth(fromMAC, toMAC)
	if strings.Contains(from, ":") {
		return f.IPv6(from, to)
	}
	return f.IPv4(from, to)
}

// Segments of TCP by their flags.
var (
	syn    = pkt.TCPFlags{SYN: true}
	synAck = pkt.TCPFlags{SYN: true, ACK: true}
	ack    = pkt.TCPFlags{ACK: true}
)

// segment is one of the client to the service.
func (r *rig) segment(e ends, port uint16, flags pkt.TCPFlags) []byte {
	return frame(clientMAC, r.mac, e.client, e.vip).TCP(port, 80, flags).Payload(6).Bytes()
}

// reply is one of a server to a source port.
func (r *rig) reply(e ends, server, mac string, port uint16, flags pkt.TCPFlags) []byte {
	return frame(mac, r.mac, server, e.vip).TCP(8080, port, flags).Payload(8).Bytes()
}

// source is the source port of a frame of TCP.
func source(frame []byte) uint16 {
	at := 14 + 20
	if frame[12] == 0x86 {
		at = 14 + 40
	}
	return uint16(frame[at])<<8 | uint16(frame[at+1])
}

// The outcomes of a frame.
var (
	passes  = bpftest.Outcome{Verdict: "pass", Fate: "e pass"}
	replies = bpftest.Outcome{Verdict: "send", Fate: "e pass"}
)

// judged runs a frame. What the host sends meanwhile passes the cube, too, on its way out, and is left out.
func (r *rig) judged(frame []byte) (bpftest.Outcome, []byte) {
	r.t.Helper()
	out, got := r.RunBytes("veth1", slices.Clone(frame))
	fates := slices.DeleteFunc(strings.Split(out.Fate, ", "), func(fate string) bool { return strings.HasPrefix(fate, "e pass") })
	if len(fates) == 0 {
		fates = []string{"e pass"}
	}
	out.Fate = strings.Join(fates, ", ")
	return out, got
}

// open opens a session, and returns the client's packet as the server gets it.
func (r *rig) open(e ends, port uint16) []byte {
	r.t.Helper()
	out, got := r.judged(r.segment(e, port, syn))
	if out != replies {
		r.t.Fatalf("SYN from port %d: %+v, want %+v; %s", port, out, replies, r.Read("e"))
	}
	return got
}
