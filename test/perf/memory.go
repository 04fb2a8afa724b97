// SPDX-License-Identifier: Apache-2.0

package perf

// The memory of one more route, session and address.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const memoryText = "The increase in memory of the daemon's process and of its maps (as reported by the kernel) by many " +
	"entries, divided by their number. The tables of each cube have exactly the required size, so that preallocated " +
	"memory of maps counts, too."

// memory is the part "memory".
func memory(ctx context.Context, r *Run) error {
	t := &report.Table{Title: "Bytes per entry", Columns: []string{"", "number", "maps", "daemon"}}
	for _, m := range []struct {
		what string
		n    int
		fill func(*lab.Rig, *Run, int) (lab.Memory, error)
	}{{"route", 100_000, routesIn}, {"session", 500_000, sessionsIn}, {"address", 10_000, addressesIn}} {
		r.progress("memory: %d of %s", m.n, m.what)
		var empty, full lab.Memory
		err := errors.Join(
			lab.With(ctx, func(rig *lab.Rig) (err error) { empty, err = m.fill(rig, r, 0); return err }),
			lab.With(ctx, func(rig *lab.Rig) (err error) { full, err = m.fill(rig, r, m.n); return err }),
		)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		each := func(a, b uint64) string { return fmt.Sprint((int64(a) - int64(b)) / int64(m.n)) }
		t.Add(m.what, fmt.Sprint(m.n), each(full.Maps, empty.Maps), each(full.Resident, empty.Resident))
	}
	r.add(Section{Title: "Memory of routes, sessions and addresses", Text: memoryText, Tables: []*report.Table{t}})
	return nil
}

func routesIn(rig *lab.Rig, r *Run, n int) (lab.Memory, error) {
	w, err := rig.NewRoutedWire(lab.Flows{Sources: 1, Ports: 1, Targets: []netip.Addr{rightHost}})
	if err != nil {
		return lab.Memory{}, err
	}
	d, err := newRouter(rig, r, w, cube.TypeTC, n+256, routes(n), rightHost)
	if err != nil {
		return lab.Memory{}, err
	}
	return d.Memory()
}

// sessionsIn creates sessions of which ten share a mapping.
func sessionsIn(rig *lab.Rig, r *Run, n int) (lab.Memory, error) {
	flows := lab.Flows{Sources: 1000, Ports: 50, Targets: servers()}
	w, err := rig.NewRoutedWire(flows)
	if err == nil {
		err = rig.Sink(w, cube.XDP)
	}
	if err != nil {
		return lab.Memory{}, err
	}
	d, err := newNAT(rig, r, w, cube.TypeXDPDRV, max(n, 1024))
	if err != nil {
		return lab.Memory{}, err
	}
	if err := netns.OnCPU(0, func() error { return w.Send(max(n, 1)) }); err != nil {
		return lab.Memory{}, err
	}
	return d.Memory()
}

// addressesIn lets a bridge learn the addresses of half as many stations at each side.
func addressesIn(rig *lab.Rig, r *Run, n int) (lab.Memory, error) {
	w, err := rig.NewWire(max(n/2, 1))
	if err != nil {
		return lab.Memory{}, err
	}
	d, err := newDaemonBridge(rig, r.Root, w, "bridge", cube.TypeXDPDRV, max(n, 64))
	if err != nil {
		return lab.Memory{}, err
	}
	if err := w.Teach(max(n/2, 1)); err != nil {
		return lab.Memory{}, err
	}
	return d.Memory()
}
