// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pace"
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
var patience = pace.Stretch(10 * time.Second)

// fakePlane is a data plane without a kernel; it remembers how it ended.
type fakePlane struct{ closed, cleaned atomic.Bool }

type fakeChange struct{}

func (fakeChange) Commit() error { return nil }
func (fakeChange) Abort()        {}

func (*fakePlane) CreateCube(datapath.Spec) error                         { return nil }
func (*fakePlane) DeleteCube(datapath.CubeID) error                       { return nil }
func (*fakePlane) Map(datapath.CubeID, string) (*ebpf.Map, error)         { return nil, cube.ErrNotFound }
func (*fakePlane) Origin(datapath.CubeID, string) (origins.Origin, error) { return 0, cube.ErrNotFound }
func (*fakePlane) Inner(datapath.CubeID, string) (*ebpf.MapSpec, error)   { return nil, cube.ErrNotFound }
func (*fakePlane) HoldCube(datapath.Spec) error                           { return cube.ErrNotFound }
func (*fakePlane) ResizeMaps(datapath.CubeID, map[string]uint32) (func() error, error) {
	return nil, nil
}
func (*fakePlane) Keep(string)                                                          {}
func (*fakePlane) Floods(datapath.CubeID) map[uint32][]cube.FloodMember                 { return nil }
func (*fakePlane) SetFloods(datapath.CubeID, map[uint32][]cube.FloodMember, bool) error { return nil }
func (*fakePlane) Forget(string) error                                                  { return nil }
func (*fakePlane) PortCounters(uint16) (c datapath.PortCounters, _ error)               { return c, nil }
func (*fakePlane) Fates(datapath.CubeID) ([]datapath.Fate, error)                       { return nil, nil }
func (*fakePlane) Status(datapath.CubeID) (s datapath.CubeStatus)                       { return s }
func (*fakePlane) CheckObject(string, map[cube.Hook][]byte) error                       { return nil }
func (*fakePlane) AddObjects(string, map[cube.Hook][]byte)                              {}
func (*fakePlane) Try(context.Context, datapath.Trial) (r datapath.TrialReport, _ error) {
	return r, nil
}
func (*fakePlane) Send(datapath.CubeID, bool, *cube.PacketOut) error { return nil }
func (p *fakePlane) Close() error                                    { p.closed.Store(true); return nil }
func (p *fakePlane) Cleanup() error                                  { p.cleaned.Store(true); return nil }
func (*fakePlane) Prepare(context.Context, *datapath.Graph) (topology.Change, error) {
	return fakeChange{}, nil
}

func echo(cube.Env) (cube.Instance, error) {
	return cube.Instance{Prepare: func(context.Context, cube.Change) (cube.Plan, error) { return cube.Plan{}, nil }}, nil
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
				New: echo}}
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
	out    *output.Buffer
	errs   *output.Buffer
	status chan int
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
		out: &output.Buffer{}, errs: &output.Buffer{}, status: make(chan int, 1)}
	args := b.args(instance, more...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.status <- command(ctx, args, b.parts, p.out, p.errs, p.hup)
	}()
	b.t.Cleanup(func() { // the next test may look at what this one's daemon says as it ends
		stop()
		select {
		case <-ended:
		case <-time.After(2 * patience):
			b.t.Errorf("the daemon does not end; errors %q", p.errs.String())
		}
	})
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
