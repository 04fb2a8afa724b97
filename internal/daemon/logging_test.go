// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLogLines: the shape of lines, and that nothing in a record forges another line.
func TestLogLines(t *testing.T) {
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"the daemon's", func(l *slog.Logger) { l.Info("ready") }, "[polycubed] [info] ready"},
		{"levels by the first daemon's names", func(l *slog.Logger) { l.Warn("a") }, "[polycubed] [warning] a"},
		{"critical", func(l *slog.Logger) { l.Log(t.Context(), levelCritical, "a") }, "[polycubed] [critical] a"},
		{"a cube's", func(l *slog.Logger) { l.With("service", "Helloworld", "cube", "hw1").Error("hello") }, "[Helloworld] [hw1] [error] hello"},
		{"a cube's below the daemon's level", func(l *slog.Logger) {
			l.With("service", "s", "cube", "c").Log(t.Context(), levelTrace, "hello")
		}, "[s] [c] [trace] hello"},
		{"the daemon's about a cube", func(l *slog.Logger) { l.Info("gone", "cube", "hw1") }, "[polycubed] [info] gone cube=hw1"},
		{"attributes", func(l *slog.Logger) {
			l.With("a", 1).WithGroup("g").Info("m", "err", errors.New("no way"), "empty", "", slog.Group("h", "x", true))
		}, `[polycubed] [info] m a=1 g.err="no way" g.empty="" g.h.x=true`},
		{"a line break in a message", func(l *slog.Logger) { l.Info("a\n[2026] [polycubed] [info] forged") }, `[polycubed] [info] a\n[2026] [polycubed] [info] forged`},
		{"a line break in a value", func(l *slog.Logger) { l.Info("m", "k", "a\nb\x1b[31m") }, `[polycubed] [info] m k="a\nb\x1b[31m"`},
		{"a line break in a cube's name", func(l *slog.Logger) { l.With("service", "s", "cube", "a\nb").Info("m") }, `[s] [a\nb] [info] m`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			f, err := openLog("", &out)
			if err != nil {
				t.Fatal(err)
			}
			tt.log(newLogger(f, slog.LevelInfo, logText))
			line, rest, _ := strings.Cut(out.String(), "\n")
			if rest != "" {
				t.Errorf("more than one line: %q", out.String())
			}
			if !regexp.MustCompile(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] `).MatchString(line) {
				t.Errorf("no date and time in %q", line)
			}
			if _, got, _ := strings.Cut(line, "] "); got != tt.want {
				t.Errorf("line\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestCubeFields: scripts cut blank-separated fields 4 and 6 off a cube's line.
func TestCubeFields(t *testing.T) {
	var out bytes.Buffer
	f, err := openLog("", &out)
	if err != nil {
		t.Fatal(err)
	}
	newLogger(f, levelOff, logText).With("service", "Helloworld", "cube", "hw1").Debug("ingress packet")
	if fields := strings.Fields(out.String()); len(fields) != 7 || fields[3] != "[hw1]" || fields[5] != "ingress" {
		t.Errorf("fields are %q", fields)
	}
	out.Reset()
	newLogger(f, levelOff, logText).Error("nothing is logged when the level is off")
	if out.Len() > 0 {
		t.Errorf("logged %q", out.String())
	}
}

// TestReopen: after a rotation the log goes on in a new file of the same name.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "polycubed.log")
	f, err := openLog(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := newLogger(f, slog.LevelInfo, logText)
	log.Info("first")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	log.Info("still the first file")
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	log.Info("second")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]int{path + ".1": 2, path: 1} {
		text, err := os.ReadFile(file)
		if err != nil || strings.Count(string(text), "\n") != want {
			t.Errorf("%s: %v, %q, want %d lines", file, err, text, want)
		}
	}
}
