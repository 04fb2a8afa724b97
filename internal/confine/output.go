// SPDX-License-Identifier: Apache-2.0

package confine

// Standard output and standard error of a service are logged line by line in the daemon's log. A flood costs the
// service its lines and then its time, but never the daemon's memory, disk or processor.

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Limits of the log: the length of a line in bytes, lines and bytes per second (and the same as a burst).
const (
	maxLine  = 1024
	lineRate = 50
	byteRate = 256 << 10
)

// lineLog reads the output of a service.
type lineLog struct {
	log   *slog.Logger
	pause func(time.Duration)
	now   func() time.Time

	lines, bytes float64 // bytes and lines currently allowed
	at           time.Time
	lost         int

	mu    sync.Mutex
	last  string
	panic bool // the last relevant line is that of a panic
}

func newLineLog(log *slog.Logger) *lineLog {
	return &lineLog{log: log, now: time.Now, pause: func(d time.Duration) { <-time.After(d) }, lines: lineRate, bytes: byteRate}
}

// lastLine is the last line, to explain why the service ended. A Go program prints the reason first, and a stack trace
// after it.
func (o *lineLog) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// read logs lines until all writers are closed.
func (o *lineLog) read(r io.Reader) {
	lines := bufio.NewReaderSize(r, maxLine)
	cut := false // skip the rest of a long line
	for {
		part, more, err := lines.ReadLine()
		if len(part) > 0 && !cut {
			o.line(string(part), more)
		}
		o.throttle(len(part) + 1)
		cut = more
		if err != nil {
			o.logLost()
			return
		}
	}
}

// refill adds tokens for the time that has passed.
func (o *lineLog) refill() {
	now := o.now()
	if !o.at.IsZero() {
		passed := now.Sub(o.at).Seconds()
		o.lines = min(o.lines+passed*lineRate, lineRate)
		o.bytes = min(o.bytes+passed*byteRate, byteRate)
	}
	o.at = now
}

// throttle delays a service that writes too much.
func (o *lineLog) throttle(n int) {
	o.refill()
	if o.bytes -= float64(n); o.bytes < 0 {
		o.pause(time.Duration(-o.bytes / byteRate * float64(time.Second)))
	}
}

func (o *lineLog) line(text string, cut bool) {
	text = printable(text)
	if cut {
		text += "…"
	}
	o.mu.Lock()
	if blames := strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: "); blames || !o.panic {
		o.last, o.panic = text, blames
	}
	o.mu.Unlock()
	o.refill()
	if o.lines < 1 {
		o.lost++
		return
	}
	o.lines--
	o.logLost()
	o.log.Info(text)
}

func (o *lineLog) logLost() {
	if o.lost > 0 {
		o.log.Warn("the service wrote too many lines, some were not logged", "lost", o.lost)
		o.lost = 0
	}
}

// printable escapes what could affect the terminal of a reader.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// exitText says how a process ended, with its last line.
func exitText(how, last string) error {
	if last == "" {
		return fmt.Errorf("%s", how)
	}
	return fmt.Errorf("%s: %s", how, last)
}
