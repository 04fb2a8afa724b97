// SPDX-License-Identifier: Apache-2.0

package perf

// Address translation between two networks, compared with nftables.

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

// The translators.
const (
	nftables = "Linux forwarding, nftables masquerade"
	natXDP   = "router + nat, XDP"
	natTC    = "router + nat, tcx"
)

const natText = "As for the router, with one external address: 1,000 sessions from 100 hosts to 10 servers, " +
	"500,000 from 1,000 hosts with 50 ports each to 10 servers. All sessions existed before, except in the last " +
	"table, in which each datagram is the first of its session. The baseline forwards with one rule, `oifname out " +
	"masquerade`, and a sufficiently large connection table; this kernel has no flow tables. Ours is a router with a " +
	"nat on its outer port, which together do what the baseline does."

// servers are the targets, all of them on the right host.
func servers() []netip.Addr {
	var out []netip.Addr
	for a := rightHost; len(out) < 10; a = a.Next() {
		out = append(out, a)
	}
	return out
}

// nat is the part "nat".
func nat(ctx context.Context, r *Run) error {
	section := Section{Title: "nat", Text: natText}
	var checks []report.Check
	many := lab.Flows{Sources: 1000, Ports: 50, Targets: servers(), Source: netip.MustParseAddr(lab.RightAddr)}
	few := lab.Flows{Sources: 100, Ports: 1, Targets: servers(), Source: many.Source}
	for _, c := range []struct {
		what     string
		flows    lab.Flows
		fresh    bool
		xdp, tcx float64
	}{
		{"1,000 sessions", few, false, 3, 1.5}, {"500,000 sessions", many, false, 3, 1.5}, {"new sessions", many, true, 5, 0},
	} {
		times, lost, err := rounds(ctx, r, "nat, "+c.what, c.flows, 63, c.fresh, []between{
			{nothing, discard}, {natXDP, ourNAT(cube.TypeXDPDRV)}, {natTC, ourNAT(cube.TypeTC)}, {nftables, masquerade},
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		title := strings.ToUpper(c.what[:1]) + c.what[1:]
		section.Tables = append(section.Tables, throughputTable(title, nftables, []string{nothing, natXDP, natTC, nftables}, times, lost))
		checks = append(checks, netRatio("router + nat on XDP against nftables, "+c.what+", net", times, nftables, natXDP, c.xdp))
		if c.tcx > 0 {
			checks = append(checks, netRatio("router + nat on tcx against nftables, "+c.what+", net", times, nftables, natTC, c.tcx))
		}
	}
	r.add(section, checks...)
	return nil
}

// ourNAT masquerades at the outer port of a router.
func ourNAT(typ cube.Type) func(*lab.Rig, *Run, *lab.Wire) error {
	return func(rig *lab.Rig, r *Run, w *lab.Wire) error {
		_, err := newNAT(rig, r, w, typ, 1_000_000)
		return err
	}
}

// newNAT creates the router r1 with the masquerade n1 in a daemon between the hosts, with room for a number of
// sessions.
func newNAT(rig *lab.Rig, r *Run, w *lab.Wire, typ cube.Type, room int) (*lab.Daemon, error) {
	d, err := newRouter(rig, r, w, typ, 256, nil, servers()...)
	if err != nil {
		return nil, err
	}
	return d, errors.Join(
		send(d, "POST", "/nat/n1", map[string]any{"type": typ, "max-sessions": room}),
		send(d, "POST", "/attach", map[string]any{"cube": "n1", "port": "r1:right"}),
		send(d, "POST", "/nat/n1/rule/masquerade/enable", struct{}{}), d.Inlined("r1", "n1"),
	)
}

const masqueradeRules = `table ip bench {
	chain outward {
		type nat hook postrouting priority srcnat;
		oifname "` + lab.Out + `" masquerade;
	}
}
`

// masquerade lets the machine forward and translate.
func masquerade(rig *lab.Rig, _ *Run, w *lab.Wire) error {
	err := errors.Join(
		rig.AtLeast("/proc/sys/net/netfilter/nf_conntrack_max", 2<<20),
		rig.AtLeast("/sys/module/nf_conntrack/parameters/hashsize", 1<<20),
		kernelAddresses(w, servers()...),
	)
	if err != nil {
		return err
	}
	cmd := w.Machine.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(masqueradeRules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w\n%s", err, out)
	}
	// Sessions of one direction end after 30 s otherwise, before all were there.
	w.Machine.Run("sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=3600")
	return nil
}
