// SPDX-License-Identifier: Apache-2.0

package topology

// The graph that the data plane has in use. Its lock is taken last: a transaction goes through the gates of all cubes that
// it will call first, takes the lock then, and waits for no handler while it has it (see programs.go).

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
)

// graphInUse is the graph in use, and who may change it.
type graphInUse struct {
	dp   Datapath
	log  *slog.Logger
	view *atomic.Pointer[unit.Snapshot]

	// token is a single token; its holder may change the data plane and the fields below.
	token chan struct{}
	graph *datapath.Graph // nil when unknown
	// of is the snapshot that the graph was derived from.
	of *unit.Snapshot
	// closed says that the data plane is not changed any more.
	closed bool
}

func newGraphInUse(dp Datapath, log *slog.Logger, view *atomic.Pointer[unit.Snapshot]) *graphInUse {
	g := &graphInUse{dp: dp, log: log, view: view, token: make(chan struct{}, 1)}
	g.token <- struct{}{}
	return g
}

// Lock waits until nobody else changes the data plane.
func (g *graphInUse) Lock(ctx context.Context) error {
	select {
	case <-g.token:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another change of the data plane to end: %w", ctx.Err())
	}
}

func (g *graphInUse) Unlock() { g.token <- struct{}{} }

// close ends all changes.
func (g *graphInUse) close(ctx context.Context) error {
	if err := g.Lock(ctx); err != nil {
		return err
	}
	g.closed = true
	g.Unlock()
	return nil
}

// Runs implements plane.
func (g *graphInUse) Runs(u *unit.Unit) error {
	if g.closed {
		return service.ErrClosed
	}
	if g.view.Load().Units[u.Name] != u {
		return fmt.Errorf("the cube is not in the fast path: %w", cube.ErrNotFound)
	}
	return nil
}

// Restate implements plane.
func (g *graphInUse) Restate() error {
	w := g.view.Load()
	if err := g.swap(w.Graph()); err != nil {
		return err
	}
	g.of = w
	return nil
}

// functionFinder is a data plane that knows what functions a service's programs have.
type functionFinder interface {
	HasFunction(service string, h cube.Hook, name string) bool
}

// HasFunction implements plane.
func (g *graphInUse) HasFunction(service string, h cube.Hook, name string) bool {
	f, ok := g.dp.(functionFinder)
	return ok && f.HasFunction(service, h, name)
}

// swap makes a graph the one in use. The lock is held.
func (g *graphInUse) swap(to *datapath.Graph) error {
	ctx, cancel := context.WithTimeout(context.Background(), prepareTimeout)
	defer cancel()
	err := unit.Guard(func() error {
		change, err := g.dp.Prepare(ctx, to)
		if err != nil {
			return err
		}
		return change.Commit()
	})
	if p := (*unit.PanicError)(nil); errors.As(err, &p) {
		g.log.Error("panic in the data plane", "value", p.Value, "stack", string(p.Stack))
	}
	return g.became(to, err)
}

// became notes that a graph is in use, or that the change to it ended with an error. The lock is held.
func (g *graphInUse) became(to *datapath.Graph, err error) error {
	if err == nil {
		g.graph = to
		return nil
	}
	if p := (*unit.PanicError)(nil); errors.As(err, &p) {
		g.graph = nil // how far it came is not known
	}
	return fmt.Errorf("data plane: %w", err)
}

// is says whether a graph is the one in use. The lock is held.
func (g *graphInUse) is(to *datapath.Graph) bool { return g.graph != nil && to.Same(g.graph) }

// derived returns the graph in use if it was derived from a snapshot, else nil. The lock is held.
func (g *graphInUse) derived(w *unit.Snapshot) *datapath.Graph {
	if g.of != w {
		return nil
	}
	return g.graph
}

// publish makes a snapshot, which the graph in use was derived from, the current one. The lock is held.
func (g *graphInUse) publish(w *unit.Snapshot) {
	g.view.Store(w)
	g.of = w
}

// returnTo makes an earlier graph the one in use again. If that is refused, g.graph stays nil: the next transaction
// states the whole graph again.
func (g *graphInUse) returnTo(ctx context.Context, before *datapath.Graph) error {
	g.graph = nil
	to := before
	if to == nil {
		to = g.view.Load().Graph()
	}
	change, err := g.dp.Prepare(ctx, to)
	if err != nil {
		return fmt.Errorf("restore the old graph: %w", err)
	}
	if err := change.Commit(); err != nil {
		return fmt.Errorf("restore the old graph: %w", err)
	}
	g.graph = before
	return nil
}
