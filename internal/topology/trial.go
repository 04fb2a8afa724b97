// SPDX-License-Identifier: Apache-2.0

package topology

// Changes on trial. A trial is part of the transaction of its change: both are durable, or none. While it runs, users make
// no other changes, so that the return to the configuration before it takes nothing else back.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/trial"
)

// Trial is a change on trial.
type Trial = trial.Trial

// The shortest and the longest trial.
const (
	ShortestTrial = trial.Shortest
	LongestTrial  = trial.Longest
)

type tryKey struct{}

// OnTrial puts the change of a context on trial.
func OnTrial(ctx context.Context, length time.Duration) context.Context {
	return context.WithValue(ctx, tryKey{}, length)
}

func trialLength(ctx context.Context) time.Duration {
	length, _ := ctx.Value(tryKey{}).(time.Duration)
	return length
}

type endKey struct{}

// endsTrial notes that the change of a context ends a trial, nil for whichever runs.
func endsTrial(ctx context.Context, which *Trial) context.Context {
	return context.WithValue(ctx, endKey{}, which)
}

// errTrialOver ends the return of a trial that somebody has ended before.
var errTrialOver = errors.New("the trial is over")

// checkTrial refuses a request while a change is on trial, unless it ends the trial, and begins a trial.
func (t *editing) checkTrial(ctx context.Context) error {
	running, length := t.trials.Running(), trialLength(ctx)
	if which, ends := ctx.Value(endKey{}).(*Trial); ends {
		if which != nil && running != which {
			return errTrialOver
		}
		t.endsTrial = running != nil
		return nil
	}
	if running != nil && OriginOf(ctx) != (history.Origin{}) {
		return running.Refusal()
	}
	if length == 0 {
		return nil
	}
	if t.commit == nil {
		return fmt.Errorf("a trial needs the history, and this daemon keeps its configuration only in memory: %w", cube.ErrUnsupported)
	}
	t.trial = trial.New(t.old.Revision, length, OriginOf(ctx))
	return nil
}

// trialRecords are the records of a trial that begins or ends with a change; changed says whether there is a change at all.
func (x *execution) trialRecords(changed bool) (out []store.Record) {
	if x.endsTrial {
		out = append(out, store.Record{Key: trial.Key})
	}
	if !changed {
		x.trial = nil
	}
	if x.trial != nil {
		out = append(out, x.trial.Record())
	}
	return out
}

// followTrial takes over what a durable change says of trials.
func (c *committed) followTrial() {
	if c.endsTrial {
		c.trials.End()
	}
	if c.trial != nil {
		c.trials.Begin(c.trial)
		c.log.Warn("a change is on trial", "revision", c.trial.Revision, "until", c.trial.Until)
	}
}

// Trial returns the change on trial, or nil.
func (m *Manager) Trial() *Trial { return m.trials.Running() }

// EndTrial keeps the change on trial, or takes it back.
func (m *Manager) EndTrial(ctx context.Context, keep bool) error {
	if keep {
		return m.forgetTrial(ctx, nil, "confirm")
	}
	t := m.trials.Running()
	if t == nil {
		return errNoTrial
	}
	return m.takeBack(ctx, t)
}

// errNoTrial is the answer if no change is on trial.
var errNoTrial = fmt.Errorf("no change is on trial: %w", cube.ErrNotFound)

// forgetTrial ends a trial, nil for whichever runs, and leaves the configuration as it is.
func (m *Manager) forgetTrial(ctx context.Context, which *Trial, note string) error {
	return m.Exclusively(ctx, func() error {
		running := m.trials.Running()
		if running == nil || which != nil && running != which {
			return errNoTrial
		}
		if err := m.Write(ctx, store.Record{Key: trial.Key}, note); err != nil {
			return err
		}
		m.trials.End()
		return nil
	})
}

// takeBack returns to the configuration before a trial.
func (m *Manager) takeBack(ctx context.Context, t *Trial) error {
	applied, err := m.rollback(endsTrial(ctx, t), t.Return, ApplyOptions{})
	switch {
	case errors.Is(err, errTrialOver):
		return errNoTrial
	case err != nil:
		return err
	case !applied.Changed: // the daemon itself has taken it back
		return m.forgetTrial(ctx, t, "the end of a trial")
	}
	return nil
}

// expire takes the change of a trial back whose time is over. If that is not possible, the configuration stays.
func (m *Manager) expire(t *Trial) {
	err := m.takeBack(context.Background(), t)
	switch {
	case err == nil:
		m.log.Warn("a change on trial was not confirmed in time: it is taken back", "revision", t.Revision, "return", t.Return)
	case errors.Is(err, errNoTrial):
	default:
		m.log.Error("a change on trial was not confirmed in time, and cannot be taken back: it stays", "revision", t.Revision, "error", err)
		if err := m.forgetTrial(context.Background(), t, "the end of a trial"); err != nil && !errors.Is(err, errNoTrial) {
			m.log.Error("end a trial", "error", err)
		}
	}
}
