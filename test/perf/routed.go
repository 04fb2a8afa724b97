// SPDX-License-Identifier: Apache-2.0

package perf

// Forwarders between two networks: the kernel's forwarding and translation, and ours, set up as by a user.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
)

// between forwards the traffic of a routed wire.
type between struct {
	name  string
	setup func(*lab.Rig, *Run, *lab.Wire) error
}

// routes are networks behind the right host: most as small as those of the Internet's routing table, some larger.
func routes(n int) []netip.Prefix {
	out := make([]netip.Prefix, n)
	for i := range out {
		if i%10 == 9 {
			j := i / 10
			out[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(64 + j>>12), byte(j >> 4), byte(j << 4), 0}), 20)
			continue
		}
		out[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + i>>16), byte(i >> 8), byte(i), 0}), 24)
	}
	return out
}

// rightHost is the gateway of routes.
var rightHost = netip.MustParseAddr(lab.RightHost)

// kernelAddresses gives the machine its addresses and enables forwarding; addresses on the right host need not be
// resolved.
func kernelAddresses(w *lab.Wire, on ...netip.Addr) error {
	lines := []string{
		"addr add " + lab.LeftAddr + "/16 dev " + lab.In, "addr add " + lab.RightAddr + "/16 dev " + lab.Out,
		fmt.Sprintf("neigh add %s dev %s lladdr %s nud permanent", lab.LeftHost, lab.In, w.Left.MAC),
	}
	for _, a := range on {
		lines = append(lines, fmt.Sprintf("neigh replace %s dev %s lladdr %s nud permanent", a, lab.Out, w.Right.MAC))
	}
	if err := batch(w.Machine.Namespace, lines); err != nil {
		return err
	}
	return w.Machine.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	})
}

// batch runs many commands of ip.
func batch(ns *netns.Namespace, lines []string) error {
	cmd := ns.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w\n%.1000s", err, out)
	}
	return nil
}

// kernelRoutes makes the machine a router.
func kernelRoutes(networks []netip.Prefix) func(*lab.Rig, *Run, *lab.Wire) error {
	return func(_ *lab.Rig, _ *Run, w *lab.Wire) error {
		var lines []string
		for _, n := range networks {
			lines = append(lines, fmt.Sprintf("route add %s via %s dev %s", n, lab.RightHost, lab.Out))
		}
		return errors.Join(kernelAddresses(w, rightHost), batch(w.Machine.Namespace, lines))
	}
}

// routerPort is a port of a router in its model.
type routerPort struct {
	Name string `json:"name"`
	Peer string `json:"peer"`
	IP   string `json:"ip"`
	MAC  string `json:"mac"`
}

type routerNeighbour struct {
	Address   netip.Addr `json:"address"`
	MAC       string     `json:"mac"`
	Interface string     `json:"interface"`
}

type routerRoute struct {
	Network netip.Prefix `json:"network"`
	Nexthop string       `json:"nexthop"`
}

// newRouter creates the router r1 in a daemon between the hosts; its ports have the addresses of the netdevs, and the
// given addresses of the right network belong to the right host. There is room for a number of routes.
func newRouter(rig *lab.Rig, r *Run, w *lab.Wire, typ cube.Type, room int, networks []netip.Prefix, on ...netip.Addr) (*lab.Daemon, error) {
	d, err := startDaemon(rig, r.bin(), w)
	if err != nil {
		return nil, err
	}
	conf := struct {
		Type       cube.Type         `json:"type"`
		Room       int               `json:"max-routes"`
		Ports      []routerPort      `json:"ports"`
		Neighbours []routerNeighbour `json:"arp-table"`
	}{Type: typ, Room: room, Ports: []routerPort{
		{"left", lab.In, lab.LeftAddr + "/16", w.Left.OuterMAC.String()},
		{"right", lab.Out, lab.RightAddr + "/16", w.Right.OuterMAC.String()},
	}}
	for _, a := range on {
		conf.Neighbours = append(conf.Neighbours, routerNeighbour{a, w.Right.MAC.String(), "right"})
	}
	if err := errors.Join(send(d, "POST", "/router/r1", conf), d.Inlined("r1")); err != nil || len(networks) == 0 {
		return d, err
	}
	list := make([]routerRoute, len(networks))
	for i, n := range networks {
		list[i] = routerRoute{n, lab.RightHost}
	}
	return d, send(d, "POST", "/router/r1/route", list)
}

// send sends a value to the daemon.
func send(d *lab.Daemon, method, path string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return d.Request(method, path, string(body))
}

// cost sets something up between the hosts and measures it: the best of a few runs. With fresh, each frame is the first
// of its flow.
func (b between) cost(rig *lab.Rig, r *Run, flows lab.Flows, fresh bool) (c lab.Cost, err error) {
	packets, runs := 1<<17, 4
	if r.Quick {
		packets, runs = 1<<16, 2
	}
	if fresh {
		runs = min(runs, flows.Count()/packets)
	}
	w, err := rig.NewRoutedWire(flows)
	if err == nil {
		err = errors.Join(rig.Sink(w, cube.XDP), b.setup(rig, r, w))
	}
	if err != nil {
		return c, err
	}
	if !fresh {
		// The generator counts per CPU: on the one that is measured, each flow occurs once.
		if err := netns.OnCPU(0, func() error { return w.Send(flows.Count()) }); err != nil {
			return c, err
		}
	}
	for i := range runs {
		one, err := w.Measure(packets, 0)
		if err != nil {
			return c, err
		}
		if i == 0 || one.NS < c.NS {
			c.NS = one.NS
		}
		c.Lost += one.Lost
	}
	return c, nil
}
