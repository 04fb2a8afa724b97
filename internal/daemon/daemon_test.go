// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/test/output"
)

// TestLife: a daemon starts, serves, keeps its configuration over a restart, and leaves
// the kernel alone when it stops.
func TestLife(t *testing.T) {
	b := newBench(t)
	p := b.start("main")
	if want := "listening address=" + p.socket + "\n"; !strings.Contains(p.errs.String(), want) {
		t.Errorf("no line with %q in the log %q", want, p.errs.String())
	}
	p.must(201, "POST", "/echo/e1", `{"level":7}`)
	pid, err := os.ReadFile(filepath.Join(b.dir, "main/run/polycubed.pid"))
	if err != nil || strings.TrimSpace(string(pid)) != fmt.Sprint(os.Getpid()) {
		t.Errorf("the pid file holds %q, %v", pid, err)
	}
	if status := p.end(); status != 0 {
		t.Fatalf("exit status %d: %s", status, p.errs.String())
	}
	if !b.plane.closed.Load() || b.plane.cleaned.Load() || !b.slowStopped.Load() {
		t.Errorf("plane closed %v, cleaned %v, slow path stopped before it %v", b.plane.closed.Load(), b.plane.cleaned.Load(), b.slowStopped.Load())
	}
	for _, file := range []string{"polycubed.sock", "polycubed.pid"} {
		if _, err := os.Lstat(filepath.Join(b.dir, "main/run", file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind", file)
		}
	}
	p = b.start("main")
	if got := p.must(200, "GET", "/echo/e1/level", ""); got != "7" {
		t.Errorf("after a restart level is %s", got)
	}
	if status := p.end(); status != 0 {
		t.Errorf("exit status %d: %s", status, p.errs.String())
	}
}

// TestExitClean: with --on-exit=clean a daemon that ran takes everything out of the
// kernel; one that never got ready does not, as what is there is its predecessor's.
func TestExitClean(t *testing.T) {
	b := newBench(t)
	if status := b.start("main", "--on-exit=clean").end(); status != 0 || !b.plane.cleaned.Load() {
		t.Errorf("status %d, cleaned %v", status, b.plane.cleaned.Load())
	}
	b = newBench(t)
	b.parts.startSlowPath = func(context.Context, plane, *topology.Manager, *slog.Logger) (func() error, error) {
		return nil, errors.New("no TAP")
	}
	p := b.launch("main", "--on-exit=clean")
	if status := p.wait(); status != exitFailed || b.plane.cleaned.Load() || !b.plane.closed.Load() {
		t.Errorf("status %d, cleaned %v, closed %v", status, b.plane.cleaned.Load(), b.plane.closed.Load())
	}
	if got := p.errs.String(); !strings.Contains(got, "polycubed: starting the slow path: no TAP") {
		t.Errorf("errors %q", got)
	}
}

// TestFailedBoot: whichever step fails, the daemon says which, and another can start at once.
func TestFailedBoot(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name, says string
		more       []string
		breakIt    func(*bench)
	}{
		{"the system", "preparing the system: boom", nil, func(b *bench) { b.parts.ensureBPFFS = func(string) error { return boom } }},
		{"the store", "opening the configuration", nil, func(b *bench) {
			if err := os.MkdirAll(b.dir+"/main", 0o755); err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(b.dir+"/main/state", nil, 0o600); err != nil {
				b.t.Fatal(err)
			}
		}},
		{"the data plane", "opening the data plane: boom", nil, func(b *bench) {
			b.parts.openPlane = func(planeOptions) (plane, error) { return nil, boom }
		}},
		{"a service", "restoring the cubes", nil, func(b *bench) {
			b.parts.services = func() []cube.Service { return []cube.Service{{Model: "nonsense"}} }
		}},
		{"the socket", "opening the API", []string{"--socket", "/dev/null/s"}, func(*bench) {}},
		{"the certificate", "deciding who may come in: TLS: --cert: open /none/cert.pem", []string{"--cert", "/none/cert.pem", "--key", "/none/key.pem", "--cacert", "/none/ca.pem"},
			func(*bench) {}},
		{"the audit log", "/dev/null is not a private file of the daemon", []string{"--audit-log", "/dev/null"}, func(*bench) {}},
		{"the log", "open the log", []string{"--logfile", "/dev/null/x"}, func(*bench) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			whole := b.parts
			tt.breakIt(b)
			p := b.launch("main", tt.more...)
			if status := p.wait(); status != exitFailed {
				t.Errorf("exit status %d", status)
			}
			if got := p.errs.String(); !strings.Contains(got, tt.says) && !(tt.name == "the log" && strings.Contains(got, "log")) {
				t.Errorf("errors %q, want %q", got, tt.says)
			}
			if strings.Contains(p.out.String(), "ready") {
				t.Error("it said it was ready")
			}
			if tt.name == "the store" {
				if err := os.Remove(b.dir + "/main/state"); err != nil {
					t.Fatal(err)
				}
			}
			b.parts = whole
			b.start("main").end()
		})
	}
}

// TestStopDuringBoot: told to stop at any step, the daemon ends in order and without error.
func TestStopDuringBoot(t *testing.T) {
	steps := map[string]func(*bench, func()){
		"the system": func(b *bench, stop func()) {
			b.parts.ensureBPFFS = func(string) error { stop(); return nil }
		},
		"the data plane": func(b *bench, stop func()) {
			b.parts.openPlane = func(planeOptions) (plane, error) { stop(); return b.plane, nil }
		},
		"the slow path": func(b *bench, stop func()) {
			b.parts.startSlowPath = func(context.Context, plane, *topology.Manager, *slog.Logger) (func() error, error) {
				stop()
				return func() error { return nil }, nil
			}
		},
	}
	for name, at := range steps {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			at(b, cancel)
			var out, errs output.Buffer
			if status := command(ctx, b.args("main"), b.parts, &out, &errs, nil); status != 0 {
				t.Errorf("exit status %d: %s", status, errs.String())
			}
			if out.String() != "" || !strings.Contains(errs.String(), "stopped during start") {
				t.Errorf("output %q, log %q", out.String(), errs.String())
			}
			if name != "the system" && !b.plane.closed.Load() {
				t.Error("the data plane was not closed")
			}
		})
	}
}

// TestInstances: a second daemon of the same name is refused with the pid of the first;
// one of another name runs beside it and knows nothing of its cubes.
func TestInstances(t *testing.T) {
	b := newBench(t)
	first := b.start("one")
	second := b.launch("one")
	if status := second.wait(); status != exitFailed {
		t.Errorf("a second daemon of the same name ends with status %d", status)
	}
	if want := fmt.Sprintf("polycubed instance one is already running (pid %d)", os.Getpid()); !strings.Contains(second.errs.String(), want) {
		t.Errorf("it says %q, want %q", second.errs.String(), want)
	}
	other := b.start("two")
	first.must(201, "POST", "/echo/e1", "")
	if got := other.must(200, "GET", "/cubes", ""); got != "{}" {
		t.Errorf("the other instance shows %s", got)
	}
	other.must(201, "POST", "/echo/e1", "")
	if status := first.end(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	other.must(200, "GET", "/echo/e1", "")
	if status := other.end(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestNestedState: an instance keeps its configuration within the state directory of the
// main daemon, whichever of them starts first.
func TestNestedState(t *testing.T) {
	for _, order := range [][]string{{"main", "two"}, {"two", "main"}} {
		b := newBench(t)
		state := map[string]string{"main": filepath.Join(b.dir, "state"), "two": filepath.Join(b.dir, "state", "two")}
		for round := range 2 {
			running := map[string]*process{}
			for _, name := range order {
				running[name] = b.start(name, "--state-dir", state[name])
				if round == 0 {
					running[name].must(201, "POST", "/echo/of-"+name, "")
				}
			}
			for name, p := range running {
				if got := p.must(200, "GET", "/cubes", ""); strings.Count(got, `"uuid"`) != 1 || !strings.Contains(got, "of-"+name) {
					t.Errorf("%v, round %d: %s has %s", order, round, name, got)
				}
				if status := p.end(); status != 0 {
					t.Errorf("%v, round %d: %s ends with status %d", order, round, name, status)
				}
			}
		}
	}
}

// TestSignalsWhileRunning: SIGHUP opens the log anew.
func TestSignalsWhileRunning(t *testing.T) {
	b := newBench(t)
	log := filepath.Join(b.dir, "polycubed.log")
	p := b.start("main", "--logfile", log)
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	p.hup <- unix.SIGHUP
	p.eventually("a new log file", func() bool {
		_, err := os.Stat(log)
		return err == nil
	})
	p.end()
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "[polycubed] [info] stopping cause=") {
		t.Errorf("the new log holds %q, %v", text, err)
	}
}

// TestTCP: with a port, TCP is served with the token of the run directory.
func TestTCP(t *testing.T) {
	b := newBench(t)
	p := b.start("main", "--port", "0")
	var addr string
	for _, line := range strings.Split(p.errs.String(), "\n") {
		if _, after, ok := strings.Cut(line, "listening address=127.0.0.1:"); ok {
			addr = "127.0.0.1:" + after
		}
	}
	token, err := os.ReadFile(filepath.Join(b.dir, "main/run/token"))
	if err != nil || addr == "" {
		t.Fatalf("address %q, token %v", addr, err)
	}
	for header, want := range map[string]int{"": 401, "Bearer " + strings.TrimSpace(string(token)): 201} {
		req, err := http.NewRequest("POST", "http://"+addr+"/polycube/v1/echo/e1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != want {
			t.Errorf("with %q: status %d, want %d", header, resp.StatusCode, want)
		}
	}
	p.end()
}

// TestCleanup removes what a stopped daemon left, and refuses while one runs.
func TestCleanup(t *testing.T) {
	b := newBench(t)
	p := b.start("main")
	var out, errs output.Buffer
	if status := command(t.Context(), append([]string{"cleanup"}, b.args("main")...), b.parts, &out, &errs, nil); status != exitFailed || !strings.Contains(errs.String(), "already running") {
		t.Errorf("cleanup of a running daemon: status %d, %q", status, errs.String())
	}
	if b.plane.cleaned.Load() {
		t.Error("it cleaned all the same")
	}
	p.end()
	out, errs = output.Buffer{}, output.Buffer{}
	if status := command(t.Context(), append([]string{"cleanup"}, b.args("main")...), b.parts, &out, &errs, nil); status != 0 || !b.plane.cleaned.Load() {
		t.Errorf("cleanup: status %d, cleaned %v, %q", status, b.plane.cleaned.Load(), errs.String())
	}
	if !strings.Contains(out.String(), "removed everything of polycubed instance main") {
		t.Errorf("it says %q", out.String())
	}
}

// TestCleanupSparesFiles: a path given by mistake costs nobody a file.
func TestCleanupSparesFiles(t *testing.T) {
	b := newBench(t)
	precious := filepath.Join(b.dir, "precious")
	if err := os.WriteFile(precious, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--socket", precious}, {"--pidfile", precious}, {"--bpffs", b.dir}} {
		var out, errs output.Buffer
		status := command(t.Context(), append([]string{"cleanup"}, b.args("main", args...)...), b.parts, &out, &errs, nil)
		if text, err := os.ReadFile(precious); err != nil || string(text) != "notes" {
			t.Fatalf("cleanup %v removed a file: %v", args, err)
		}
		if args[0] != "--bpffs" && (status != exitFailed || !strings.Contains(errs.String(), "not removed")) {
			t.Errorf("cleanup %v: status %d, %q", args, status, errs.String())
		}
	}
}
