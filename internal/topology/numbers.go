// SPDX-License-Identifier: Apache-2.0

package topology

// What can be counted of cubes without asking their code, for whoever measures: one walk over all of them, whose cost is
// reading counters of the kernel.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/tally"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// tallies are what the manager counts of itself.
type tallies struct {
	transactions *tally.Histogram
	groups       *tally.Histogram
	failures     tally.Counters
	// handlers is the time that batches of packets and messages spent in cubes' code, waits how long the first of each
	// batch had waited before.
	handlers, waits *tally.Histogram
}

func newTallies() tallies {
	return tallies{transactions: tally.NewHistogram(), groups: tally.NewHistogram(1, 2, 4, 8, 16, 32, 64),
		handlers: tally.NewHistogram(0.00001, 0.0001, 0.001, 0.01, 0.1, 1, 10),
		waits:    tally.NewHistogram(0.00001, 0.0001, 0.001, 0.01, 0.1, 1, 10)}
}

// done counts a transaction that began at a time.
func (c *tallies) done(began time.Time, err error) {
	c.transactions.Since(began)
	if err != nil {
		c.failures.Add(failure(err))
	}
}

// failures are the classes of errors of a transaction, which are labels of a metric.
var failures = []struct {
	is   error
	name string
}{
	{cube.ErrInvalid, "invalid"}, {cube.ErrNotFound, "not-found"}, {cube.ErrExists, "exists"}, {cube.ErrInUse, "in-use"},
	{cube.ErrUnsupported, "unsupported"}, {cube.ErrFull, "full"}, {cube.ErrStale, "stale"}, {cube.ErrRefused, "refused"},
	{context.Canceled, "canceled"}, {context.DeadlineExceeded, "timeout"}, {errClosed, "stopping"},
}

func failure(err error) string {
	for _, f := range failures {
		if errors.Is(err, f.is) {
			return f.name
		}
	}
	if isModelError(err) {
		return "invalid"
	}
	return "internal"
}

// Activity is what the manager has done since the start.
type Activity struct {
	// Transactions are durations in seconds, Groups how many changes were made together.
	Transactions, Groups tally.Snapshot
	// Failures are by class.
	Failures map[string]uint64
	// Handlers are the seconds that batches of the slow path took in cubes' code, Waits those that they waited before.
	Handlers, Waits tally.Snapshot
	// Strays came from the fast path for cubes that do not exist.
	Strays uint64
}

// Activity returns what the manager has done.
func (m *Manager) Activity() Activity {
	return Activity{Transactions: m.tallies.transactions.Snapshot(), Groups: m.tallies.groups.Snapshot(),
		Failures: m.tallies.failures.Snapshot(), Handlers: m.tallies.handlers.Snapshot(), Waits: m.tallies.waits.Snapshot(),
		Strays: m.strays.Load()}
}

// PortNumbers are what is counted of a port.
type PortNumbers struct {
	Name string
	Up   bool
	// Reason says why it is not up, or what is lost although it is.
	Reason string
	datapath.PortCounters
}

// CubeNumbers are what is counted of a cube.
type CubeNumbers struct {
	Name, Service string
	// Trouble says why the cube's code is not called, or why it could not be restored; "" when all is well. Broken tells
	// the second from the first.
	Trouble string
	Broken  bool
	Ports   []PortNumbers
	Fates   []datapath.Fate
	// Shed were not handled by the cube's code, Waiting wait for it.
	Shed    uint64
	Waiting int
	Status  datapath.CubeStatus
}

// counterReader is a data plane that reads many counters at once.
type counterReader interface {
	CounterReader() func(slot uint16) (datapath.PortCounters, error)
}

// Numbers counts all cubes, in order of creation. A cube that goes meanwhile is left out.
func (m *Manager) Numbers() []CubeNumbers {
	w := m.view.Load()
	read := m.dp.PortCounters
	if r, ok := m.dp.(counterReader); ok {
		read = r.CounterReader()
	}
	out := make([]CubeNumbers, 0, len(w.Cubes)+len(w.Broken))
	for _, rec := range w.InOrder() {
		n := CubeNumbers{Name: rec.Name, Service: rec.Service, Trouble: m.Degraded(rec.Name)}
		if u := w.Units[rec.Name]; u != nil {
			n.Shed, n.Waiting, _ = u.Queued()
		}
		if m.count(w, rec, &n, read) == nil {
			out = append(out, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Broken)) {
		b := w.Broken[name]
		n := CubeNumbers{Name: name, Service: b.Stored.Service, Trouble: b.String(), Broken: true}
		if b.Running == nil || m.count(w, b.Running, &n, read) == nil {
			out = append(out, n)
		}
	}
	return out
}

// count reads the counters of a cube that packets go through.
func (m *Manager) count(w *unit.Snapshot, rec *world.Cube, n *CubeNumbers, read func(uint16) (datapath.PortCounters, error)) (err error) {
	n.Status = m.dp.Status(rec.ID)
	if n.Fates, err = m.dp.Fates(rec.ID); err != nil {
		return fmt.Errorf("%s: fates: %w", rec.Name, err)
	}
	for _, p := range rec.PortsByIndex() {
		one := PortNumbers{Name: p.Name, Up: w.Linked(rec, p), Reason: w.Remark(rec, p, m.notes)}
		if one.PortCounters, err = read(p.Slot); err != nil {
			return fmt.Errorf("port %s of %s: counters: %w", p.Name, rec.Name, err)
		}
		n.Ports = append(n.Ports, one)
	}
	return nil
}

// NetdevNumbers are what is known of a netdev that cubes have to do with.
type NetdevNumbers struct {
	Name    string
	Up      bool
	Carrier bool
	// Reason says why nothing passes by it.
	Reason string
}

// NetdevNumbers lists the netdevs that are peers of ports or have transparent cubes.
func (m *Manager) NetdevNumbers() []NetdevNumbers {
	w := m.view.Load()
	used := map[string]bool{}
	for name := range w.Chains {
		used[name] = true
	}
	for _, rec := range w.AllRunning() {
		for _, p := range rec.Ports {
			if at, err := world.ParsePlace(p.Peer); p.Peer != "" && err == nil && at.Netdev != "" {
				used[at.Netdev] = true
			}
		}
	}
	out := make([]NetdevNumbers, 0, len(used))
	for _, name := range slices.Sorted(maps.Keys(used)) {
		why := w.WhyDown(name)
		out = append(out, NetdevNumbers{Name: name, Up: why == "", Carrier: w.Links[name].Carrier, Reason: why})
	}
	return out
}

// mapReader is a data plane that knows how full maps are.
type mapReader interface {
	MapUsage(id datapath.CubeID) []datapath.MapUsage
}

// Maps tells how full a cube's maps are; nil where the data plane does not know. It reads the kernel's maps, which takes
// a time that grows with their size.
func (m *Manager) Maps(name string) []datapath.MapUsage {
	r, ok := m.dp.(mapReader)
	rec := m.view.Load().Running(name)
	if !ok || rec == nil {
		return nil
	}
	return r.MapUsage(rec.ID)
}

// isModelError tells whether a model refused something.
func isModelError(err error) bool {
	var wrong *yang.Error
	return errors.As(err, &wrong)
}
