// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/bpffs"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/rest/observe"
	"github.com/polycube/polycube/internal/slowpath"
)

// What the daemon shows of itself: events, and numbers that only it knows.

func newDaemon(o Options, p parts, stdout io.Writer) *daemon {
	began := time.Now()
	// The time distinguishes the events of this run from those of others.
	run := strconv.FormatInt(began.UnixNano(), 36)
	return &daemon{opts: o, parts: p, stdout: stdout, began: began, events: events.New(run, 0)}
}

// linker is a data plane that reports its programs.
type linker interface {
	Activity() datapath.Activity
	Segments() []datapath.Segment
}

// observed collects what the API shows of the daemon.
func (d *daemon) observed() observe.Observed {
	o := observe.Observed{Instance: d.opts.Instance, Started: d.began, Events: d.events, Level: namedLevel{d.level}, SlowPath: d.slowPath}
	if l, ok := d.plane.(linker); ok {
		o.Linker = l
	}
	if d.pinsOn != 0 {
		o.Pins = d.pinsMissing
	}
	if d.store != nil {
		o.Store = d.store
	}
	return o
}

// pinsMissing reports a problem with the directory for pins: an unmounted file system, or another one mounted over it,
// hides the pins; a read-only one accepts no new ones.
func (d *daemon) pinsMissing() error {
	now, err := pinsDevice(d.opts.BPFFS)
	switch {
	case err != nil:
		return err
	case now != d.pinsOn:
		return fmt.Errorf("%s is no longer in the file system that polycubed started with", d.opts.BPFFS)
	}
	return bpffs.Check(d.opts.BPFFS)
}

// slowPath reports how full the ring is.
func (d *daemon) slowPath() (slowpath.Load, bool) {
	k, ok := d.plane.(*kernelPlane)
	if !ok {
		return slowpath.Load{}, false
	}
	return k.ring.Load(), true
}

// relinked is called for programs that are in use now, or cannot be inlined, with the data plane's lock held.
func (d *daemon) relinked(r datapath.Relinked) {
	e := events.Event{Type: events.Relink, State: r.Mode, Reason: r.Reason, Cubes: r.Cubes[:min(len(r.Cubes), events.MaxListed)],
		More: len(r.Cubes) - min(len(r.Cubes), events.MaxListed)}
	e.About(r.Cubes)
	e.Message = fmt.Sprintf("the program of %s is linked in %s mode, %d instructions", joinNames(r.Cubes), r.Mode, r.Instructions)
	if r.Reason != "" {
		e.Message += ": " + r.Reason
	}
	d.events.Add(e)
}

// joinNames names some cubes and counts the others.
func joinNames(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// logReady reports the result of the start.
func (d *daemon) logReady() {
	broken := d.manager.Broken()
	e := events.Event{Type: events.Daemon, State: "ready", Revision: d.manager.Revision(),
		Message: fmt.Sprintf("polycubed %s is ready, %d cubes restored", Version, len(d.manager.Cubes()))}
	if len(broken) > 0 {
		e.Message += fmt.Sprintf(", %d could not be restored", len(broken))
	}
	d.events.Add(e)
}
