// SPDX-License-Identifier: Apache-2.0

// Package trial keeps the change that is on trial: unless somebody confirms it in time, the configuration returns to that
// before it.
package trial

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/history"
)

// Key is the record of the change on trial; there is none without one.
const Key = "trial"

// The shortest and the longest trial.
const (
	Shortest = time.Second
	Longest  = 24 * time.Hour
)

// Trial is a change on trial.
type Trial struct {
	// Revision is that of the change, Return the one before it.
	Revision uint64 `json:"revision"`
	Return   uint64 `json:"return"`
	// Until is when the configuration returns, by the clock of the machine.
	Until time.Time `json:"until"`
	// By is who has made the change.
	By history.Requester `json:"by"`
}

// New returns the trial of a change after a revision.
func New(after uint64, length time.Duration, by history.Origin) *Trial {
	return &Trial{Revision: after + 1, Return: after, Until: time.Now().Add(length).UTC().Truncate(time.Millisecond), By: history.Requester(by)}
}

// Record is the trial as it is stored.
func (t *Trial) Record() store.Record {
	blob, _ := json.Marshal(t) // strings, numbers and times always marshal
	return store.Record{Key: Key, Value: blob}
}

// Left is how long the trial lasts, 0 if it is over.
func (t *Trial) Left() time.Duration { return max(0, time.Until(t.Until)) }

// Refusal is the error for other changes.
func (t *Trial) Refusal() error {
	return fmt.Errorf("a change by %s is on trial for another %d seconds: `polycubectl confirm` keeps it, `polycubectl confirm no` takes it back: %w",
		cmp.Or(t.By.Who, "another user"), int(t.Left().Seconds())+1, cube.ErrInUse)
}

// Keeper keeps the trial that runs. Its methods may be called from any goroutine.
type Keeper struct {
	// expired is called when a trial is over, in a goroutine of its own; pin keeps a revision in the store, 0 none.
	expired func(*Trial)
	pin     func(revision uint64)

	mu      sync.Mutex // guards what follows
	running *Trial
	timer   *time.Timer // nil before Start, and without a trial
	started bool
}

// NewKeeper returns a keeper without a trial.
func NewKeeper(expired func(*Trial), pin func(revision uint64)) *Keeper {
	return &Keeper{expired: expired, pin: pin}
}

// Restore takes over the trial in a stored state, if there is one.
func (k *Keeper) Restore(state *store.State) {
	if state == nil {
		return
	}
	for _, r := range state.Records {
		var t Trial
		if r.Key == Key && json.Unmarshal(r.Value, &t) == nil {
			k.Begin(&t)
		}
	}
}

// Start lets trials expire from now on.
func (k *Keeper) Start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started = true
	k.wait()
}

// wait starts the timer. k.mu is held.
func (k *Keeper) wait() {
	if t := k.running; t != nil && k.started {
		k.timer = time.AfterFunc(t.Left(), func() { k.expired(t) })
	}
}

// Begin starts a trial.
func (k *Keeper) Begin(t *Trial) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = t
	k.pin(t.Return)
	k.wait()
}

// End ends the trial, if one runs.
func (k *Keeper) End() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = nil
	k.pin(0)
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

// Stop keeps trials from expiring: the next daemon continues with them.
func (k *Keeper) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started = false
	if k.timer != nil {
		k.timer.Stop()
	}
}

// Running returns the trial that runs, or nil.
func (k *Keeper) Running() *Trial {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.running
}
