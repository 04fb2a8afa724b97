// SPDX-License-Identifier: Apache-2.0

package unit

// The rate limit of a cube's log.

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestLinesAreLimited: in a flood only some lines are written. The number of the others is logged once a second, at the
// highest level among them.
func TestLinesAreLimited(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(1000, 0)
	var due []func()
	limit := newLineLimit()
	limit.now = func() time.Time { return clock }
	limit.after = func(d time.Duration, fn func()) {
		if d != tellLeftOut {
			t.Errorf("told after %v", d)
		}
		due = append(due, fn)
	}
	log := slog.New(cubeHandler{slog.NewTextHandler(&out, nil), slog.LevelInfo, limit}).With("cube", "c")
	for i := range lineBurst + 70 {
		log.Log(context.Background(), []slog.Level{slog.LevelInfo, slog.LevelWarn}[i%2], "packet")
	}
	log.Debug("below the level, it costs nothing")
	if n := strings.Count(out.String(), "msg=packet"); n != lineBurst || len(due) != 1 {
		t.Fatalf("%d lines and %d reports, want %d and 1", n, len(due), lineBurst)
	}
	out.Reset()
	due[0]()
	if got := out.String(); !strings.Contains(got, "70 lines were omitted") || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "cube=c") {
		t.Errorf("reported %q", got)
	}
	clock = clock.Add(time.Second)
	out.Reset()
	for range 2 * linesPerSecond {
		log.Info("packet")
	}
	if n := strings.Count(out.String(), "msg=packet"); n != linesPerSecond || len(due) != 2 {
		t.Errorf("%d lines a second later and %d reports, want %d and 2", n, len(due), linesPerSecond)
	}
}
