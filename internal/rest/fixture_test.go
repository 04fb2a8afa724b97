// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/test/output"
)

// The tests run against the real manager and real models; only the kernel is made up.

//go:embed testdata/lab.yang
var labModel string

//go:embed testdata/tap.yang
var tapModel string

// noKernel is a data plane that accepts everything.
type noKernel struct{}

type noChange struct{}

func (noChange) Commit() error { return nil }
func (noChange) Abort()        {}

func (noKernel) CreateCube(datapath.Spec) error                                       { return nil }
func (noKernel) DeleteCube(datapath.CubeID) error                                     { return nil }
func (noKernel) HoldCube(datapath.Spec) error                                         { return cube.ErrNotFound }
func (noKernel) ResizeMaps(datapath.CubeID, map[string]uint32) (func() error, error)  { return nil, nil }
func (noKernel) Keep(string)                                                          {}
func (noKernel) Floods(datapath.CubeID) map[uint32][]cube.FloodMember                 { return nil }
func (noKernel) SetFloods(datapath.CubeID, map[uint32][]cube.FloodMember, bool) error { return nil }
func (noKernel) Forget(string) error                                                  { return nil }
func (noKernel) Origin(datapath.CubeID, string) (origins.Origin, error)               { return 0, cube.ErrNotFound }
func (noKernel) Inner(datapath.CubeID, string) (*ebpf.MapSpec, error)                 { return nil, cube.ErrNotFound }
func (noKernel) Status(datapath.CubeID) datapath.CubeStatus {
	return datapath.CubeStatus{
		Mode: "inline", Segment: 2, Segments: 3, Cubes: 4, Alike: 2, Instructions: 77, Verified: 99, Stack: 208,
		OwnInstructions: 40, OwnStack: 96, Load: 5 * time.Millisecond,
		Programs: []datapath.ProgramStatus{{Hook: cube.TC, Role: "in", Instructions: 77, Verified: 99, Stack: 208}},
	}
}
func (noKernel) CheckObject(string, map[cube.Hook][]byte) error { return nil }
func (noKernel) AddObjects(string, map[cube.Hook][]byte)        {}
func (noKernel) Try(_ context.Context, t datapath.Trial) (datapath.TrialReport, error) {
	return datapath.TrialReport{Programs: 12, Same: 3, Combinations: 4, Untried: 5, Verified: 6789, Took: 1234 * time.Millisecond}, nil
}
func (noKernel) Send(datapath.CubeID, bool, *cube.PacketOut) error { return nil }
func (noKernel) Map(datapath.CubeID, string) (*ebpf.Map, error)    { return nil, cube.ErrNotFound }
func (noKernel) Prepare(context.Context, *datapath.Graph) (topology.Change, error) {
	return noChange{}, nil
}
func (noKernel) PortCounters(slot uint16) (datapath.PortCounters, error) {
	return datapath.PortCounters{RxPackets: 10, RxBytes: 1000, TxPackets: 3, TxBytes: 300}, nil
}
func (noKernel) Fates(datapath.CubeID) ([]datapath.Fate, error) {
	return []datapath.Fate{{Name: "pass", Packets: 5}, {Name: "no-peer", Drop: true, Packets: 7}}, nil
}

// madeUpNetdevs are veth1 and veth2, up, and down0, down.
type madeUpNetdevs struct{}

func (madeUpNetdevs) List() ([]netdev.Info, error) {
	return []netdev.Info{
		{Name: "veth1", Index: 7, Up: true, Kind: "veth", MTU: 1500, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
		{Name: "veth2", Index: 8, Up: true, Kind: "veth", MTU: 1500},
		{Name: "down0", Index: 9, Kind: "veth", MTU: 1500},
	}, nil
}

func (n madeUpNetdevs) Get(name string) (netdev.Info, error) {
	all, err := n.List()
	for _, i := range all {
		if i.Name == name {
			return i, err
		}
	}
	return netdev.Info{}, fmt.Errorf("netdev %s: %w", name, netdev.ErrNotFound)
}

func (n madeUpNetdevs) Status(name string) (netdev.Status, error) {
	info, err := n.Get(name)
	return netdev.Status{Index: info.Index, MAC: info.MAC}, err
}

func (madeUpNetdevs) TakesRedirects(string) (netdev.Readiness, error) {
	return netdev.Readiness{OK: true}, nil
}

func (madeUpNetdevs) Put(int, netdev.Settings) error { return nil }

// accepts accepts every configuration.
func accepts(context.Context, cube.Change) (cube.Plan, error) { return cube.Plan{}, nil }

// labCube has one packet to show.
type labCube struct{}

func newLabCube(cube.Env) (cube.Instance, error) {
	var c labCube
	return cube.Instance{Prepare: accepts, State: c.State, Action: c.Action}, nil
}

func (labCube) State(context.Context, []string) (any, error) {
	return map[string]any{"seen": uint64(1) << 60}, nil
}

func (labCube) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if path[0] == "route-find" {
		return cube.ActionResult{Output: map[string]any{"found": string(input)}}, nil
	}
	return cube.ActionResult{Output: map[string]any{"flushed": true}}, nil
}

func newTap(cube.Env) (cube.Instance, error) { return cube.Instance{Prepare: accepts}, nil }

// newManager makes a real manager of the services lab and tap.
func newManager(t testing.TB) *topology.Manager { return newManagerWith(t, nil) }

// newManagerWith makes one that tells what happens.
func newManagerWith(t testing.TB, log *events.Log) *topology.Manager {
	t.Helper()
	objects := map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {1}}
	m, err := topology.New(topology.Options{
		Datapath: noKernel{}, Netdevs: madeUpNetdevs{}, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Events: log, Host: lodging{},
		Services: []cube.Service{
			{Model: labModel, Objects: objects, New: newLabCube},
			{Model: tapModel, Objects: objects, New: newTap},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("closing the manager: %v", err)
		}
	})
	return m
}

// lab is a server on a Unix socket, and on TCP when asked for.
type lab struct {
	server *Server
	log    *output.Buffer
	socket string
	client *http.Client
	// tcp is "127.0.0.1:PORT", "" without TCP; tls is that of TLS.
	tcp, tls string
}

// newLab serves a manager, the real one when m is nil.
func newLab(t testing.TB, o Options, tcp bool) *lab {
	t.Helper()
	return newTunedLab(t, o, tcp, func(*Server) {})
}

// newTunedLab is newLab with a server that is changed before it serves.
func newTunedLab(t testing.TB, o Options, tcp bool, tune func(*Server)) *lab {
	t.Helper()
	if o.Manager == nil {
		o.Manager = newManager(t)
	}
	l := &lab{log: &output.Buffer{}, socket: filepath.Join(t.TempDir(), "api.sock")}
	o.Logger = slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if o.Version == "" {
		o.Version = "1.2.3"
	}
	l.server = New(o)
	tune(l.server)
	unixListener, err := front.ListenUnix(l.socket)
	if err != nil {
		t.Fatal(err)
	}
	listeners := []net.Listener{unixListener}
	if tcp {
		tcpListener, err := front.ListenTCP("localhost", 0)
		if err != nil {
			t.Fatal(err)
		}
		l.tcp = tcpListener.Addr().String()
		listeners = append(listeners, tcpListener)
	}
	if o.ReadGroup != "" {
		readListener, err := front.ListenGroup(l.socket+"-read", o.ReadGroup, true)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, readListener)
	}
	if o.TLS != nil {
		tlsListener, err := front.ListenTLS("localhost", 0, o.TLS)
		if err != nil {
			t.Fatal(err)
		}
		l.tls = tlsListener.Addr().String()
		listeners = append(listeners, tlsListener)
	}
	var done sync.WaitGroup
	for _, x := range listeners {
		done.Go(func() {
			if err := l.server.Serve(x); err != nil {
				t.Errorf("serving: %v", err)
			}
		})
	}
	l.client = &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", l.socket)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		l.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
		defer cancel()
		if err := l.server.Shutdown(ctx); err != nil {
			t.Errorf("shutting down: %v", err)
		}
		done.Wait()
	})
	return l
}

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request over the Unix socket; path is behind the base path.
func (l *lab) do(t testing.TB, method, path, body string) answer {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://daemon"+message.BasePath+path, r)
	if err != nil {
		t.Fatal(err)
	}
	return l.send(t, l.client, req)
}

func (l *lab) send(t testing.TB, c *http.Client, req *http.Request) answer {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: reading the answer: %v", req.Method, req.URL, err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// must sends a request that has to end in a status.
func (l *lab) must(t testing.TB, status int, method, path, body string) answer {
	t.Helper()
	a := l.do(t, method, path, body)
	if a.status != status {
		t.Fatalf("%s %s %s: status %d, want %d: %s", method, path, body, a.status, status, a.body)
	}
	return a
}

// fault decodes the first error of a response and checks its shape.
func (a answer) fault(t testing.TB) message.ErrorEntry {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != message.ContentType {
		t.Errorf("an error has content type %q, want %q (%s)", got, message.ContentType, a.body)
	}
	var body message.ErrorBody
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || len(body.Errors.Error) == 0 {
		t.Fatalf("not an error body: %v: %s", err, a.body)
	}
	e := body.Errors.Error[0]
	if e.Type == "" || e.Tag == "" || e.Message == "" {
		t.Errorf("an error without type, tag or message: %s", a.body)
	}
	return e
}
