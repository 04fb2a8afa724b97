// SPDX-License-Identifier: Apache-2.0

package perf

// The bridges compared with a redirect that looks at nothing, at XDP, with few and with many stations.

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// crowds are the numbers of stations, half of them on each side.
var crowds = []int{2000, 16000}

// promisedAbove is the promise for the smallest crowd, in ns.
const promisedAbove = 22

// bridgeAboveRedirect times both bridges and the vanilla redirect in the same harness.
func bridgeAboveRedirect(ctx context.Context, r *Run) (*report.Table, []report.Check, error) {
	t := &report.Table{
		Title:   "The program alone, above a vanilla XDP redirect",
		Columns: []string{"stations", "", "ns per packet", "ns above the redirect"},
		Notes: []string{"As in the table before, with all programs in the same rounds. The redirect is `bpf_redirect_map` to one " +
			"device: it reads nothing of the frame and counts nothing. *above* is the median of the differences of each round."},
	}
	var checks []report.Check
	for _, n := range crowds {
		times := map[string]report.Sample{}
		err := lab.With(ctx, func(rig *lab.Rig) error {
			all, err := crowd(rig, r.Root, n/2)
			if err != nil {
				return err
			}
			return measureAlone(r, rig, all, times)
		})
		if err != nil {
			return nil, nil, fmt.Errorf("%d stations: %w", n, err)
		}
		base := times[vanillaXDP]
		empty := times[(&alone{hook: cube.XDP}).name()]
		t.Add(strconv.Itoa(n), vanillaXDP, base.Less(empty).Spread(1), "")
		for _, vlan := range []bool{false, true} {
			a := &alone{hook: cube.XDP, mode: datapath.ModeInline, vlan: vlan}
			above := times[a.name()].Less(base)
			t.Add(strconv.Itoa(n), a.service()+", XDP", times[a.name()].Less(empty).Spread(1), above.Spread(1))
			if n == crowds[0] {
				checks = append(checks, report.AtMost(fmt.Sprintf("%s on XDP above a vanilla redirect, %d stations", a.service(), n),
					"%.0f ns", above.Median(), promisedAbove))
			}
		}
	}
	return t, checks, nil
}

// crowd returns an empty program, the redirect and both bridges, with a number of stations on each side.
func crowd(rig *lab.Rig, root string, flows int) ([]*alone, error) {
	empty, redirect := &alone{hook: cube.XDP, flows: flows}, &alone{hook: cube.XDP, flows: flows, label: vanillaXDP}
	if err := redirect.vanilla(rig); err != nil {
		return nil, err
	}
	if err := errors.Join(empty.load(rig), redirect.load(rig)); err != nil {
		return nil, err
	}
	all := []*alone{empty, redirect}
	for _, vlan := range []bool{false, true} {
		a, err := daemonAlone(rig, root, &alone{hook: cube.XDP, vlan: vlan, flows: flows}, 1<<14)
		if err != nil {
			return nil, fmt.Errorf("vlan %v: %w", vlan, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// vanilla makes the redirect the program under test.
func (a *alone) vanilla(rig *lab.Rig) error {
	spec, err := bpf.Spec("redirect", cube.XDP)
	if err != nil {
		return err
	}
	for _, p := range spec.Programs {
		p.Flags |= flagFrags
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("vanilla redirect: %w", err)
	}
	rig.Cleanup(coll.Close)
	a.program = coll.Programs["forward"]
	return coll.Maps["devices"].Put(uint32(0), uint32(1)) // the loopback: a test run ends before the device
}
