// SPDX-License-Identifier: Apache-2.0

package balancers

// The memory of flows, services and servers.

import (
	"context"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const memoryText = "The increase in memory of the daemon's process and of its maps (as reported by the kernel) by many entries, divided by " +
	"their number. Services have one server in common, servers are those of one service, with its table. Flows of `lbdsr` are the room " +
	"for them (`max-flows`), those of `lbrp` have been sent."

// weighed are entries of which many are created.
type weighed struct {
	what string
	n    int
	// cube is its service, and conf its configuration with some entries.
	cube string
	conf func(n int) object
	// flows is whether the entries are flows to be sent.
	flows bool
}

// memory is the part "balancer-memory".
func memory(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Balancers: memory", Text: memoryText}
	all := []weighed{
		{what: "lbdsr, a flow", n: 1 << 20, cube: "lbdsr", conf: func(n int) object {
			conf := load{services: 1, servers: 1}.dsr(cube.TypeXDPDRV, "L2")
			conf["max-flows"] = max(1000, n)
			return conf
		}},
		{what: "lbdsr, a service", n: 4000, cube: "lbdsr", conf: func(n int) object { return load{services: n, servers: 1}.dsr(cube.TypeXDPDRV, "L2") }},
		{what: "lbdsr, a server", n: 4000, cube: "lbdsr", conf: func(n int) object {
			conf := load{services: 1, servers: n}.dsr(cube.TypeXDPDRV, "L2")
			conf["max-servers"] = max(64, n+1)
			return conf
		}},
	}
	have, err := hasLBRP(b)
	if err != nil {
		return nil, err
	}
	if have {
		rp := func(services, servers, sessions int) object {
			l := load{services: services, servers: servers}
			conf := l.rp(cube.TypeXDPDRV, l.shared)
			conf["max-sessions"] = max(1024, sessions)
			return conf
		}
		all = append(all,
			weighed{what: "lbrp, a flow", n: 500_000, cube: "lbrp", flows: true, conf: func(n int) object { return rp(1, 16, n) }},
			weighed{what: "lbrp, a service", n: 4000, cube: "lbrp", conf: func(n int) object { return rp(n, 1, 0) }},
			weighed{what: "lbrp, a server", n: 1000, cube: "lbrp", conf: func(n int) object { return rp(1, n, 0) }},
		)
	}
	t := &report.Table{Title: "Bytes per entry", Columns: []string{"", "number", "maps", "daemon"}}
	for _, w := range all {
		b.Progress("balancer-memory: %d of %s", w.n, w.what)
		few, err := w.measure(ctx, b, 1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.what, err)
		}
		many, err := w.measure(ctx, b, w.n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.what, err)
		}
		each := func(a, b uint64) string { return fmt.Sprint((int64(a) - int64(b)) / int64(w.n-1)) }
		t.Add(w.what, contest.Thousands(w.n), each(many.Maps, few.Maps), each(many.Resident, few.Resident))
	}
	out.Tables = append(out.Tables, t)
	return out, nil
}

// measure is the memory with a number of entries.
func (e weighed) measure(ctx context.Context, b *Bench, n int) (m lab.Memory, err error) {
	err = lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewFiltered()
		if err != nil {
			return err
		}
		if err := w.Sinks(rig); err != nil {
			return err
		}
		d, err := contest.DaemonAt(rig, b, w)
		if err != nil {
			return err
		}
		if err := errors.Join(contest.Post(d, "/"+e.cube+"/c1", e.conf(n)), d.Inlined("c1")); err != nil {
			return err
		}
		if e.flows {
			s, err := w.Datagrams(load{services: 1, flows: n}.datagrams())
			if err != nil {
				return err
			}
			p, err := s.Send(n)
			if err != nil || p.Received < p.Sent {
				return errors.Join(err, fmt.Errorf("of %d datagrams %d arrive: %w", p.Sent, p.Received, contest.ErrLost))
			}
		}
		m, err = d.Memory()
		return err
	})
	return m, err
}
