// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/tally"
)

// What the linker does is counted here, and told to whoever wants to know.

// Relinked tells of programs that are in use now, or that could not be.
type Relinked struct {
	// Cubes are those whose packets the programs take.
	Cubes []string
	// Mode is call or inline.
	Mode string
	// Reason says why the programs are not inlined; "" when they are, or will be tried.
	Reason string
	// Instructions is the size of the largest of the programs.
	Instructions int
}

// activity counts relinks.
type activity struct {
	took     map[link.Mode]*tally.Histogram
	failures tally.Counters
}

func newActivity() activity {
	return activity{took: map[link.Mode]*tally.Histogram{link.Call: tally.NewHistogram(), link.Inline: tally.NewHistogram()}}
}

// done counts one set of programs that was linked and loaded, or was not.
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

// Activity is what the linker has done since the plane was opened.
type Activity struct {
	// Relinks are the seconds that linking and loading took, by mode.
	Relinks map[string]tally.Snapshot
	// Failures are by class: too-large, verifier, resources, canceled, other.
	Failures map[string]uint64
}

// Activity returns what the linker has done.
func (p *Plane) Activity() Activity {
	out := Activity{Relinks: map[string]tally.Snapshot{}, Failures: p.activity.failures.Snapshot()}
	for mode, h := range p.activity.took {
		out.Relinks[mode.String()] = h.Snapshot()
	}
	return out
}

// Segment is one set of programs in use.
type Segment struct {
	// First is the name of its first cube, Cubes how many it has.
	First string
	Cubes int
	Mode  string
	// Reason says why it is not inlined.
	Reason string
	// Instructions and Maps are those of its largest program.
	Instructions, Maps int
}

// Segments lists the programs in use.
func (p *Plane) Segments() []Segment {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Segment, 0, len(p.parts))
	for _, c := range p.parts {
		out = append(out, Segment{First: c.code.Cubes[0].Name, Cubes: len(c.ids), Mode: c.gen.mode.String(), Reason: p.whyCall(c),
			Instructions: c.gen.insns, Maps: c.gen.maps})
	}
	return out
}

// tell tells of a segment's programs. It is called with the plane's lock: whoever is told must not wait.
func (p *Plane) tell(c *segment) {
	if p.opts.Relinked == nil {
		return
	}
	names := make([]string, 0, len(c.code.Cubes))
	for _, lc := range c.code.Cubes {
		names = append(names, lc.Name)
	}
	p.opts.Relinked(Relinked{Cubes: names, Mode: c.gen.mode.String(), Reason: c.note, Instructions: c.gen.insns})
}
