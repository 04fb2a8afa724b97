// SPDX-License-Identifier: Apache-2.0

// Package balancers measures the load balancers compared with nftables, kube-proxy's rules and HAProxy, and their programs
// alone.
package balancers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// What all groups share.
type (
	// Bench is how a part is measured.
	Bench = contest.Bench
	// Result of a part.
	Result = contest.Result
	device = contest.Device
	runner = contest.Runner
)

// Parts lists the parts in the order in which they run.
func Parts() []contest.Part {
	return []contest.Part{
		{Name: "balancer-program", Do: programs},
		{Name: "balancer-dsr", Do: direct},
		{Name: "balancer-nat", Do: translated},
		{Name: "balancer-new", Do: fresh},
		{Name: "balancer-services", Do: services},
		{Name: "balancer-tcp", Do: tcp},
		{Name: "balancer-memory", Do: memory},
	}
}

// Names of the balancers.
const (
	lbdsrXDP     = "lbdsr, XDP"
	lbdsrTCX     = "lbdsr, tcx"
	lbdsrIPIPXDP = "lbdsr with IPIP, XDP"
	lbdsrIPIPTCX = "lbdsr with IPIP, tcx"
	lbrpXDP      = "lbrp, XDP"
	lbrpTCX      = "lbrp, tcx"
	nftDSR       = "nftables, MAC rewriting at ingress"
	nftDNAT      = "nftables, DNAT"
	nftStateless = "nftables, stateless"
	kubeNFT      = "kube-proxy, nftables"
	kubeIPT      = "kube-proxy, iptables-legacy"
)

// load is what balancers balance: services that all have the same servers, and flows to them.
type load struct {
	services, servers, flows int
	random                   bool
}

// The addresses of clients, of services, and of servers; servers with IP addresses are behind the right host.
var (
	firstClient  = netip.MustParseAddr("100.64.0.0")
	firstService = netip.MustParseAddr("10.128.0.0")
	firstServer  = netip.MustParseAddr("10.192.0.0")
)

// rightHost is the right host's address, a router to the servers, and backAddr the balancer's in its network.
const (
	rightHost   = "198.51.100.2"
	backAddr    = "198.51.100.9/24"
	servicePort = 80
	serverPort  = 8080
)

// after is the address with a number behind a first one.
func after(first netip.Addr, n int) netip.Addr {
	a := first.As4()
	for i := 3; i >= 0; i-- {
		n += int(a[i])
		a[i], n = byte(n), n>>8
	}
	return netip.AddrFrom4(a)
}

func (l load) service(i int) netip.Addr { return after(firstService, i) }
func (l load) server(i int) netip.Addr  { return after(firstServer, i) }

// mac is the MAC address of a server on the link.
func (l load) mac(i int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 1, byte(i >> 8), byte(i)} }

// datagrams are the flows.
func (l load) datagrams() lab.Datagrams {
	return lab.Datagrams{
		First: firstClient, Flows: l.flows, Service: firstService, Services: l.services, Port: servicePort, Random: l.random,
	}
}

func (l load) String() string {
	return fmt.Sprintf("%s services with %s servers, %s flows", contest.Thousands(l.services), contest.Thousands(l.servers), contest.Thousands(l.flows))
}

type object map[string]any

// dsr is the configuration of an lbdsr.
func (l load) dsr(typ cube.Type, forward string) object {
	servers := make([]object, l.servers)
	for i := range servers {
		servers[i] = object{"address": l.mac(i).String()}
		if forward != "L2" {
			servers[i] = object{"address": l.server(i), "forward": forward}
		}
	}
	list := make([]object, l.services)
	for i := range list {
		list[i] = object{"vip": l.service(i), "vport": servicePort, "proto": "UDP", "server": servers}
	}
	return object{
		"type": typ, "max-flows": 1 << 17, "service": list,
		"ports": []object{
			{"name": "front", "type": "FRONTEND", "peer": lab.In},
			{"name": "back", "type": "BACKEND", "peer": lab.Out, "ip": backAddr, "gateway": rightHost},
		},
	}
}

// direct server return by our cube.
func (l load) lbdsr(typ cube.Type, forward string) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
		_, err := l.startDSR(rig, b, w, typ, forward)
		return err
	}
}

func (l load) startDSR(rig *lab.Rig, b *Bench, w *lab.Filtered, typ cube.Type, forward string) (*lab.Daemon, error) {
	w.Right.Run("ip", "addr", "add", rightHost+"/24", "dev", netns.Inner)
	d, err := contest.DaemonAt(rig, b, w)
	if err != nil {
		return nil, err
	}
	return d, errors.Join(contest.Post(d, "/lbdsr/c1", l.dsr(typ, forward)), d.Inlined("c1"))
}

// balanced waits until what is sent arrives, and checks that it is as it should be.
func balanced(w *lab.Filtered, s *lab.Stream, is func(frame []byte) (server string, err error)) error {
	const patience, frames = 30 * time.Second, 1024
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // addresses may have to be resolved
		arrived, err := w.Arrived(s, frames)
		if err != nil {
			return err
		}
		if err = spread(arrived, is); err == nil {
			return nil
		}
		if time.Since(begin) > patience {
			return err
		}
	}
}

// spread checks that frames go to several servers.
func spread(frames [][]byte, is func(frame []byte) (string, error)) error {
	servers := map[string]int{}
	for _, f := range frames {
		server, err := is(f)
		if err != nil {
			return fmt.Errorf("frame %x: %w: %w", f, err, contest.ErrLost)
		}
		servers[server]++
	}
	if len(servers) < 4 {
		return fmt.Errorf("%d frames are spread over %d servers: %w", len(frames), len(servers), contest.ErrLost)
	}
	return nil
}

// contender is a balancer with its load, and what arrives behind it.
type contender struct {
	device
	is func(frame []byte) (server string, err error)
}

// runnerOf sets up a balancer and checks what it does.
func (l load) runnerOf(rig *lab.Rig, b *Bench, c contender) (*runner, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.Sinks(rig), w.Route()); err != nil {
		return nil, err
	}
	r := &runner{Name: c.Name, Wire: w, Drops: c.Name == contest.Generator}
	if err := c.Setup(rig, b, w); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if r.Stream, err = w.Datagrams(l.datagrams()); err != nil {
		return nil, err
	}
	if c.is != nil {
		if err := balanced(w, r.Stream, c.is); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return r, nil
}

// nobody drops everything where it comes in.
func nobody() contender {
	return contender{device: device{Name: contest.Generator, Setup: func(rig *lab.Rig, _ *Bench, w *lab.Filtered) error {
		return w.DiscardFrom(rig, netip.MustParsePrefix(lab.Clients))
	}}}
}

// compete measures balancers with the same load. Flows that are known have been sent before; of others every packet is the
// first.
func (l load) compete(ctx context.Context, b *Bench, rounds int, known bool, all []contender) (contest.Figures, []*runner, error) {
	var runners []*runner
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, c := range append([]contender{nobody()}, all...) {
			r, err := l.runnerOf(rig, b, c)
			if err != nil {
				return err
			}
			if known {
				if err := r.Stream.Restart(); err != nil {
					return err
				}
				for range 2 { // a pin is confirmed by the second packet
					if _, err := r.Send(l.flows); err != nil {
						return err
					}
				}
			}
			if err := r.Warm(2048); err != nil {
				return err
			}
			runners = append(runners, r)
		}
		return contest.Race(rig.Context(), rounds, runners)
	})
	return contest.FiguresOf(runners), runners, err
}

// table is one of what was measured.
func table(title string, f contest.Figures, all []*runner, ours ...string) *report.Table {
	t := &report.Table{Title: title, Columns: contest.Columns(ours...)}
	f.Rows(t, all, ours...)
	return t
}
