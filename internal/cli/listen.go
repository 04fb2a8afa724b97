// SPDX-License-Identifier: Apache-2.0

// Watching until Ctrl-C. The command prints when it listens. A signal does not kill it: the daemon delivers the
// packets that it still has, and a summary follows.

package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/cli/output"
)

// summaryTimeout is how long the daemon may be silent after a signal, before the client prints the summary without it.
const summaryTimeout = 3 * time.Second

// watchStream reads a stream. Before, it prints that nothing is missed from now on; afterwards, it prints the summary.
func (s *session) watchStream(body *interruptible, what string, t *tally, read func() error) error {
	fmt.Fprintf(s.stderr, "listening %s, Ctrl-C to stop\n", output.Clean(what))
	err := read()
	if body.came.Load() {
		t.end = "" // the user knows
	}
	fmt.Fprint(s.stderr, t.text())
	return err
}

// interruptible is the body of a stream that SIGINT and SIGTERM end.
type interruptible struct {
	io.Reader
	came   atomic.Bool
	grace  *time.Timer
	cancel func() // ends the stream immediately
}

// watch waits for the first signal. A second one ends the program, as always.
func (b *interruptible) watch(c *client) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case <-done:
		case <-signals:
			b.grace = time.AfterFunc(summaryTimeout, b.cancel)
			b.came.Store(true)
			if !c.finish() {
				b.cancel()
			}
		}
	}()
	return func() { close(done) }
}

// Read returns io.EOF once a signal has arrived, however the stream ends then.
func (b *interruptible) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.came.Load() {
		b.grace.Reset(summaryTimeout)
		if err != nil {
			err = io.EOF
		}
	}
	return n, err
}

// tally counts the packets or events of a stream, for the summary.
type tally struct {
	unit  string // "step"
	count int
	drops map[string]int // by cube and reason
	types map[string]int // of events
	lost  uint64
	// known tells that the daemon reported how many were lost; end is why it ended the session, "" if the user did.
	known bool
	end   string
	file  string // that was written
}

// dropped counts a packet that a cube dropped.
func (t *tally) dropped(cube, reason string) { add(&t.drops, strings.TrimSpace(cube+" "+reason)) }

// event counts an event of a type. One of type lost stands for missing events; without a number, it is unknown how
// many.
func (t *tally) event(kind string, missing uint64) {
	if kind == "lost" {
		t.lost += missing
		t.known = t.known && missing > 0
		return
	}
	t.count++
	add(&t.types, kind)
}

func add(to *map[string]int, name string) {
	if *to == nil {
		*to = map[string]int{}
	}
	(*to)[name]++
}

// text is the summary.
func (t *tally) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", t.count, t.unit)
	if t.count != 1 {
		b.WriteByte('s')
	}
	if t.known || t.lost > 0 {
		fmt.Fprintf(&b, ", %d lost", t.lost)
	}
	if !t.known {
		b.WriteString(", number lost unknown")
	}
	if t.file != "" {
		b.WriteString(", written to " + output.Clean(t.file))
	}
	if t.end != "" {
		b.WriteString(" (" + output.Clean(t.end) + ")")
	}
	b.WriteByte('\n')
	if len(t.types) > 0 {
		b.WriteString("by type: " + most(t.types) + "\n")
	}
	if len(t.drops) > 0 {
		b.WriteString("dropped: " + most(t.drops) + "\n")
	}
	return b.String()
}

// most lists names with their numbers, largest first.
func most(counts map[string]int) string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", output.Clean(name), counts[name])
	}
	return strings.Join(names, ", ")
}
