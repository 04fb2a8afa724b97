// SPDX-License-Identifier: Apache-2.0

package topology

// Counters of cubes for monitoring, read without calling their code: one pass over all cubes, whose cost is reading
// counters from the kernel.

import (
	"context"
	"errors"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/tally"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/yang"
)

// tallies are the manager's own counters.
type tallies struct {
	transactions *tally.Histogram
	groups       *tally.Histogram
	failures     tally.Counters
	// handlers is the time that batches of packets and messages spent in cubes' code, waits how long the first item
	// of each batch had waited before.
	handlers, waits *tally.Histogram
}

func newTallies() tallies {
	return tallies{transactions: tally.NewHistogram(), groups: tally.NewHistogram(1, 2, 4, 8, 16, 32, 64),
		handlers: tally.NewHistogram(0.00001, 0.0001, 0.001, 0.01, 0.1, 1, 10),
		waits:    tally.NewHistogram(0.00001, 0.0001, 0.001, 0.01, 0.1, 1, 10)}
}

// done counts a transaction that started at a given time.
func (c *tallies) done(began time.Time, err error) {
	c.transactions.Since(began)
	if err != nil {
		c.failures.Add(failure(err))
	}
}

// failures are the classes of errors of a transaction, used as labels of a metric.
var failures = []struct {
	is   error
	name string
}{
	{cube.ErrInvalid, "invalid"}, {cube.ErrNotFound, "not-found"}, {cube.ErrExists, "exists"}, {cube.ErrInUse, "in-use"},
	{cube.ErrUnsupported, "unsupported"}, {cube.ErrFull, "full"}, {cube.ErrStale, "stale"}, {cube.ErrRefused, "refused"},
	{context.Canceled, "canceled"}, {context.DeadlineExceeded, "timeout"}, {service.ErrClosed, "stopping"},
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

// Activity are the manager's own counters since the start.
type Activity struct {
	// Transactions are durations in seconds, Groups the number of changes that were made together.
	Transactions, Groups tally.Snapshot
	// Failures are by class.
	Failures map[string]uint64
	// Handlers are the seconds that batches of the slow path took in cubes' code, Waits the seconds that they
	// waited before.
	Handlers, Waits tally.Snapshot
	// Strays counts what came from the fast path for cubes that do not exist.
	Strays uint64
}

// Activity returns the manager's own counters.
func (m *Manager) Activity() Activity {
	return Activity{Transactions: m.tallies.transactions.Snapshot(), Groups: m.tallies.groups.Snapshot(),
		Failures: m.tallies.failures.Snapshot(), Handlers: m.tallies.handlers.Snapshot(), Waits: m.tallies.waits.Snapshot(),
		Strays: m.strays.Load()}
}

// isModelError reports whether a model refused something.
func isModelError(err error) bool {
	var wrong *yang.Error
	return errors.As(err, &wrong)
}
