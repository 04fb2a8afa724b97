// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology"
)

const echoModel = `module echo {
  yang-version 1.1; namespace "http://polycube.network/echo"; prefix echo;
  import polycube-base { prefix polycube-base; }
  import polycube-standard-base { prefix polycube-standard-base; }
  polycube-base:service-name "echo"; polycube-base:service-description "A test"; polycube-base:service-version "1.0.0";
  uses polycube-standard-base:standard-base-yang-module;
  leaf level { type uint8; default 1; }
}`

// patience bounds every wait of these tests.
const patience = 10 * time.Second

// fakePlane is a data plane without a kernel; it remembers how it ended.
type fakePlane struct{ closed, cleaned atomic.Bool }

type fakeChange struct{}

func (fakeChange) Commit() error { return nil }
func (fakeChange) Abort()        {}

func (*fakePlane) CreateCube(datapath.Spec) error                         { return nil }
func (*fakePlane) DeleteCube(datapath.CubeID) error                       { return nil }
func (*fakePlane) Map(datapath.CubeID, string) (*ebpf.Map, error)         { return nil, cube.ErrNotFound }
func (*fakePlane) PortCounters(uint16) (c datapath.PortCounters, _ error) { return c, nil }
func (*fakePlane) Fates(datapath.CubeID) ([]datapath.Fate, error)         { return nil, nil }
func (*fakePlane) Status(datapath.CubeID) (s datapath.CubeStatus)         { return s }
func (*fakePlane) CheckObject(string, map[cube.Hook][]byte) error         { return nil }
func (*fakePlane) Send(datapath.CubeID, bool, *cube.PacketOut) error      { return nil }
func (p *fakePlane) Close() error                                         { p.closed.Store(true); return nil }
func (p *fakePlane) Cleanup() error                                       { p.cleaned.Store(true); return nil }
func (*fakePlane) Prepare(context.Context, *datapath.Graph) (topology.Change, error) {
	return fakeChange{}, nil
}

type echo struct{}

func (echo) Prepare(context.Context, json.RawMessage, json.RawMessage) (cube.Plan, error) {
	return cube.Plan{}, nil
}

// bench is a place where daemons of one test run.
type bench struct {
	t     *testing.T
	dir   string
	plane *fakePlane
	parts parts
	// slowStopped tells that the slow path ended before the plane.
	slowStopped atomic.Bool
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), plane: &fakePlane{}}
	b.parts = parts{
		services: func() []cube.Service {
			return []cube.Service{{Model: echoModel, Objects: map[cube.Hook][]byte{cube.TC: {1}},
				New: func(cube.Env) (cube.Instance, error) { return echo{}, nil }}}
		},
		openPlane: func(planeOptions) (plane, error) { return b.plane, nil },
		startSlowPath: func(context.Context, plane, *topology.Manager, *slog.Logger) (func() error, error) {
			return func() error {
				b.slowStopped.Store(!b.plane.closed.Load() && !b.plane.cleaned.Load())
				return nil
			}, nil
		},
		watch: func(ctx context.Context, _ func(netdev.Event)) error {
			<-ctx.Done()
			return ctx.Err()
		},
		ensureBPFFS: func(string) error { return nil },
	}
	return b
}

// args are a command line that touches nothing outside of the bench.
func (b *bench) args(instance string, more ...string) []string {
	dir := filepath.Join(b.dir, instance)
	return append([]string{"--configfile", emptyFile(b.t), "--instance", instance, "--run-dir", dir + "/run", "--state-dir", dir + "/state",
		"--bpffs", dir + "/bpf"}, more...)
}

// process is a daemon that runs.
type process struct {
	t      *testing.T
	socket string
	stop   context.CancelFunc
	hup    chan os.Signal
	out    *safeBuffer
	errs   *safeBuffer
	status chan int
}

// safeBuffer is output that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs a daemon until its ready line.
func (b *bench) start(instance string, more ...string) *process {
	b.t.Helper()
	p := b.launch(instance, more...)
	p.eventually("the ready line", func() bool { return strings.Contains(p.out.String(), "polycubed ready\n") })
	return p
}

func (b *bench) launch(instance string, more ...string) *process {
	b.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &process{t: b.t, socket: filepath.Join(b.dir, instance, "run", "polycubed.sock"), stop: stop, hup: make(chan os.Signal, 1),
		out: &safeBuffer{}, errs: &safeBuffer{}, status: make(chan int, 1)}
	args := b.args(instance, more...)
	go func() { p.status <- command(ctx, args, b.parts, p.out, p.errs, p.hup) }()
	b.t.Cleanup(stop)
	return p
}

func (p *process) eventually(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s did not come; output %q, errors %q", what, p.out.String(), p.errs.String())
		}
		select {
		case status := <-p.status:
			p.t.Fatalf("the daemon ended with status %d before %s; errors %q", status, what, p.errs.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// end stops the daemon and returns its exit status.
func (p *process) end() int {
	p.t.Helper()
	p.stop()
	return p.wait()
}

func (p *process) wait() int {
	p.t.Helper()
	select {
	case status := <-p.status:
		return status
	case <-time.After(2 * patience):
		p.t.Fatalf("the daemon does not end; errors %q", p.errs.String())
		return -1
	}
}

// request sends one request over the socket.
func (p *process) request(method, path, body string) (int, string, error) {
	c := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
		}}}
	req, err := http.NewRequest(method, "http://daemon/polycube/v1"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (p *process) must(status int, method, path, body string) string {
	p.t.Helper()
	got, text, err := p.request(method, path, body)
	if err != nil || got != status {
		p.t.Fatalf("%s %s: status %d, %v, want %d: %s", method, path, got, err, status, text)
	}
	return text
}

// TestLife: a daemon starts, serves, keeps its configuration over a restart, and leaves
// the kernel alone when it stops.
func TestLife(t *testing.T) {
	b := newBench(t)
	p := b.start("main")
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
		{"the address", "not loopback", []string{"--addr", "0.0.0.0"}, func(*bench) {}},
		{"the log", "opening the log", []string{"--logfile", "/dev/null/x"}, func(*bench) {}},
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
			var out, errs safeBuffer
			if status := command(ctx, b.args("main"), b.parts, &out, &errs, nil); status != 0 {
				t.Errorf("exit status %d: %s", status, errs.String())
			}
			if out.String() != "" || !strings.Contains(errs.String(), "told to stop while starting") {
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
	if want := fmt.Sprintf("polycubed instance one runs already (pid %d)", os.Getpid()); !strings.Contains(second.errs.String(), want) {
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
	if err != nil || !strings.Contains(string(text), "[polycubed] [info] stopping") {
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
	var out, errs safeBuffer
	if status := command(t.Context(), append([]string{"cleanup"}, b.args("main")...), b.parts, &out, &errs, nil); status != exitFailed || !strings.Contains(errs.String(), "runs already") {
		t.Errorf("cleanup of a running daemon: status %d, %q", status, errs.String())
	}
	if b.plane.cleaned.Load() {
		t.Error("it cleaned all the same")
	}
	p.end()
	out, errs = safeBuffer{}, safeBuffer{}
	if status := command(t.Context(), append([]string{"cleanup"}, b.args("main")...), b.parts, &out, &errs, nil); status != 0 || !b.plane.cleaned.Load() {
		t.Errorf("cleanup: status %d, cleaned %v, %q", status, b.plane.cleaned.Load(), errs.String())
	}
	if !strings.Contains(out.String(), "nothing of polycubed instance main is left") {
		t.Errorf("it says %q", out.String())
	}
}

// TestNotify: a service manager is told when the daemon is ready and when it stops.
func TestNotify(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.dir, "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	b.start("main").end()
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Errorf("told %q, %v, want %q", buf[:n], err, want)
		}
	}
}

// TestToken: it is private, survives a restart, and is not taken from a file that others
// could read or that is not ours to trust.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	first, err := loadToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 || len(first) != 2*tokenBytes {
		t.Fatalf("mode %v, %v, token %q", info.Mode(), err, first)
	}
	if again, err := loadToken(dir); err != nil || again != first {
		t.Errorf("a restart has token %q, %v, want %q", again, err, first)
	}
	for name, spoil := range map[string]func() error{
		"others can read it":     func() error { return os.Chmod(path, 0o644) },
		"the group can write it": func() error { return os.Chmod(path, 0o660) },
		"it is short":            func() error { return os.Truncate(path, 10) },
		"it is no token":         func() error { return os.WriteFile(path, bytes.Repeat([]byte{'x'}, 100), 0o600) },
		"it is a link": func() error {
			return errors.Join(os.Rename(path, path+".elsewhere"), os.Symlink(path+".elsewhere", path))
		},
	} {
		before, err := loadToken(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		after, err := loadToken(dir)
		if err != nil || after == before {
			t.Errorf("%s: the token stays %q, %v", name, after, err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != 0o640 {
			t.Errorf("%s: the new file has mode %v, %v", name, info.Mode(), err)
		}
	}
}
