// SPDX-License-Identifier: Apache-2.0

package perf

// TCP from a host behind a bridge, a router and a NAT, compared with the kernel's.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/cube"

	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// The two chains.
const (
	linuxChain = "Linux bridge, forwarding, nftables masquerade"
	ourChain   = "bridge + router + nat, tcx"
)

const tcpChainText = "TCP between two hosts through a bridge, a router and masquerade, with default offloads " +
	"everywhere: one iperf3 stream for three seconds, and requests of one byte, each sent after the answer to the " +
	"last. Both hosts and everything between them share two CPUs."

// tcpChain is the part "tcpchain".
func tcpChain(ctx context.Context, r *Run) error {
	streams, requests := map[string]report.Sample{}, map[string]report.Sample{}
	all := []between{{ourChain, oursInARow}, {linuxChain, kernelInARow}}
	n := r.rounds(15, 2)
	for round := range n {
		r.progress("TCP through a chain: round %d of %d", round+1, n)
		shuffle(all)
		for _, b := range all {
			err := lab.With(ctx, func(rig *lab.Rig) error {
				flows := lab.Flows{Sources: 1, Ports: 1, Targets: []netip.Addr{rightHost}}
				w, err := rig.NewRoutedWire(flows)
				if err != nil {
					return err
				}
				w.Left.Run("ip", "route", "add", "default", "via", lab.LeftAddr)
				if err := b.setup(rig, r, w); err != nil {
					return err
				}
				return b.tcp(rig.Context(), r, w, streams, requests)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
		}
	}
	t := &report.Table{
		Title:   "Through bridge, router and NAT",
		Columns: []string{"", "Gbit/s", "× Linux", "request and answer, µs", "requests, × Linux"},
	}
	stream := streams[ourChain].Median() / streams[linuxChain].Median()
	request := requests[linuxChain].Median() / requests[ourChain].Median()
	t.Add(ourChain, streams[ourChain].Spread(1), fmt.Sprintf("%.2f", stream), requests[ourChain].Spread(1), fmt.Sprintf("%.2f", request))
	t.Add(linuxChain, streams[linuxChain].Spread(1), "1.00", requests[linuxChain].Spread(1), "1.00")
	r.add(Section{Title: "TCP through a chain", Text: tcpChainText, Tables: []*report.Table{t}},
		report.AtLeast("TCP through bridge, router and nat on tcx against Linux's chain, iperf3", "%.2f ×", stream, 0.95),
		report.AtLeast("TCP through bridge, router and nat on tcx against Linux's chain, requests", "%.2f ×", request, 0.95))
	return nil
}

// tcp adds a round.
func (b between) tcp(ctx context.Context, r *Run, w *lab.Wire, streams, requests map[string]report.Sample) error {
	seconds, n := 3, 20_000
	if r.Quick {
		seconds, n = 1, 2000
	}
	gbits, err := w.Stream(ctx, seconds)
	if err != nil {
		return err
	}
	times, err := w.Requests(ctx, n)
	if err != nil {
		return err
	}
	streams[b.name] = append(streams[b.name], gbits)
	requests[b.name] = append(requests[b.name], report.Sample(times).Median())
	return nil
}

// oursInARow creates the chain of cubes.
func oursInARow(rig *lab.Rig, r *Run, w *lab.Wire) error {
	d, err := startDaemon(rig, r.bin(), w)
	if err != nil {
		return err
	}
	return errors.Join(
		send(d, "POST", "/bridge/br1", map[string]any{"ports": []any{
			map[string]any{"name": "host", "peer": lab.In}, map[string]any{"name": "up"},
		}}),
		send(d, "POST", "/router/r1", map[string]any{"type": cube.TypeTC, "ports": []routerPort{
			{"left", "br1:up", lab.LeftAddr + "/16", "02:00:00:00:77:01"},
			{"right", lab.Out, lab.RightAddr + "/16", w.Right.OuterMAC.String()},
		}}),
		send(d, "PATCH", "/bridge/br1/ports/up/peer", "r1:left"),
		send(d, "POST", "/nat/n1", struct{}{}),
		send(d, "POST", "/attach", map[string]any{"cube": "n1", "port": "r1:right"}),
		send(d, "POST", "/nat/n1/rule/masquerade/enable", struct{}{}), d.Inlined("br1", "r1", "n1"),
	)
}

// kernelInARow creates the same from the kernel's parts.
func kernelInARow(_ *lab.Rig, _ *Run, w *lab.Wire) error {
	err := batch(w.Machine.Namespace, []string{
		"link add br0 type bridge", "link set " + lab.In + " master br0", "link set br0 up",
		"addr add " + lab.LeftAddr + "/16 dev br0", "addr add " + lab.RightAddr + "/16 dev " + lab.Out,
	})
	if err != nil {
		return err
	}
	w.Machine.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	cmd := w.Machine.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(masqueradeRules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w\n%s", err, out)
	}
	return nil
}
