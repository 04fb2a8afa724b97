// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/polycube/polycube/cube"
)

// TestStepsWaitForTheirOwnGracePeriod: a task in the background, posted before further steps were added, leaves those for
// their own.
func TestStepsWaitForTheirOwnGracePeriod(t *testing.T) {
	posted := make(chan Task, 10)
	a := AfterSteps{log: slog.New(slog.DiscardHandler), post: func(task Task) { posted <- task }}
	var ran []string
	step := func(name string) []cube.Step {
		return []cube.Step{cube.Effect(func() (func() error, error) {
			ran = append(ran, name)
			return nil, nil
		})}
	}
	want := func(when string, names ...string) {
		t.Helper()
		if !slices.Equal(ran, names) {
			t.Fatalf("%s: the steps that ran are %q, want %q", when, ran, names)
		}
	}
	a.Add(step("first"))
	first := <-posted
	a.Finish()
	want("the next change has prepared", "first")
	a.Add(step("second"))
	first.Run()
	want("the task of the first step has run", "first")
	second := <-posted
	second.Run()
	want("the task of the second step has run", "first", "second")
	a.Add(step("third"))
	a.Add(step("fourth"))
	a.Finish()
	want("the last change has prepared", "first", "second", "third", "fourth")
	a.Finish()
	want("nothing is left", "first", "second", "third", "fourth")
}
