// SPDX-License-Identifier: Apache-2.0

package balancers

// Direct server return, end to end.

import (
	"context"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/report"
)

const directText = "Datagrams of 60 bytes come from a generator behind one veth, and what a balancer sends out of another one is " +
	"counted there. *Net* is minus generator and veth alone, where all is dropped on ingress. 1,000 services have the same 100 servers. " +
	"Before it is measured, each balancer has to send on what it gets to several servers, with right addresses and checksums. " +
	"nftables finds the service in a set, and the server in a map, by a hash of the client's address and port; it keeps no flow " +
	"where it is when servers change, which `lbdsr` does. At ingress it is in front of the kernel's stack, and of routing. The " +
	"kernel has no tunnels to hundreds of servers to compare with."

// direct is the part "balancer-dsr".
func direct(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Balancers: direct server return", Text: directText}
	for _, flows := range []int{1000, 50_000} {
		l := load{services: 1000, servers: 100, flows: flows}
		b.Progress("balancer-dsr: %s", l)
		f, all, err := l.compete(ctx, b, b.Rounds(21, 5), true, []contender{
			{device{Name: lbdsrXDP, Setup: l.lbdsr(cube.TypeXDPDRV, "L2")}, l.toMAC},
			{device{Name: lbdsrTCX, Setup: l.lbdsr(cube.TypeTC, "L2")}, l.toMAC},
			{device{Name: lbdsrIPIPXDP, Setup: l.lbdsr(cube.TypeXDPDRV, "IPIP")}, l.toTunnel},
			{device{Name: lbdsrIPIPTCX, Setup: l.lbdsr(cube.TypeTC, "IPIP")}, l.toTunnel},
			{device{Name: nftDSR, Setup: l.nftDSR}, l.toMAC},
		})
		if err != nil {
			return nil, fmt.Errorf("%d flows: %w", flows, err)
		}
		out.Tables = append(out.Tables, table(contest.Thousands(flows)+" flows", f, all, lbdsrXDP, lbdsrTCX))
		what := fmt.Sprintf(" against %s, %s flows, net", nftDSR, contest.Thousands(flows))
		out.Checks = append(out.Checks,
			report.AtLeast(lbdsrXDP+what, "%.2f ×", f.Ratio(nftDSR, lbdsrXDP), 4),
			report.AtLeast(lbdsrTCX+what, "%.2f ×", f.Ratio(nftDSR, lbdsrTCX), 1.2))
	}
	return out, nil
}
