// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/output"
)

func openAudit(t *testing.T, path string) (*Audit, *output.Buffer) {
	t.Helper()
	log := &output.Buffer{}
	a, err := OpenAudit(path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return a, log
}

// lines decodes an audit log.
func lines(t *testing.T, path string) []Record {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []Record
	for line := range bytes.Lines(text) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

// TestAuditLine: a line holds what was recorded, whatever a client put into its names, and
// nobody else reads it.
func TestAuditLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "audit.log")
	a, _ := openAudit(t, path)
	at := time.Date(2030, 1, 2, 3, 4, 5, 6789, time.FixedZone("here", 3600))
	want := Record{Time: at, Who: "CN=\"al\nice\u2028", Role: "admin", From: "192.0.2.1:5", Certificate: "ab", Method: "POST", Path: "/polycube/v1/x%0Ay", Bytes: 5, Status: 201, Milliseconds: 1.5}
	a.Write(want)
	a.Write(Record{Time: at, Path: strings.Repeat("x", 5000)})
	got := lines(t, path)
	if len(got) != 2 {
		t.Fatalf("%d lines, want 2", len(got))
	}
	want.Time = at.UTC().Truncate(time.Microsecond)
	if got[0] != want {
		t.Errorf("the line has %+v, want %+v", got[0], want)
	}
	if n := len(got[1].Path); n > maxAuditPath+3 {
		t.Errorf("a path of 5000 bytes takes %d of its line", n)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

// TestAuditRotation: the log is put aside when it is full, so many times, and no line is
// lost between.
func TestAuditRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a, _ := openAudit(t, path)
	a.most = 1000
	const changes = 100
	for i := range changes {
		a.Write(Record{Time: time.Now(), Status: i + 1})
	}
	next := changes
	for _, suffix := range []string{"", ".1", ".2", ".3", ".4"} {
		part := lines(t, path+suffix)
		for i := range part {
			if r := part[len(part)-1-i]; r.Status != next {
				t.Fatalf("audit.log%s has change %d where %d is expected", suffix, r.Status, next)
			}
			next--
		}
		if info, err := os.Stat(path + suffix); err != nil || info.Size() > a.most || info.Mode() != 0o600 {
			t.Errorf("audit.log%s: %d bytes, mode %v, %v", suffix, info.Size(), info.Mode(), err)
		}
	}
	if _, err := os.Stat(path + ".5"); err == nil || next == 0 {
		t.Errorf("more logs are kept than %d, or all lines fit (%d left out)", auditKept, next)
	}
}

// TestAuditAppends: a restart continues where the log ended, and a log that was put aside by others is re-created.
func TestAuditAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	first, _ := openAudit(t, path)
	first.Write(Record{Status: 1})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, _ := openAudit(t, path)
	second.Write(Record{Status: 2})
	if got := lines(t, path); len(got) != 2 {
		t.Errorf("after a restart: %+v", got)
	}
	if err := errors.Join(os.Rename(path, path+".old"), second.Reopen()); err != nil {
		t.Fatal(err)
	}
	second.Write(Record{Status: 3})
	if got := lines(t, path); len(got) != 1 || got[0].Status != 3 {
		t.Errorf("after it was put aside: %+v", got)
	}
}

// TestAuditOfRefusals: who is refused all the time does not fill the log; what was left out is counted, and changes
// are recorded anyway.
func TestAuditOfRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a, _ := openAudit(t, path)
	at := time.Now()
	for range 10 * refusedBurst {
		a.Write(Record{Time: at, Status: 403, Refused: "no"})
	}
	a.Write(Record{Time: at, Status: 201})
	a.Write(Record{Time: at.Add(time.Second), Status: 403, Refused: "no"})
	got := lines(t, path)
	if len(got) != refusedBurst+2 {
		t.Fatalf("%d lines, want %d", len(got), refusedBurst+2)
	}
	if change, later := got[refusedBurst], got[refusedBurst+1]; change.Status != 201 || change.Omitted != 9*refusedBurst || later.Omitted != 0 {
		t.Errorf("the change: %+v, the refusal after it: %+v", change, later)
	}
}

// TestAuditPlaces: no link is followed, and no file of others is written to.
func TestAuditPlaces(t *testing.T) {
	for says, place := range map[string]func(path, victim string) error{
		"is a symbolic link":                  func(path, victim string) error { return os.Symlink(victim, path) },
		"is not a private file of the daemon": func(path, victim string) error { return os.Link(victim, path) },
		"audit log: open":                     func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"audit log":                           func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	} {
		dir := t.TempDir()
		path, victim := filepath.Join(dir, "audit.log"), filepath.Join(dir, "victim")
		if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o644), place(path, victim)); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenAudit(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
		info, err := os.Stat(victim)
		if text, readErr := os.ReadFile(victim); readErr != nil || string(text) != "precious" || err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: the other file has %q, mode %v", says, text, info.Mode())
		}
	}
}

// TestAuditOfAFullDisk: the daemon's log says once that changes are not recorded, and once
// that they are again.
func TestAuditOfAFullDisk(t *testing.T) {
	a, log := openAudit(t, filepath.Join(t.TempDir(), "audit.log"))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("needs /dev/full: %v", err)
	}
	whole := a.file
	a.file = full
	for i := range 3 {
		a.Write(Record{Status: i})
	}
	a.file = whole
	a.Write(Record{Status: 9})
	if err := full.Close(); err != nil {
		t.Error(err)
	}
	text := log.String()
	if strings.Count(text, "no longer recorded") != 1 || strings.Count(text, "recorded in the audit log again") != 1 || !strings.Contains(text, "no space left") {
		t.Errorf("log:\n%s", text)
	}
	if got := lines(t, a.path); len(got) != 1 || got[0].Status != 9 {
		t.Errorf("lines: %+v", got)
	}
}

// TestNoAudit: a daemon without an audit log does not mind.
func TestNoAudit(t *testing.T) {
	var a *Audit
	a.Write(Record{})
	if err := errors.Join(a.Reopen(), a.Close()); err != nil {
		t.Error(err)
	}
}
