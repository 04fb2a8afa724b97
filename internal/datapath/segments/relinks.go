// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/tally"
)

// Counts and durations of linking and loading programs.

// activity counts relinks.
type activity struct {
	took     map[link.Mode]*tally.Histogram
	failures tally.Counters
}

func newActivity() activity {
	return activity{took: map[link.Mode]*tally.Histogram{link.Call: tally.NewHistogram(), link.Inline: tally.NewHistogram()}}
}

// done counts one set of programs that was linked and loaded, or failed.
func (a *activity) done(mode link.Mode, began time.Time, err error) {
	if err != nil {
		a.failures.Add(relinkFailure(err))
		return
	}
	a.took[mode].Since(began)
}

// relinkFailure is the class of an error, a label of a metric.
func relinkFailure(err error) string {
	var verifier *ebpf.VerifierError
	switch {
	case errors.Is(err, link.ErrTooLarge), errors.Is(err, unix.E2BIG):
		return "too-large"
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.EROFS):
		return "resources"
	case errors.As(err, &verifier), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EACCES):
		return "verifier"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled"
	}
	return "other"
}

// Activity is the linker's work since the plane was opened.
type Activity struct {
	// Relinks are the durations of linking and loading in seconds, by mode.
	Relinks map[string]tally.Snapshot
	// Failures are by class: too-large, verifier, resources, canceled, other.
	Failures map[string]uint64
}

// Activity returns the linker's work.
func (m *Maker) Activity() Activity {
	out := Activity{Relinks: map[string]tally.Snapshot{}, Failures: m.activity.failures.Snapshot()}
	for mode, h := range m.activity.took {
		out.Relinks[mode.String()] = h.Snapshot()
	}
	return out
}
