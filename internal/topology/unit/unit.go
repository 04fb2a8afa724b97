// SPDX-License-Identifier: Apache-2.0

// Package unit runs the code of cubes. A Unit has the data tree, the instance and the environment of one living cube,
// its mailbox and its timers. Its code is called one call at a time and is not trusted to return normally: a panic ends
// the call, and code that does not return degrades the cube, without effect on others.
package unit

// A unit is a living cube: its data tree, its instance, its environment. The code of a cube is not trusted to return
// normally: every call into it goes through a unit, one at a time, and a panic ends only that call.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/compile"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/tally"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// errGone is the error of a unit whose cube was deleted while the caller waited for it.
var errGone = fmt.Errorf("the cube was deleted: %w", cube.ErrNotFound)

// PanicError is a panic in a cube's code, or in the daemon's code that handles a cube or service.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unit is a living cube.
type Unit struct {
	Name    string
	Service *service.Service
	UUID    string
	ID      datapath.CubeID
	// Tree is used by the current transaction, under the manager's writer lock.
	Tree *yang.Tree
	// Restored are the entries that the store had for the cube when it was restored.
	Restored *world.StoredEntries
	env      *env
	Log      *slog.Logger

	// turn holds one token: its holder may call the instance. It is a channel, because waiting for it must end with
	// a context.
	turn chan struct{}
	// gate holds one token, taken before the turn by callers that may wait for the data plane's lock, or hold it:
	// calls from the mailbox, and transactions, which keep the token until they end. Reads do not take it.
	gate chan struct{}
	// ended is set when the cube is deleted: nothing is called from its mailbox any more.
	ended  atomic.Bool
	inst   cube.Instance
	closed bool

	mail *mailbox
	// After are the steps of plans that run after the switch to the new programs.
	After AfterSteps
	// timers are stopped when the unit ends.
	timers timers
	// programs are those that differ from the usual ones; written under the lock of the data plane.
	programs atomic.Pointer[ProgramSet]
	// committing is set while the code of a plan runs: the lock of the data plane is held then.
	committing atomic.Bool
	// announce reports that the cube is degraded; handlers measures how long calls for the slow path took.
	announce func(reason string)
	handlers *tally.Histogram
	// Patience is how long a call may take.
	Patience time.Duration
	// hung is closed when the cube's code did not return in time: from then on nobody waits for its turn.
	hung     chan struct{}
	hangOnce sync.Once
	// degraded says why the cube's code is not called any more; nil if it is called.
	degraded atomic.Pointer[string]
}

// Options are the parameters of a unit.
type Options struct {
	Service    *service.Service
	Name, UUID string
	ID         datapath.CubeID
	Datapath   Datapath
	Plane      Plane
	// Log is the daemon's log.
	Log *slog.Logger
	// Compile compiles C for the cube; nil if that is not possible.
	Compile func(context.Context, compile.Source) ([]byte, error)
	// OwnStation reports whether the host's stack sends from an address.
	OwnStation func(net.HardwareAddr) bool
	// Announce reports that the cube is degraded; Handlers and Waits measure how long calls for the slow path took
	// and waited.
	Announce func(reason string)
	// Tell adds an event in the name of the cube, TellSession one of a session.
	Tell, TellSession func(state, what string)
	// Advertise makes the routes of the cube in its namespace those to prefixes.
	Advertise func(prefixes []netip.Prefix) error
	// Edit makes the edits that the function returns, as a change of its own.
	Edit            func(wanted func() ([]cube.Edit, error)) error
	Handlers, Waits *tally.Histogram
}

// New makes a unit without an instance, and with an empty tree.
func New(o Options) *Unit {
	level := new(slog.LevelVar)
	u := &Unit{Name: o.Name, Service: o.Service, UUID: o.UUID, ID: o.ID, Tree: o.Service.Schema.NewTree(), turn: make(chan struct{}, 1),
		gate: make(chan struct{}, 1), hung: make(chan struct{}), Patience: hangTimeout, announce: o.Announce,
		handlers: o.Handlers}
	u.turn <- struct{}{}
	u.gate <- struct{}{}
	u.Log = o.logger(level, nil)
	u.env = &env{name: o.Name, id: o.ID, uuid: o.UUID, degrade: u.Degrade, transparent: o.Service.Info.Transparent, dp: o.Datapath, level: level,
		log: o.logger(level, newLineLimit()), programs: programs{o.Plane, u}, start: u.start, post: u.Post, ownStation: o.OwnStation,
		compile: o.Compile, edit: o.Edit, tell: o.Tell, tellSession: o.TellSession, advertise: o.Advertise}
	u.env.ports.Store(NewPortTable())
	u.SetReady(false)
	u.mail = newMailbox(u.deliver, u.perform)
	u.mail.waits = o.Waits
	u.After.log, u.After.post = u.Log, u.Post
	return u
}

// logger returns a logger for the cube, with a level of its own.
func (o *Options) logger(level *slog.LevelVar, limit *lineLimit) *slog.Logger {
	return slog.New(cubeHandler{o.Log.Handler(), level, limit}).With("service", o.Service.Info.Name, "cube", o.Name)
}

// Guard runs fn and turns a panic into a *PanicError.
func Guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}

// Enter waits for the unit's turn, unless the cube's code has it and does not return. The caller must call Leave.
func (u *Unit) Enter(ctx context.Context) error { return u.enterUnless(ctx, u.hung) }

func (u *Unit) enterUnless(ctx context.Context, hung <-chan struct{}) error {
	select {
	case <-u.turn:
	case <-hung:
		return ErrDegraded
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", u.Name, ctx.Err())
	}
	if u.closed {
		u.Leave()
		return errGone
	}
	return nil
}

// Leave gives the turn back.
func (u *Unit) Leave() { u.turn <- struct{}{} }

// EnterGate waits for the unit's gate. The caller must call LeaveGate.
func (u *Unit) EnterGate(ctx context.Context) error {
	select {
	case <-u.gate:
		if u.ended.Load() {
			u.LeaveGate()
			return errGone
		}
		return nil
	case <-u.hung:
		return ErrDegraded
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", u.Name, ctx.Err())
	}
}

// LeaveGate gives the gate back.
func (u *Unit) LeaveGate() { u.gate <- struct{}{} }

// hangTimeout is how long the code of a cube may take for one call.
const hangTimeout = 30 * time.Second

// Call runs fn in the unit's turn. A panic is only returned as an error: the caller undoes what was started. Code that
// does not return degrades the cube and keeps its turn; the caller continues, and must not read what fn writes if there
// is an error.
func (u *Unit) Call(ctx context.Context, fn func() error) error { return u.callUnless(ctx, u.hung, fn) }

func (u *Unit) callUnless(ctx context.Context, hung <-chan struct{}, fn func() error) error {
	if err := u.enterUnless(ctx, hung); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer u.Leave()
		done <- Guard(fn)
	}()
	timer := time.NewTimer(u.Patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return u.logPanic(err)
	case <-timer.C:
		return u.hang()
	}
}

// hang degrades the cube because its code does not return.
func (u *Unit) hang() error {
	u.Degrade(fmt.Sprintf("its code did not return for %v", u.Patience))
	u.hangOnce.Do(func() { close(u.hung) })
	return fmt.Errorf("its code did not return for %v, the cube is degraded: %w", u.Patience, ErrDegraded)
}

// Handle is Call for calls that no transaction can undo: a panic degrades the cube, and its code is not called any
// more.
func (u *Unit) Handle(ctx context.Context, what string, fn func() error) error {
	if err := u.Refused(); err != nil {
		return err
	}
	return u.judge(what, u.Call(ctx, fn))
}

// judge degrades the cube if a call ended in a panic.
func (u *Unit) judge(what string, err error) error {
	var p *PanicError
	if errors.As(err, &p) {
		u.Degrade(fmt.Sprintf("%s: %v", what, p.Value))
	}
	return err
}

// ErrDegraded marks a call that was not made because of an earlier failure of the cube's code.
var ErrDegraded = fmt.Errorf("delete the cube and create it again: %w", cube.ErrUnsupported)

// Instance is the cube's code, without Prepare before Make. It is called in the unit's turn only.
func (u *Unit) Instance() cube.Instance { return u.inst }

// Make calls the service's constructor, in the unit's turn.
func (u *Unit) Make() (err error) {
	u.inst, err = u.Service.New(u.env)
	if err == nil && u.inst.Prepare == nil {
		err = fmt.Errorf("service %s: its instances cannot prepare changes: %w", u.Service.Info.Name, cube.ErrUnsupported)
	}
	if err != nil {
		u.inst = cube.Instance{}
	}
	return err
}

// End stops calls from the mailbox: the cube is being deleted.
func (u *Unit) End() { u.ended.Store(true) }

// BeginCommit and EndCommit enclose the code of a plan: the lock of the data plane is held then, and a change of the
// cube's programs from that code would wait for itself.
func (u *Unit) BeginCommit() { u.committing.Store(true) }

// EndCommit ends the section that BeginCommit began.
func (u *Unit) EndCommit() { u.committing.Store(false) }

// IsDegraded reports whether the cube's code is not called any more.
func (u *Unit) IsDegraded() bool { return u.degraded.Load() != nil }

// Trouble is why the cube is degraded, "" if it is not.
func (u *Unit) Trouble() string {
	if reason := u.degraded.Load(); reason != nil {
		return *reason
	}
	return ""
}

// Refused is the error of a degraded cube, nil if it is not degraded.
func (u *Unit) Refused() error {
	if reason := u.degraded.Load(); reason != nil {
		return u.refusal(*reason)
	}
	return nil
}

// refusal is the error of a degraded cube.
func (u *Unit) refusal(reason string) error {
	if u.Service.Reg != nil {
		return fmt.Errorf("%s is degraded (%s), its service takes it over again as soon as it can: %w", u.Name, reason, cube.ErrUnavailable)
	}
	return fmt.Errorf("%s is degraded (%s): %w", u.Name, reason, ErrDegraded)
}

// Degrade stops calls of the cube's code; its programs continue to forward packets.
func (u *Unit) Degrade(reason string) {
	if u.degraded.CompareAndSwap(nil, &reason) {
		u.Log.Error("degraded: its code is no longer called, the fast path continues", "reason", reason)
		if u.announce != nil {
			u.announce(reason)
		}
	}
}

func (u *Unit) logPanic(err error) error {
	var p *PanicError
	if errors.As(err, &p) {
		u.Log.Error("panic", "value", p.Value, "stack", string(p.Stack))
	}
	return err
}

// Close ends the instance and frees the tree.
func (u *Unit) Close() { end(u, func() {}) }

// Delete is Close for a cube that was deleted.
func (u *Unit) Delete() {
	end(u, func() {
		if u.inst.Deleted != nil {
			u.inst.Deleted()
		}
	})
}

// end closes a unit. The code of a degraded cube may never return, so nothing waits for it.
func end(u *Unit, first func()) {
	defer u.Tree.Close()
	u.ended.Store(true)
	u.timers.stop()
	u.mail.close()
	finish := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err := u.callUnless(ctx, nil, func() error {
			u.closed = true
			first()
			if u.inst.Close != nil {
				u.inst.Close()
			}
			return nil
		})
		if err != nil {
			u.Log.Warn("error closing its code", "error", err)
		}
	}
	if u.degraded.Load() != nil {
		go finish()
		return
	}
	finish()
}

// closeTimeout limits the wait for a cube's turn when the cube is deleted.
const closeTimeout = 5 * time.Second

// Spec is what the data plane must know of a cube to open it.
func (u *Unit) Spec(rec *world.Cube, plan *cube.Plan) datapath.Spec {
	return datapath.Spec{ID: u.ID, UUID: u.UUID, Name: u.Name, Service: u.Service.Info.Name, Type: rec.Type,
		Transparent: rec.Transparent, MapSizes: plan.MapSizes, Spaces: plan.Spaces, Migrate: u.Service.Migrate, External: u.Service.Reg != nil}
}
