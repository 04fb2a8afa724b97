// SPDX-License-Identifier: Apache-2.0

package topology

// Changes are made one after the other: a transaction has the writer's token from its first edit to its end.

import (
	"context"
	"fmt"
	"time"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// prepareTimeout bounds what a transaction may take; a cube that does not answer must not stop all others for good.
const prepareTimeout = 60 * time.Second

// writer runs transactions, one after the other. Its methods may be called from any goroutine.
type writer struct {
	*parts
	// queue holds the changes that may be made together.
	queue queue
	// token is the one token: its holder may change the topology, and the fields below.
	token  chan struct{}
	closed bool
	// started is set when New is done. Until then nobody else has the manager, and the token is not available.
	started bool
}

func newWriter(p *parts) *writer { return &writer{parts: p, token: make(chan struct{}, 1)} }

// start makes the token available, once the stored cubes are restored.
func (w *writer) start() {
	w.started = true
	w.token <- struct{}{}
}

// acquire waits for the token.
func (w *writer) acquire(ctx context.Context) error {
	select {
	case <-w.token:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another change to end: %w", ctx.Err())
	}
}

func (w *writer) release() { w.token <- struct{}{} }

// close ends all changes and the cubes' code, then calls last.
func (w *writer) close(ctx context.Context, last func()) error {
	select {
	case <-w.token:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer w.release()
	if w.closed {
		return nil
	}
	if err := w.inUse.close(ctx); err != nil {
		return err
	}
	w.closed = true
	for _, u := range w.view.Load().Units {
		w.byID.Delete(u.ID)
		u.Close()
	}
	last()
	return nil
}

// transact runs one transaction: fn edits, the rest follows.
func (w *writer) transact(ctx context.Context, fn func(*editing) error) error {
	if err := w.acquire(ctx); err != nil {
		return err
	}
	err := func() error {
		defer w.release()
		return w.one(ctx, requested(ctx, fn))
	}()
	if err == nil {
		w.news.Wait()
	}
	return err
}

// transactRestoring is transact for changes that nobody requested. While New runs, it works without the token.
func (w *writer) transactRestoring(ctx context.Context, fn func(*editing) error) error {
	lenient := func(t *editing) error {
		t.restoring = true
		return fn(t)
	}
	if w.started {
		return w.transact(ctx, lenient)
	}
	return begin(ctx, w.parts).run(lenient)
}

// one runs one transaction. The caller has the token.
func (w *writer) one(ctx context.Context, fn func(*editing) error) (err error) {
	defer func(began time.Time) { w.tallies.done(began, err) }(time.Now())
	if w.closed {
		return service.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	return begin(ctx, w.parts).run(fn)
}

// Exclusively runs fn while no other change is made.
func (w *writer) Exclusively(ctx context.Context, fn func() error) error {
	if err := w.acquire(ctx); err != nil {
		return err
	}
	defer w.release()
	if w.closed {
		return service.ErrClosed
	}
	return fn()
}

// Write stores a record that belongs to no cube, as a revision of its own: its number is that of the store's
// transaction. The caller has the writer's token.
func (w *writer) Write(ctx context.Context, r store.Record, note string) error {
	next := w.view.Load().Clone()
	next.Revision++
	if w.commit != nil {
		if err := w.commit([]store.Record{r, history.RecordOf(next.Revision, note, OriginOf(ctx))}); err != nil {
			return fmt.Errorf("write the configuration to disk: %w", err)
		}
	}
	w.view.Store(next)
	return nil
}

// setUnused notes the state of netdevs that no cube uses; false if a cube uses one, or while New runs.
func (w *writer) setUnused(links map[string]world.Link) bool {
	if !w.started {
		return false
	}
	<-w.token
	defer w.release()
	if w.closed {
		return true
	}
	next := w.view.Load()
	used := next.Uses()
	for name := range links {
		if used(name) {
			return false
		}
	}
	next = next.Clone()
	next.SetLinks(links)
	w.view.Store(next)
	return true
}
