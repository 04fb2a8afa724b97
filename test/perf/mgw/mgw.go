// SPDX-License-Identifier: Apache-2.0

// Package mgw measures the user plane of mobile networks: the programs alone, the chains of the paper's gateway by users, the
// algorithms of its policers, and live compared with the kernel's forwarding.
package mgw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

// What all groups share.
type (
	// Bench is how a part is measured.
	Bench = contest.Bench
	// Result of a part.
	Result = contest.Result
)

// Parts lists the parts in the order in which they run.
func Parts() []contest.Part {
	return []contest.Part{
		{Name: "mgw-program", Do: programs},
		{Name: "mgw-users", Do: users},
		{Name: "mgw-policers", Do: policers},
		{Name: "mgw-live", Do: live},
	}
}

// Base stations are behind lab.In, the network is behind lab.Out; lab.Filtered.Route has the same addresses and routes.
const (
	local     = "192.0.2.1"
	ranHost   = "192.0.2.2"
	dnHost    = "198.51.100.2"
	qfi       = 9
	perSite   = 100 // users of a base station
	perRoute  = 10  // users whose server has a route of its own
	perUser   = 10  // flows
	firstTEID = 0x1000
	siteTEID  = 0x2000_0000
)

type object map[string]any

// plus is the address with a number behind a first one.
func plus(first string, n int) netip.Addr {
	a := netip.MustParseAddr(first).As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+uint32(n))
	return netip.AddrFrom4(a)
}

// user is the address of a user, site that of its base station, and server that of the server that it talks to.
func user(i int) netip.Addr   { return plus("100.64.0.1", i) }
func site(i int) netip.Addr   { return plus("172.16.0.1", i/perSite) }
func server(i int) netip.Addr { return plus("10.0.0.1", i/perRoute<<8) }

// load is the users whose packets are sent.
type load struct {
	users int
	// down is the direction of packets: to users.
	down bool
	// tunnels: packets from users come in tunnels, with a PDU Session Container if container is set.
	tunnels, container bool
}

// frame is a packet of a user's flow.
func (l load) frame(w *lab.Filtered, i, flow int) []byte {
	phone, far := user(i).String(), server(i).String()
	if l.down {
		return mobile.Frame(w.Right.MAC.String(), w.Right.OuterMAC.String(), mobile.Datagram(far, phone, 443, uint16(1024+flow), make([]byte, 18), 0))
	}
	packet := mobile.Datagram(phone, far, uint16(1024+flow), 443, make([]byte, 22), 0)
	if l.tunnels {
		m := gtpu.Message{Type: gtpu.PDU, TEID: uint32(firstTEID + i), Payload: packet}
		if l.container {
			m.Extensions = []gtpu.Extension{gtpu.Session{Uplink: true, QFI: qfi}.Extension()}
		}
		packet = mobile.Message(site(i).String(), local, m)
	}
	return mobile.Frame(w.Left.MAC.String(), w.Left.OuterMAC.String(), packet)
}

// frames are packets of random users.
func (l load) frames(w *lab.Filtered) func(n int) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	return func(n int) [][]byte {
		out := make([][]byte, n)
		for i := range out {
			out[i] = l.frame(w, rng.IntN(l.users), rng.IntN(perUser))
		}
		return out
	}
}

// longer is how much longer a packet gets.
func (l load) longer() int {
	header := 36
	if l.container {
		header += 8
	}
	switch {
	case l.tunnels && l.down:
		return header
	case l.tunnels:
		return -header
	}
	return 0
}

// gateway is a daemon between the hosts of a wire.
type gateway struct {
	*lab.Filtered
	*lab.Daemon
}

// newGateway starts a daemon with a router that has a route for each server of some users.
func newGateway(rig *lab.Rig, b *Bench, fib string, users int) (*gateway, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.Sinks(rig), w.Route()); err != nil {
		return nil, err
	}
	d, err := contest.DaemonAt(rig, b, w)
	if err != nil {
		return nil, err
	}
	g := &gateway{w, d}
	conf := object{
		"type": cube.TypeXDPDRV, "fib": fib,
		"ports": []object{
			{"name": "ran", "peer": lab.In, "ip": local + "/24", "mac": w.Left.OuterMAC.String()},
			{"name": "dn", "peer": lab.Out, "ip": "198.51.100.1/24", "mac": w.Right.OuterMAC.String()},
		},
	}
	if fib == "own" {
		conf["arp-table"] = []object{
			{"address": ranHost, "mac": w.Left.MAC.String(), "interface": "ran"}, {"address": dnHost, "mac": w.Right.MAC.String(), "interface": "dn"},
		}
	}
	if err := contest.Post(d, "/router/r1", conf); err != nil {
		return nil, err
	}
	return g, g.routes(fib, users)
}

// routes adds the routes to users and servers, to the router or to the host.
func (g *gateway) routes(fib string, users int) error {
	list := []object{{"network": lab.Clients, "nexthop": ranHost}}
	text := ""
	for i := 0; i < users; i += perRoute {
		network := netip.PrefixFrom(server(i), 24).Masked().String()
		list = append(list, object{"network": network, "nexthop": dnHost})
		text += "route add " + network + " via " + dnHost + " dev " + lab.Out + "\n"
	}
	if fib == "own" {
		return contest.Post(g.Daemon, "/router/r1/route", list)
	}
	return contest.Fed(g.Machine.Command("ip", "-batch", "-"), text)
}

// add creates a transparent cube and attaches it behind those that are there, seen from the base stations.
func (g *gateway) add(service, name string, conf object) error {
	conf["type"] = cube.TypeXDPDRV
	return errors.Join(contest.Post(g.Daemon, "/"+service+"/"+name, conf),
		contest.Post(g.Daemon, "/attach", object{"cube": name, "port": "r1:ran", "position": "first"}))
}

// withSessions adds a cube `upf` with sessions. Those that are limited have an MBR in both directions, a QFI, and are counted.
func (g *gateway) withSessions(n int, limited bool) error {
	most := max(n, 1000)
	err := g.add("upf", "u", object{
		"echo-interval": 0, "local-address": []object{{"address": local}},
		"max-sessions": most, "max-rules": 2 * most, "max-meters": most, "max-usages": most,
	})
	if err != nil {
		return err
	}
	dir, err := g.PinsOf("upf", "u")
	if err != nil {
		return err
	}
	t, err := pdusession.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(establish(t, n, limited), t.Close())
}

// establish writes sessions in batches.
func establish(t *pdusession.Tables, n int, limited bool) error {
	const batch = 1000
	for first := 0; first < n; first += batch {
		b := t.Begin()
		for i := first; i < min(first+batch, n); i++ {
			if _, err := b.Put(nil, session(i, limited)); err != nil {
				return errors.Join(err, b.Abort())
			}
		}
		if _, err := b.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// rate is more than any of the measurements reach.
var rate = pdusession.Rate{Limited: true, BitsPerSecond: 100e9}

func session(i int, limited bool) *pdusession.Session {
	s := &pdusession.Session{IPv4: user(i), Rules: []pdusession.Rule{
		{ID: 1, TEID: uint32(firstTEID + i), Forward: pdusession.Forward{Action: pdusession.Pass}},
		{ID: 2, Forward: pdusession.Forward{Action: pdusession.Pass, Peer: site(i), TEID: uint32(siteTEID + i)}},
	}}
	if !limited {
		return s
	}
	s.Rules[1].Forward.QFI = qfi
	s.Meters, s.Usages = []pdusession.Meter{{ID: 1, Up: rate, Down: rate}}, []pdusession.Usage{{ID: 1, Threshold: pdusession.Volume{Total: 1 << 60}}}
	for r := range s.Rules {
		s.Rules[r].Meters, s.Rules[r].Usages = []uint32{1}, []uint32{1}
	}
	return s
}

// single is the gateway's program for a load.
func (g *gateway) single(rig *lab.Rig, name string, l load) (*contest.Single, error) {
	dev := map[bool]string{false: lab.In, true: lab.Out}[l.down]
	at, err := lab.NewPlace(g.Machine.Namespace, cube.XDP, dev)
	if err != nil {
		return nil, err
	}
	var program *ebpf.Program
	if program, err = g.Entry(cube.XDP, dev); err != nil {
		return nil, err
	}
	rig.Closing(program)
	length := len(l.frame(g.Filtered, 0, 0)) + l.longer()
	return &contest.Single{Name: name, At: at, Program: program, Frames: l.frames(g.Filtered), Check: func(verdict uint32, out []byte) error {
		if verdict != 4 || len(out) != length { // XDP_REDIRECT
			return fmt.Errorf("verdict %d, %d bytes instead of %d: %w", verdict, len(out), length, contest.ErrLost)
		}
		return nil
	}}, nil
}
