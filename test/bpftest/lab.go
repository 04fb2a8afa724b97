// SPDX-License-Identifier: Apache-2.0

// Package bpftest runs packets through cubes linked as in the daemon: the real topology, data plane and linker, in a
// network namespace and a bpffs of the test's own, without REST and without waiting. A test connects cubes to the hosts
// of a lab, runs the program of a netdev on a frame (BPF_PROG_TEST_RUN) and compares the result: verdict, bytes,
// counters and fates.
package bpftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/clang"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

// Options of a Lab.
type Options struct {
	// Type is the type of the cubes that Create creates; TC if empty.
	Type cube.Type
	// Mode is how they are linked; inline if empty.
	Mode datapath.Mode
	// Hosts is the number of hosts: veth1, veth2 ...; 3 if 0.
	Hosts int
	// Host are options of the hosts.
	Host []netns.Option
	// Follow notifies the topology of events of netdevs and their addresses, as the daemon does.
	Follow bool
	// VLANs are netdevs that the topology takes for VLAN netdevs, with Follow. They are real ones, so routes lead to them.
	VLANs map[string]VLAN
	// Services that can be made; those that are registered when nil.
	Services []cube.Service
	// ServicesIn returns the services instead, for cubes whose code enters the lab's namespace (Lab.Do) when it is created.
	ServicesIn func(l *Lab) []cube.Service
	// Old disables all optional features of the kernel (internal/kernel).
	Old bool
	// Clsact attaches programs at TC as filters, as on kernels before 6.6.
	Clsact bool
	// Shadow lets cubes have namespaces.
	Shadow bool
}

// Lab is a daemon without REST: a topology on a data plane, and hosts to wire cubes to.
type Lab struct {
	*netns.Lab
	Type cube.Type
	// Hosts have no addresses; the end of host i in the lab is veth<i+1>.
	Hosts []*netns.Node

	t    testing.TB
	opts Options
	dir  string // on the bpffs
	conf string // directory of the store
	// newest is the name of the cube that was made last.
	newest string
	logs   *output.Buffer

	taps    taps
	loop    datapath.Loop
	plane   *plane
	shadows *shadows
	manager *topology.Manager
	// undo reverses what start started, last first.
	undo []func() error
}

// New creates a lab. Everything is removed when the test ends. It skips the test if not root.
func New(t testing.TB, o Options) *Lab {
	t.Helper()
	if o.Type == "" {
		o.Type = cube.TypeTC
	}
	if o.Mode == "" {
		o.Mode = datapath.ModeInline
	}
	if o.Hosts == 0 {
		o.Hosts = 3
	}
	if o.Services == nil {
		o.Services = cube.Services()
	}
	l := &Lab{Lab: netns.NewLab(t), Type: o.Type, t: t, opts: o, logs: &output.Buffer{}, conf: t.TempDir()}
	if o.ServicesIn != nil {
		l.opts.Services = o.ServicesIn(l)
	}
	for i := range o.Hosts {
		l.Hosts = append(l.Hosts, l.Host(fmt.Sprintf("veth%d", i+1), "", o.Host...))
	}
	l.dir = filepath.Join(netns.Bpffs(t), "polycube")
	l.Must(func() (err error) { l.taps, l.loop, err = openHelpers(l); return err })
	t.Cleanup(func() {
		l.Must(func() error {
			if l.plane != nil {
				l.plane.clean = true
			}
			return l.stop()
		})
		l.plane, l.manager, l.shadows = nil, nil, nil // package testing keeps everything that cleanups refer to until all tests have ended
	})
	l.Must(l.start)
	return l
}

// start does what a daemon does at its start.
func (l *Lab) start() error {
	logger := slog.New(slog.NewTextHandler(l.logs, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	var features *kernel.Features
	if l.opts.Old {
		features = &kernel.Features{}
	}
	p, err := datapath.Open(datapath.Options{
		Dir: l.dir, Instance: filepath.Base(filepath.Dir(l.dir)), Logger: logger, Mode: l.opts.Mode, Clsact: l.opts.Clsact,
		Kernel: features, Taps: l.taps.indexes(), Loop: l.loop, NoSpares: true,
	})
	if err != nil {
		return err
	}
	l.plane = &plane{Plane: p, ids: map[string]datapath.CubeID{}, taps: l.taps, typ: l.Type, in: l}
	l.undo = append(l.undo, l.plane.end)
	if err := l.taps.attach(p); err != nil {
		return err
	}
	ring, err := l.openRing()
	if err != nil {
		return err
	}
	st, state, err := store.Open(store.Options{Dir: l.conf})
	if err != nil {
		return err
	}
	l.undo = append(l.undo, st.Close)
	o := topology.Options{Datapath: l.plane, Store: st, State: state, Services: l.opts.Services, Logger: logger, Events: events.New("lab", 0),
		Compile: clang.New(clang.Options{RunDir: l.conf, Log: logger}).Compile}
	if l.opts.Shadow {
		if err := l.openShadows(logger); err != nil {
			return err
		}
		o.Shadows = l.shadows
	}
	if l.manager, err = topology.New(o); err != nil {
		return err
	}
	l.undo = append(l.undo, func() error { return l.manager.Close(context.Background()) })
	l.undo = append(l.undo, startUp(l, ring))
	if l.opts.Follow {
		l.undo = append(l.undo, l.follow())
	}
	return nil
}

// follow notifies the topology of the namespace's netdevs, and returns when it knows the existing ones.
func (l *Lab) follow() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended, synced := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- l.Do(func() error {
			return netdev.Watch(ctx, func(e netdev.Event) {
				l.pretend(&e.Info)
				l.manager.NetdevEvent(e)
				if e.Kind == netdev.Synced {
					close(synced)
				}
			})
		})
	}()
	<-synced
	return func() error { cancel(); return <-ended }
}

// stop does what a daemon does when it stops: traffic continues.
func (l *Lab) stop() error {
	var errs []error
	for _, end := range slices.Backward(l.undo) {
		errs = append(errs, end())
	}
	l.undo = nil
	return errors.Join(errs...)
}

// Restart ends the daemon and starts it again. Meanwhile is run in between, if it is not nil.
func (l *Lab) Restart(meanwhile func()) {
	l.t.Helper()
	l.Must(l.stop)
	if meanwhile != nil {
		meanwhile()
	}
	l.Must(l.start)
}

// Each runs a test at each hook and in each mode of linking: the behaviour of a cube must not depend on either.
func Each(t *testing.T, o Options, test func(t *testing.T, l *Lab)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, mode := range []datapath.Mode{datapath.ModeCall, datapath.ModeInline} {
			t.Run(strings.ToLower(string(typ))+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				o := o
				o.Type, o.Mode = typ, mode
				test(t, New(t, o))
			})
		}
	}
}

// plane is the data plane with the topology's interface, which remembers the cubes' numbers.
type plane struct {
	*datapath.Plane
	taps taps
	typ  cube.Type
	in   netns.Doer

	mu    sync.Mutex
	ids   map[string]datapath.CubeID
	graph *datapath.Graph // the last that was prepared
	// ports are the names of the cubes' ports, as they were read since then.
	ports map[string][]string
	// clean makes end remove everything.
	clean bool
}

func (p *plane) end() error {
	if p.clean {
		return p.Cleanup()
	}
	return p.Close()
}

func (p *plane) CreateCube(s datapath.Spec) error {
	p.mu.Lock()
	p.ids[s.Name] = s.ID
	p.mu.Unlock()
	return p.Plane.CreateCube(s)
}

// AddObjects parses the objects at once, so that the times of attachments do not include it. What is wrong with objects is
// known when a cube needs them.
func (p *plane) AddObjects(service string, objects map[cube.Hook][]byte) {
	if p.CheckObject(service, objects) != nil {
		p.Plane.AddObjects(service, objects)
	}
}

func (p *plane) id(name string) datapath.CubeID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[name]
}

// Prepare has the type that the topology declares.
func (p *plane) Prepare(ctx context.Context, g *datapath.Graph) (topology.Change, error) {
	p.mu.Lock()
	p.graph, p.ports = g, nil
	p.mu.Unlock()
	return p.Plane.Prepare(ctx, g)
}

// Logs returns the lines logged so far, by the topology, the data plane and the cubes.
func (l *Lab) Logs() string { return l.logs.String() }

// Events returns the messages of the events since the last start, of a type.
func (l *Lab) Events(of events.Type) (messages []string) {
	l.t.Helper()
	r, err := l.manager.Events().Follow("other-0")
	if err != nil {
		l.t.Fatal(err)
	}
	all, _ := r.Next(1 << 20)
	for _, e := range all {
		if e.Type == of {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// Create creates a cube of the lab's type. body is JSON, "" for defaults.
func (l *Lab) Create(service, name, body string) {
	l.t.Helper()
	if err := l.TryCreate(service, name, body); err != nil {
		l.t.Fatalf("%s add %s: %v", service, name, err)
	}
}

// TryCreate is Create for requests that may be refused.
func (l *Lab) TryCreate(service, name, body string) error {
	body = strings.TrimSpace(body)
	if inner := strings.TrimSpace(strings.TrimPrefix(body, "{")); body == "" || inner == "}" {
		body = fmt.Sprintf(`{"type":%q}`, l.Type)
	} else {
		body = fmt.Sprintf(`{"type":%q,%s`, l.Type, inner)
	}
	err := l.Do(func() error { return l.manager.Create(l.t.Context(), service, name, []byte(body)) })
	if err == nil {
		l.newest = name
	}
	return err
}

// CreateAll creates cubes in one change, so that one program is verified: an array as for /cubes, without types.
func (l *Lab) CreateAll(cubes string) {
	l.t.Helper()
	var list []map[string]any
	if err := json.Unmarshal([]byte(cubes), &list); err != nil {
		l.t.Fatalf("%s: %v", cubes, err)
	}
	for _, c := range list {
		c["type"] = l.Type
		l.newest, _ = c["name"].(string)
	}
	body, err := json.Marshal(list)
	if err == nil {
		err = l.Do(func() error { return l.manager.CreateMany(l.t.Context(), body) })
	}
	if err != nil {
		l.t.Fatalf("adding %s: %v", cubes, err)
	}
}

// Newest is the name of the cube that was made last.
func (l *Lab) Newest() string { return l.newest }

// Set changes the configuration: a REST method (POST, PUT, PATCH, DELETE) on the path in words, such as "br1 fdb
// aging-time".
func (l *Lab) Set(method, words, body string) {
	l.t.Helper()
	if err := l.Try(method, words, body); err != nil {
		l.t.Fatalf("%s %s %s: %v", method, words, body, err)
	}
}

// Try is Set for requests that may be refused.
func (l *Lab) Try(method, words, body string) error {
	op, ok := map[string]yang.Op{"POST": yang.Create, "PUT": yang.Replace, "PATCH": yang.Merge, "DELETE": yang.Delete}[method]
	if !ok {
		return fmt.Errorf("method %s: %w", method, cube.ErrInvalid)
	}
	name, service, path, err := l.resolve(words)
	if err != nil {
		return err
	}
	return l.Do(func() error { return l.manager.Edit(l.t.Context(), service, name, op, path, []byte(body)) })
}

// Connect wires two ports, or a port to a netdev.
func (l *Lab) Connect(a, b string) {
	l.t.Helper()
	if err := l.Do(func() error { return l.manager.Connect(l.t.Context(), a, b) }); err != nil {
		l.t.Fatalf("connect %s %s: %v", a, b, err)
	}
}

// Attach attaches a transparent cube to a port (CUBE:PORT) or a netdev, as the outermost there.
func (l *Lab) Attach(name, to string) {
	l.t.Helper()
	if err := l.TryAttach(name, to); err != nil {
		l.t.Fatalf("attach %s %s: %v", name, to, err)
	}
}

// TryAttach is Attach for what may be refused.
func (l *Lab) TryAttach(name, to string) error {
	r := topology.AttachRequest{Cube: name, Port: to, Position: "last"}
	return l.Do(func() error { return l.manager.Attach(l.t.Context(), r) })
}

// Detach detaches a transparent cube from its port or netdev.
func (l *Lab) Detach(name, from string) {
	l.t.Helper()
	if err := l.Do(func() error { return l.manager.Detach(l.t.Context(), name, from) }); err != nil {
		l.t.Fatalf("detach %s %s: %v", name, from, err)
	}
}

// Read returns a part of a cube as JSON.
func (l *Lab) Read(words string) string {
	l.t.Helper()
	text, err := l.TryRead(words)
	if err != nil {
		l.t.Fatalf("show %s: %v", words, err)
	}
	return text
}

// TryRead is Read for nodes that may be missing.
func (l *Lab) TryRead(words string) (string, error) {
	name, service, path, err := l.resolve(words)
	if err != nil {
		return "", err
	}
	text, err := l.manager.Read(l.t.Context(), service, name, path)
	return string(text), err
}

// Action runs an action, such as "br1 fdb flush", and returns its output.
func (l *Lab) Action(words, input string) string {
	l.t.Helper()
	output, err := l.TryAction(words, input)
	if err != nil {
		l.t.Fatalf("%s: %v", words, err)
	}
	return output
}

// TryAction is Action for requests that may be refused.
func (l *Lab) TryAction(words, input string) (output string, err error) {
	name, service, path, err := l.resolve(words)
	if err != nil {
		return "", err
	}
	err = l.Do(func() error {
		raw, err := l.manager.Action(l.t.Context(), service, name, path, []byte(input))
		output = string(raw)
		return err
	})
	return output, err
}

func (l *Lab) resolve(words string) (name, service string, path yang.Path, err error) {
	list := strings.Fields(words)
	service, ok := l.manager.ServiceOf(list[0])
	if !ok {
		return "", "", nil, fmt.Errorf("cube %s: %w", list[0], cube.ErrNotFound)
	}
	schema, err := l.manager.Schema(service)
	if err != nil {
		return "", "", nil, err
	}
	_, path, err = schema.Resolve(list[1:])
	return list[0], service, path, err
}

// Map returns a map of a cube by its C name.
func (l *Lab) Map(name, mapName string) *ebpf.Map {
	l.t.Helper()
	m, err := l.plane.Map(l.plane.id(name), mapName)
	if err != nil {
		l.t.Fatalf("map %s of %s: %v", mapName, name, err)
	}
	return m
}

// Mode returns how a cube's programs are linked, "call" or "inline".
func (l *Lab) Mode(name string) string { return l.plane.Status(l.plane.id(name)).Mode }

// Verified returns how many instructions the verifier processed for the program that contains a cube.
func (l *Lab) Verified(name string) int { return l.plane.Status(l.plane.id(name)).Verified }

// Linked returns the number of the last linked program; it grows when a change relinks.
func (l *Lab) Linked() int {
	l.t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.dir, "generations"))
	if err != nil {
		l.t.Fatal(err)
	}
	last := 0
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "-")
		n, err := strconv.Atoi(number)
		if err != nil {
			l.t.Fatalf("generation %s: %v", e.Name(), err)
		}
		last = max(last, n)
	}
	return last
}

// Entries are the entries of a list as Read shows them, one by one.
func (l *Lab) Entries(words string) iter.Seq[json.RawMessage] {
	l.t.Helper()
	return func(yield func(json.RawMessage) bool) {
		name, service, path, err := l.resolve(words)
		if err == nil {
			err = l.manager.Entries(l.t.Context(), service, name, path, nil, func(_ []string, e json.RawMessage) bool { return yield(slices.Clone(e)) })
		}
		if err != nil {
			l.t.Errorf("show %s: %v", words, err)
		}
	}
}
