// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// TestLogIsReplaced: a file that has grown is moved away with those before it, three old ones are kept, and no line is
// lost or cut, however many write.
func TestLogIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "polycubed.log")
	f, err := openLog(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.limit, f.tryAt = 1000, 1000
	var done sync.WaitGroup
	for w := range 4 {
		done.Go(func() {
			for i := range 25 {
				if _, err := fmt.Fprintf(f, "writer %d line %02d %s\n", w, i, strings.Repeat("x", 80)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, name := range []string{path, path + ".1", path + ".2", path + ".3"} {
		text, err := os.ReadFile(name)
		if err != nil || len(text) > 1000 || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "writer ") || !strings.HasSuffix(line, "x\n") {
				t.Errorf("a line was cut: %q", line)
			}
			kept++
		}
	}
	if _, err := os.Stat(path + ".4"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a fourth old log: %v", err)
	}
	if kept < 3*9+1 {
		t.Errorf("%d lines are kept of 100", kept)
	}
}

// TestLogFileFoundOrMoved: an old file continues where it ended, one that somebody moved away is left alone, and a
// directory that cannot be written to costs no line.
func TestLogFileFoundOrMoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	if err := os.WriteFile(path, []byte(strings.Repeat("a", 900)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openLog(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.limit, f.tryAt = 1000, 1000
	write := func(text string) {
		t.Helper()
		if _, err := f.Write([]byte(text + strings.Repeat(".", 200) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	wantIn := func(name, text string) {
		t.Helper()
		if got, err := os.ReadFile(name); err != nil || !strings.Contains(string(got), text) {
			t.Errorf("%s: %v, %d bytes without %q", name, err, len(got), text)
		}
	}
	write("first")
	wantIn(path, "first")
	wantIn(path+".1", "aaa")
	if err := os.Rename(path, path+".mine"); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		write("second")
	}
	wantIn(path+".mine", "first")
	wantIn(path+".1", "aaa")
	wantIn(path, "second")
	// Something stands where the old log would go.
	if err := os.MkdirAll(filepath.Join(path+".3", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		write("third")
	}
	wantIn(path, "the log was not rotated: ")
	if text, _ := os.ReadFile(path); strings.Count(string(text), "third") != 6 {
		t.Errorf("lines are missing: %q", text)
	}
}

// TestLogIsNoLink: where others can write, they choose what root's daemon appends to.
func TestLogIsNoLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "victim"), filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(filepath.Join(dir, "log"), nil); err == nil || !strings.Contains(err.Error(), "log is a symbolic link") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "victim")); err == nil {
		t.Error("the file at the end of the link was made")
	}
}

// TestJSONLines: one object for each record whatever it holds, with the level's name, and with levels as for lines.
func TestJSONLines(t *testing.T) {
	var out bytes.Buffer
	f, err := openLog("", &out)
	if err != nil {
		t.Fatal(err)
	}
	level := newDaemonLevel(slog.LevelInfo)
	log := newLogger(f, level, logJSON)
	log.Warn("a\nb\u009b31m\x7f", "err", errors.New("no way"), slog.Group("g", "x", 1))
	log.Debug("below the level")
	log.With("service", "bridge", "cube", "br1").Debug("a cube's is not filtered here")
	level.Set(levelOff)
	log.Error("off")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 || strings.ContainsAny(out.String(), "\u009b\x7f") {
		t.Fatalf("%q", lines)
	}
	var first, second map[string]any
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &first), json.Unmarshal([]byte(lines[1]), &second)); err != nil {
		t.Fatal(err)
	}
	if first["level"] != "warning" || first["msg"] != "a\nb\u009b31m\x7f" || first["err"] != "no way" || first["time"] == nil {
		t.Errorf("%v", first)
	}
	if second["cube"] != "br1" || second["service"] != "bridge" || second["level"] != "debug" {
		t.Errorf("%v", second)
	}
}

// TestLevelChangesWhileItRuns: the daemon's own lines come and go with its level, asked for over the API.
func TestLevelChangesWhileItRuns(t *testing.T) {
	b := newBench(t)
	p := b.start("level", "--loglevel=warn", "--logformat=json")
	if strings.Contains(p.errs.String(), `"msg":"request"`) {
		t.Fatal("requests are logged at WARN")
	}
	p.must(http.StatusOK, "PATCH", "/daemon/loglevel", `"trace"`)
	p.must(http.StatusOK, "GET", "/version", "")
	p.eventually("a line at DEBUG", func() bool { return strings.Contains(p.errs.String(), `"path":"/polycube/v1/version"`) })
	if got := p.must(http.StatusOK, "GET", "/daemon/loglevel", ""); got != `"TRACE"` {
		t.Errorf("level %s", got)
	}
	p.must(http.StatusBadRequest, "PATCH", "/daemon/loglevel", `"loud"`)
	p.must(http.StatusOK, "PATCH", "/daemon/loglevel", `"off"`)
	before := p.errs.String()
	p.must(http.StatusOK, "GET", "/version", "")
	if after := p.errs.String(); strings.Contains(strings.TrimPrefix(after, before), "version") {
		t.Errorf("logged at OFF: %s", strings.TrimPrefix(after, before))
	}
	if status := p.end(); status != exitOK {
		t.Errorf("exit status %d", status)
	}
}

// TestStatusOfADaemon: what a daemon says of itself, from the outside.
func TestStatusOfADaemon(t *testing.T) {
	p := newBench(t).start("status")
	p.must(http.StatusCreated, "POST", "/echo/e1", "")
	var v struct {
		Status string
		Daemon struct{ Instance, Loglevel string }
		Cubes  struct{ Total, Revision int }
		Store  struct {
			JournalRecords int `json:"journal-records"`
		}
	}
	if err := json.Unmarshal([]byte(p.must(http.StatusOK, "GET", "/status", "")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Status != "ok" || v.Daemon.Instance != "status" || v.Daemon.Loglevel != "INFO" || v.Cubes.Total != 1 || v.Cubes.Revision == 0 || v.Store.JournalRecords == 0 {
		t.Errorf("%+v", v)
	}
	if text := p.must(http.StatusOK, "GET", "/metrics", ""); !strings.Contains(text, "\npolycube_store_commit_duration_seconds_count 1\n") {
		t.Errorf("no commit was counted:\n%s", text)
	}
}

// TestLogHasNoSecrets: at the lowest level, the token that opens everything is not in the log, nor what forges a line.
func TestLogHasNoSecrets(t *testing.T) {
	b := newBench(t)
	p := b.start("secret", "--loglevel=trace", "--port", "0")
	token, err := os.ReadFile(filepath.Join(filepath.Dir(p.socket), "token"))
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(token))
	address := regexp.MustCompile(`listening address=(127[0-9.:]+)`).FindStringSubmatch(p.errs.String())
	if address == nil {
		t.Fatalf("no TCP address in %q", p.errs.String())
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+address[1]+"/polycube/v1/echo/a%0a%1b%5b31mforged?token="+secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	p.eventually("the request's line", func() bool { return strings.Contains(p.errs.String(), "forged") })
	text := p.errs.String()
	if strings.Contains(text, secret) || strings.Contains(text, "\x1b") {
		t.Errorf("the log has what it must not have")
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "[20") {
			t.Errorf("a forged line %q", line)
		}
	}
}
