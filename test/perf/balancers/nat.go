// SPDX-License-Identifier: Apache-2.0

package balancers

// Balancers that translate addresses.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// hasLBRP is whether there is the service lbrp; without it, only its peers are measured.
func hasLBRP(b *Bench) (bool, error) {
	_, err := os.Stat(filepath.Join(b.Root, "cubes", "lbrp"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// room is for how many sessions.
const room = 1 << 20

// rp is the configuration of an lbrp, where server j of service i has an address.
func (l load) rp(typ cube.Type, server func(i, j int) string) object {
	list := make([]object, l.services)
	for i := range list {
		servers := make([]object, l.servers)
		for j := range servers {
			servers[j] = object{"ip": server(i, j), "port": serverPort}
		}
		list[i] = object{"vip": l.service(i), "vport": servicePort, "proto": "UDP", "backend": servers}
	}
	return object{
		"type": typ, "max-sessions": room, "max-backends": max(1024, l.services*l.servers), "service": list,
		"ports": []object{{"name": "front", "type": "FRONTEND", "peer": lab.In}, {"name": "back", "type": "BACKEND", "peer": lab.Out}},
	}
}

// shared are servers that all services have.
func (l load) shared(_, j int) string { return l.address(j) }

func (l load) lbrp(typ cube.Type, server func(i, j int) string) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
		d, err := contest.DaemonAt(rig, b, w)
		if err != nil {
			return err
		}
		return errors.Join(contest.Post(d, "/lbrp/c1", l.rp(typ, server)), d.Inlined("c1"))
	}
}

// lbrps are ours, if they are there.
func (l load) lbrps(b *Bench, server func(i, j int) string, is func([]byte) (string, error)) ([]contender, error) {
	have, err := hasLBRP(b)
	if err != nil || !have {
		return nil, err
	}
	return []contender{
		{device{Name: lbrpXDP, Setup: l.lbrp(cube.TypeXDPDRV, server)}, is},
		{device{Name: lbrpTCX, Setup: l.lbrp(cube.TypeTC, server)}, is},
	}, nil
}

const translatedText = "As above, with balancers that give packets the address of a server. 100 services have the same 16 servers. " +
	"nftables' DNAT chooses by a hash when a connection is new, and the kernel tracks it from then on, with room for all, and " +
	"without verifying checksums; the stateless form chooses for each packet, and translates no answers. `lbrp` tracks connections, too."

// translated is the part "balancer-nat".
func translated(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Balancers: translation of known flows", Text: translatedText}
	for _, c := range []struct {
		flows    int
		xdp, tcx float64
	}{{1000, 4.5, 1.3}, {500_000, 3, 1.3}} {
		l := load{services: 100, servers: 16, flows: c.flows, random: c.flows > 1000}
		b.Progress("balancer-nat: %s", l)
		ours, err := l.lbrps(b, l.shared, l.toServer)
		if err != nil {
			return nil, err
		}
		f, all, err := l.compete(ctx, b, b.Rounds(21, 5), true, append(ours,
			contender{device{Name: nftDNAT, Setup: l.nftDNAT}, l.toServer},
			contender{device{Name: nftStateless, Setup: l.nftStateless}, l.toServer},
		))
		if err != nil {
			return nil, fmt.Errorf("%d flows: %w", c.flows, err)
		}
		out.Tables = append(out.Tables, l.versus(f, all, ours, contest.Thousands(c.flows)+" flows"))
		if len(ours) > 0 {
			what := fmt.Sprintf(" against %s, %s flows, net", nftDNAT, contest.Thousands(c.flows))
			out.Checks = append(out.Checks,
				report.AtLeast(lbrpXDP+what, "%.2f ×", f.Ratio(nftDNAT, lbrpXDP), c.xdp),
				report.AtLeast(lbrpTCX+what, "%.2f ×", f.Ratio(nftDNAT, lbrpTCX), c.tcx))
		}
	}
	return out, nil
}

// versus is a table with the ratios to ours, as far as they are there.
func (load) versus(f contest.Figures, all []*runner, ours []contender, title string) *report.Table {
	var names []string
	for _, c := range ours {
		names = append(names, c.Name)
	}
	return table(title, f, all, names...)
}

const freshText = "The same, where every packet is the first of its flow. `lbdsr` only notes the server."

// newFlows are more than are ever sent.
const newFlows = 1 << 25

// fresh is the part "balancer-new".
func fresh(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Balancers: new flows", Text: freshText}
	l := load{services: 100, servers: 16, flows: newFlows}
	ours, err := l.lbrps(b, l.shared, l.toServer)
	if err != nil {
		return nil, err
	}
	f, all, err := l.compete(ctx, b, b.Rounds(21, 5), false, append(ours,
		contender{device{Name: lbdsrXDP, Setup: l.lbdsr(cube.TypeXDPDRV, "L2")}, l.toMAC},
		contender{device{Name: lbdsrTCX, Setup: l.lbdsr(cube.TypeTC, "L2")}, l.toMAC},
		contender{device{Name: nftDNAT, Setup: l.nftDNAT}, l.toServer},
	))
	if err != nil {
		return nil, err
	}
	out.Tables = append(out.Tables, l.versus(f, all, ours, "New flows"))
	if len(ours) > 0 {
		what := " against " + nftDNAT + ", new flows, net"
		out.Checks = append(out.Checks,
			report.AtLeast(lbrpXDP+what, "%.2f ×", f.Ratio(nftDNAT, lbrpXDP), 3),
			report.AtLeast(lbrpTCX+what, "%.2f ×", f.Ratio(nftDNAT, lbrpTCX), 1.8))
	}
	return out, nil
}

const servicesText = "10,000 services with three servers of their own, and the rules that kube-proxy writes for them: for nftables a map of " +
	"services to chains, for iptables a list. Every packet is the first of its flow, to the next service; kube-proxy's servers of a " +
	"service are chosen at random."

// services is the part "balancer-services".
func services(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Balancers: 10,000 services", Text: servicesText}
	l := load{services: 10_000, servers: 3, flows: newFlows}
	ours, err := l.lbrps(b, l.endpoint, l.toEndpoint)
	if err != nil {
		return nil, err
	}
	f, all, err := l.compete(ctx, b, b.Rounds(11, 3), false, append(ours,
		contender{device{Name: kubeNFT, Setup: l.kubeNFT}, l.toEndpoint},
		contender{device{Name: kubeIPT, Setup: l.kubeIPT}, l.toEndpoint},
	))
	if err != nil {
		return nil, err
	}
	out.Tables = append(out.Tables, l.versus(f, all, ours, "New flows to 10,000 services"))
	if len(ours) > 0 {
		out.Checks = append(out.Checks,
			report.AtLeast(lbrpXDP+" against "+kubeNFT+", new flows, net", "%.1f ×", f.Ratio(kubeNFT, lbrpXDP), 4),
			report.AtLeast(lbrpXDP+" against "+kubeIPT+", new flows, net", "%.1f ×", f.Ratio(kubeIPT, lbrpXDP), 12))
	}
	return out, nil
}
