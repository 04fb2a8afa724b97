// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"log/slog"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/kernel"
)

// AfterSteps are steps of committed plans that must wait until no packet runs the old programs. They run in the cube's
// turn: in the background, or before the cube prepares its next change.
type AfterSteps struct {
	log  *slog.Logger
	post func(Task)

	mu      sync.Mutex // guards steps
	steps   []cube.Step
	waiting sync.WaitGroup // for grace periods
}

// Add schedules steps to run once no packet runs the old programs.
func (a *AfterSteps) Add(steps []cube.Step) {
	if len(steps) == 0 {
		return
	}
	a.mu.Lock()
	a.steps = append(a.steps, steps...)
	a.mu.Unlock()
	a.waiting.Go(func() {
		if err := kernel.WaitForPrograms(); err != nil {
			a.log.Warn("wait for packets in flight", "error", err)
		}
		a.post(Task{What: "After", Run: a.carryOut})
	})
}

// Finish runs the remaining steps. The caller has the cube's turn.
func (a *AfterSteps) Finish() {
	a.waiting.Wait()
	a.carryOut()
}

func (a *AfterSteps) carryOut() {
	a.mu.Lock()
	steps := a.steps
	a.steps = nil
	a.mu.Unlock()
	for _, s := range steps {
		if _, err := s.Do(); err != nil {
			a.log.Error("free resources of a change", "error", err)
		}
	}
}
