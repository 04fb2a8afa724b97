// SPDX-License-Identifier: Apache-2.0

package unit

// A cube may log a line per packet at DEBUG, and a flood of packets may repeat any line. Writing all of them would fill
// the disk and hide other lines, so each cube has a rate limit, and the lines left out are counted.

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// linesPerSecond is the sustained limit of a cube, lineBurst the number of lines it may log at once.
	linesPerSecond = 100
	lineBurst      = 500
	// tellLeftOut is the interval at which the number of lines left out is logged.
	tellLeftOut = time.Second
)

// lineLimit is the rate limit of one cube.
type lineLimit struct {
	mu     sync.Mutex
	tokens float64
	at     time.Time
	// left is how many lines were left out since the last report, worst the highest of their levels.
	left  uint64
	worst slog.Level
	// now and after are the clock; tests replace them.
	now   func() time.Time
	after func(time.Duration, func())
}

func newLineLimit() *lineLimit {
	return &lineLimit{tokens: lineBurst, now: time.Now, after: func(d time.Duration, fn func()) { time.AfterFunc(d, fn) }}
}

// take requests permission for a line. tell is called later with what was left out.
func (l *lineLimit) take(level slog.Level, tell func(n uint64, worst slog.Level)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !l.at.IsZero() {
		l.tokens = min(lineBurst, l.tokens+now.Sub(l.at).Seconds()*linesPerSecond)
	}
	l.at = now
	if l.tokens >= 1 {
		l.tokens--
		return true
	}
	l.left++
	if l.left == 1 {
		l.worst = level
		l.after(tellLeftOut, func() {
			l.mu.Lock()
			n, worst := l.left, l.worst
			l.left = 0
			l.mu.Unlock()
			tell(n, worst)
		})
	}
	l.worst = max(l.worst, level)
	return false
}

// cubeHandler lets a cube log at its own level, whatever the daemon's level is.
type cubeHandler struct {
	slog.Handler
	level slog.Leveler
	// limit limits the lines; nil does not.
	limit *lineLimit
}

func (h cubeHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h cubeHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.limit != nil && !h.limit.take(r.Level, h.tellLeftOut) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// tellLeftOut logs how many lines are missing.
func (h cubeHandler) tellLeftOut(n uint64, worst slog.Level) {
	if !h.Enabled(context.Background(), worst) {
		return
	}
	what := fmt.Sprintf("%d lines were omitted: a cube may log %d per second", n, linesPerSecond)
	_ = h.Handler.Handle(context.Background(), slog.NewRecord(time.Now(), worst, what, 0)) // there is no other place to say it
}

func (h cubeHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return cubeHandler{h.Handler.WithAttrs(a), h.level, h.limit}
}

func (h cubeHandler) WithGroup(name string) slog.Handler {
	return cubeHandler{h.Handler.WithGroup(name), h.level, h.limit}
}
