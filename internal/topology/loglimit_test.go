// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/datapath"
)

// TestLinesAreLimited: of a flood some lines are written, and how many were not is said once a second, at the level of
// the worst of them.
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
	if got := out.String(); !strings.Contains(got, "70 lines were left out") || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "cube=c") {
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

// TestLevelOfACube: whatever writes about a cube obeys its level: its code, its programs, and the framework.
func TestLevelOfACube(t *testing.T) {
	tests := []struct {
		level string
		want  string
	}{
		{"TRACE", "trace debug info warn err critical"}, {"DEBUG", "debug info warn err critical"}, {"INFO", "info warn err critical"},
		{"WARN", "warn err critical"}, {"ERR", "err critical"}, {"CRITICAL", "critical"}, {"OFF", ""},
	}
	names := []struct {
		name string
		slow slog.Level
		fast datapath.LogLevel
	}{
		{"trace", levelTrace, datapath.LogTrace}, {"debug", slog.LevelDebug, datapath.LogDebug}, {"info", slog.LevelInfo, datapath.LogInfo},
		{"warn", slog.LevelWarn, datapath.LogWarn}, {"err", slog.LevelError, datapath.LogErr}, {"critical", levelCritical, datapath.LogCritical},
	}
	for _, tt := range tests {
		t.Run(tt.level, func(t *testing.T) {
			l := newLab(t)
			var out bytes.Buffer
			l.log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)}))
			l.must(`create toybridge br <<< ` + fmt.Sprintf(`{"loglevel":%q}`, tt.level))
			u := l.view.Load().units["br"]
			for from, write := range map[string]func(i int){
				"the cube's code":    func(i int) { u.environment().Logger().Log(context.Background(), names[i].slow, "m="+names[i].name+".") },
				"the cube's program": func(i int) { l.DatapathLog(u.id, names[i].fast, "m="+names[i].name+".") },
				"the framework":      func(i int) { u.log.Log(context.Background(), names[i].slow, "m="+names[i].name+".") },
			} {
				out.Reset()
				var got []string
				for i := range names {
					write(i)
					if strings.Contains(out.String(), "m="+names[i].name+".") {
						got = append(got, names[i].name)
					}
				}
				if strings.Join(got, " ") != tt.want {
					t.Errorf("%s: %v is logged, want %q", from, got, tt.want)
				}
			}
		})
	}
}
