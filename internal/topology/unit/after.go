// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"log/slog"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/expedite"
	"github.com/polycube/polycube/internal/kernel"
)

// AfterSteps are steps of committed plans that must wait until no packet runs the old programs. They run in the cube's
// turn: in the background, or before the cube prepares its next change.
type AfterSteps struct {
	log  *slog.Logger
	post func(Task)

	mu    sync.Mutex // guards the following
	steps []cube.Step
	// added and done are the numbers of steps that were ever added and carried out.
	added, done int
	// waiting is true while a goroutine waits for a grace period.
	waiting bool
}

// Add schedules steps to run once no packet runs the old programs.
func (a *AfterSteps) Add(steps []cube.Step) {
	if len(steps) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps = append(a.steps, steps...)
	a.added += len(steps)
	if !a.waiting {
		a.waiting = true
		go a.background(a.added)
	}
}

// background waits for packets in flight, once for all steps that were added before, until none are left.
func (a *AfterSteps) background(to int) {
	for more := true; more; {
		upTo := to
		a.wait()
		a.post(Task{What: "After", Run: func() { a.carryOut(upTo) }})
		a.mu.Lock()
		more, to = a.added > upTo, a.added
		a.waiting = more
		a.mu.Unlock()
	}
}

func (a *AfterSteps) wait() {
	if err := kernel.WaitForPrograms(); err != nil {
		a.log.Warn("wait for packets in flight", "error", err)
	}
}

// Finish runs the remaining steps. The caller has the cube's turn, and a request waits for it, so the grace period is
// expedited.
func (a *AfterSteps) Finish() {
	a.mu.Lock()
	to, left := a.added, len(a.steps) > 0
	a.mu.Unlock()
	if !left {
		return
	}
	end := expedite.Begin()
	a.wait()
	end()
	a.carryOut(to)
}

// carryOut runs the steps up to a number of those added: later ones have not waited.
func (a *AfterSteps) carryOut(to int) {
	a.mu.Lock()
	n := max(0, to-a.done)
	steps := a.steps[:n]
	a.steps = a.steps[n:]
	a.done += n
	a.mu.Unlock()
	for _, s := range steps {
		if _, err := s.Do(); err != nil {
			a.log.Error("free resources of a change", "error", err)
		}
	}
}
