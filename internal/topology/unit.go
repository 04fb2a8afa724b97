// SPDX-License-Identifier: Apache-2.0

package topology

// A unit is a living cube: its data tree, its instance, its environment. The code of a cube is never trusted to return
// normally: every call into it goes through a unit, one at a time, and a panic ends the call and nothing else.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/tally"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// errGone is the answer of a unit whose cube was deleted while the caller waited for it.
var errGone = fmt.Errorf("the cube was deleted: %w", cube.ErrNotFound)

// panicError is a panic in a cube's code, or in the daemon's while it deals with a cube or service.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// unit is a living cube.
type unit struct {
	name string
	svc  *service.Service
	uuid string
	id   datapath.CubeID
	// tree is used by the transaction that runs, under the manager's writer lock.
	tree *yang.Tree
	// restored are the entries that the store had of the cube when it was restored.
	restored *world.StoredEntries
	env      *env
	log      *slog.Logger

	// turn holds one token: who has it may call the instance. A channel, because a wait for it must end with a context.
	turn chan struct{}
	// gate holds one token, taken before the turn by those who may wait for the plane lock, or have it: what comes from the
	// mailbox, and transactions, which keep it until they end. Reads do without.
	gate chan struct{}
	// ended is set when the cube will not live: nothing comes from its mailbox any more.
	ended  atomic.Bool
	inst   cube.Instance
	closed bool

	mail *mailbox
	// timers are stopped when the unit ends.
	timers timers
	// programs are those that differ from what every cube has; written under the manager's plane lock.
	programs atomic.Pointer[programSet]
	// committing is set while the code of a plan runs: the plane lock is held then.
	committing atomic.Bool
	// announce tells that the cube is degraded; handlers counts what the slow path took.
	announce func(reason string)
	handlers *tally.Histogram
	// patience is how long a call may take.
	patience time.Duration
	// hung is closed when the cube's code did not return in time: nobody waits for its turn any more.
	hung     chan struct{}
	hangOnce sync.Once
	// degraded says why the cube's code is not called any more; nil while all is well.
	degraded atomic.Pointer[string]
}

// unitOptions are what a unit is made of.
type unitOptions struct {
	svc        *service.Service
	name, uuid string
	id         datapath.CubeID
	dp         cubeDatapath
	plane      plane
	// log is the daemon's.
	log *slog.Logger
	// ownStation says whether the host's stack sends from an address.
	ownStation func(net.HardwareAddr) bool
	// announce tells that the cube is degraded; handlers and waits count what the slow path took.
	announce        func(reason string)
	handlers, waits *tally.Histogram
}

// newUnit makes a unit without an instance, and with an empty tree.
func newUnit(o unitOptions) *unit {
	level := new(slog.LevelVar)
	u := &unit{name: o.name, svc: o.svc, uuid: o.uuid, id: o.id, tree: o.svc.Schema.NewTree(), turn: make(chan struct{}, 1),
		gate: make(chan struct{}, 1), hung: make(chan struct{}), patience: hangTimeout, announce: o.announce,
		handlers: o.handlers}
	u.turn <- struct{}{}
	u.gate <- struct{}{}
	u.log = o.logger(level, nil)
	u.env = &env{name: o.name, id: o.id, uuid: o.uuid, degrade: u.degrade, transparent: o.svc.Info.Transparent, dp: o.dp, level: level,
		log: o.logger(level, newLineLimit()), programs: programs{o.plane, u}, start: u.start, ownStation: o.ownStation}
	u.env.ports.Store(newPortTable())
	u.mail = newMailbox(u.deliver, u.perform)
	u.mail.waits = o.waits
	return u
}

// logger returns a logger of the cube, with a level of its own.
func (o *unitOptions) logger(level *slog.LevelVar, limit *lineLimit) *slog.Logger {
	return slog.New(cubeHandler{o.log.Handler(), level, limit}).With("service", o.svc.Info.Name, "cube", o.name)
}

// guard runs fn and turns a panic into a *panicError.
func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return fn()
}

// enter waits for the unit's turn, unless the cube's code has it and does not return. The caller must leave.
func (u *unit) enter(ctx context.Context) error { return u.enterUnless(ctx, u.hung) }

func (u *unit) enterUnless(ctx context.Context, hung <-chan struct{}) error {
	select {
	case <-u.turn:
	case <-hung:
		return errDegraded
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", u.name, ctx.Err())
	}
	if u.closed {
		u.leave()
		return errGone
	}
	return nil
}

func (u *unit) leave() { u.turn <- struct{}{} }

// enterGate waits for the unit's gate. The caller must leave it.
func (u *unit) enterGate(ctx context.Context) error {
	select {
	case <-u.gate:
		if u.ended.Load() {
			u.leaveGate()
			return errGone
		}
		return nil
	case <-u.hung:
		return errDegraded
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", u.name, ctx.Err())
	}
}

func (u *unit) leaveGate() { u.gate <- struct{}{} }

// hangTimeout is how long the code of a cube may take for one call.
const hangTimeout = 30 * time.Second

// call runs fn when it is the unit's turn. A panic is an error and nothing more: the caller undoes what was begun. Code
// that does not return degrades the cube and keeps its turn; the caller goes on, and must not look at what fn writes
// when there is an error.
func (u *unit) call(ctx context.Context, fn func() error) error { return u.callUnless(ctx, u.hung, fn) }

func (u *unit) callUnless(ctx context.Context, hung <-chan struct{}, fn func() error) error {
	if err := u.enterUnless(ctx, hung); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer u.leave()
		done <- guard(fn)
	}()
	timer := time.NewTimer(u.patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return u.logPanic(err)
	case <-timer.C:
		return u.hang()
	}
}

// hang degrades the cube because its code does not return.
func (u *unit) hang() error {
	u.degrade(fmt.Sprintf("its code has not returned for %v", u.patience))
	u.hangOnce.Do(func() { close(u.hung) })
	return fmt.Errorf("its code has not returned for %v, the cube is degraded: %w", u.patience, errDegraded)
}

// handle is call for what no transaction can undo: after a panic the cube is degraded, and its code is left alone.
func (u *unit) handle(ctx context.Context, what string, fn func() error) error {
	if err := u.refused(); err != nil {
		return err
	}
	return u.judge(what, u.call(ctx, fn))
}

// judge degrades the cube when a call ended in a panic.
func (u *unit) judge(what string, err error) error {
	var p *panicError
	if errors.As(err, &p) {
		u.degrade(fmt.Sprintf("%s: %v", what, p.value))
	}
	return err
}

// errDegraded marks a call that was not made because of what the cube's code did before.
var errDegraded = fmt.Errorf("delete the cube and create it again: %w", cube.ErrUnsupported)

// instance is the cube's code, nil before make. It is called in the unit's turn only.
func (u *unit) instance() cube.Instance { return u.inst }

// make calls the service's constructor, in the unit's turn.
func (u *unit) make() (err error) {
	if u.inst, err = u.svc.New(u.env); err != nil {
		u.inst = nil
	}
	return err
}

// end has nothing come from the mailbox any more: the cube will not live.
func (u *unit) end() { u.ended.Store(true) }

// beginCommit and endCommit enclose the code of a plan: the lock of the data plane is held then, and a change of the
// cube's programs from within would wait for itself.
func (u *unit) beginCommit() { u.committing.Store(true) }
func (u *unit) endCommit()   { u.committing.Store(false) }

// isDegraded says whether the cube's code is not called any more.
func (u *unit) isDegraded() bool { return u.degraded.Load() != nil }

// trouble is why the cube is degraded, "" while all is well.
func (u *unit) trouble() string {
	if reason := u.degraded.Load(); reason != nil {
		return *reason
	}
	return ""
}

// refused is what a degraded cube answers, nil while all is well.
func (u *unit) refused() error {
	if reason := u.degraded.Load(); reason != nil {
		return u.refusal(*reason)
	}
	return nil
}

// refusal is what a degraded cube answers.
func (u *unit) refusal(reason string) error {
	if u.svc.Reg != nil {
		return fmt.Errorf("%s is degraded (%s), its service takes it over again when it can: %w", u.name, reason, cube.ErrUnavailable)
	}
	return fmt.Errorf("%s is degraded (%s): %w", u.name, reason, errDegraded)
}

// degrade leaves the cube's code alone from now on; its programs go on forwarding.
func (u *unit) degrade(reason string) {
	if u.degraded.CompareAndSwap(nil, &reason) {
		u.log.Error("degraded: its code is not called any more, the fast path goes on", "reason", reason)
		if u.announce != nil {
			u.announce(reason)
		}
	}
}

func (u *unit) logPanic(err error) error {
	var p *panicError
	if errors.As(err, &p) {
		u.log.Error("panic", "value", p.value, "stack", string(p.stack))
	}
	return err
}

// close ends the instance. The code of a degraded cube may never return, nobody waits for it.
func (u *unit) close() {
	u.ended.Store(true)
	u.timers.stop()
	u.mail.close()
	if u.degraded.Load() != nil {
		go u.finish()
		return
	}
	u.finish()
}

func (u *unit) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := u.callUnless(ctx, nil, func() error {
		u.closed = true
		if closer, ok := u.inst.(cube.Closer); ok {
			closer.Close()
		}
		return nil
	})
	if err != nil {
		u.log.Warn("its code did not end as it should", "error", err)
	}
}

// closeTimeout bounds the wait for a cube's turn when the cube goes.
const closeTimeout = 5 * time.Second

// spec is what the data plane must know of a cube to open it.
func (u *unit) spec(rec *world.Cube, sizes map[string]uint32) datapath.Spec {
	return datapath.Spec{ID: u.id, UUID: u.uuid, Name: u.name, Service: u.svc.Info.Name, Type: rec.Type,
		Transparent: rec.Transparent, MapSizes: sizes, Migrate: u.svc.Migrate, Outside: u.svc.Reg != nil}
}
