// SPDX-License-Identifier: Apache-2.0

package topology

// Stand-ins for the layers around the topology: a data plane that records what it is given and fails where it is told
// to, netdevs that exist when a test says so, and two small services.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/yang"
)

var errInjected = errors.New("injected")

// fakePlane is a data plane in memory.
type fakePlane struct {
	mu       sync.Mutex
	cubes    map[datapath.CubeID]datapath.Spec
	graph    *datapath.Graph
	open     int // changes neither committed nor aborted
	prepared int
	sent     []cube.PacketOut
	// fail is asked before each step; a test lets it return an error or block.
	fail func(step string) error
	// refuse looks at a graph that is prepared.
	refuse func(*datapath.Graph) error
}

func newFakePlane() *fakePlane {
	return &fakePlane{cubes: map[datapath.CubeID]datapath.Spec{}, graph: newWorld().graph()}
}

func (f *fakePlane) step(name string) error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(name)
}

func (f *fakePlane) setFail(fail func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *fakePlane) CreateCube(s datapath.Spec) error {
	if err := f.step("CreateCube"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.cubes[s.ID]; ok && old.UUID != s.UUID {
		return fmt.Errorf("cube %d is another one: %w", s.ID, cube.ErrExists)
	}
	f.cubes[s.ID] = s
	return nil
}

func (f *fakePlane) DeleteCube(id datapath.CubeID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.cubes[id]; !ok {
		return fmt.Errorf("cube %d: %w", id, cube.ErrNotFound)
	}
	if f.graph.Cubes[id] != nil {
		return fmt.Errorf("cube %d is in the graph: %w", id, cube.ErrInUse)
	}
	delete(f.cubes, id)
	return nil
}

func (f *fakePlane) Map(id datapath.CubeID, name string) (*ebpf.Map, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.cubes[id]; !ok || name != "fdb" {
		return nil, fmt.Errorf("cube %d map %s: %w", id, name, cube.ErrNotFound)
	}
	return nil, nil
}

type fakeChange struct {
	f    *fakePlane
	g    *datapath.Graph
	done bool
}

func (f *fakePlane) Prepare(ctx context.Context, g *datapath.Graph) (Change, error) {
	if err := f.step("Prepare"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(g); err != nil {
			return nil, err
		}
	}
	for id := range g.Cubes {
		if _, ok := f.cubes[id]; !ok {
			return nil, fmt.Errorf("cube %d has no maps: %w", id, cube.ErrNotFound)
		}
	}
	f.open++
	f.prepared++
	return &fakeChange{f: f, g: g}, ctx.Err()
}

func (c *fakeChange) Commit() error {
	err := c.f.step("Commit")
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.done {
		return errors.New("committed or aborted before")
	}
	c.done = true
	c.f.open--
	if err == nil {
		c.f.graph = c.g
	}
	return err
}

func (c *fakeChange) Abort() {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.done {
		panic("aborted after its end")
	}
	c.done = true
	c.f.open--
}

func (f *fakePlane) PortCounters(slot uint16) (datapath.PortCounters, error) {
	return datapath.PortCounters{RxPackets: uint64(slot)}, nil
}

func (f *fakePlane) Fates(id datapath.CubeID) ([]datapath.Fate, error) {
	return []datapath.Fate{{Name: "pass", Packets: uint64(id)}}, nil
}

func (f *fakePlane) Status(datapath.CubeID) datapath.CubeStatus {
	return datapath.CubeStatus{Mode: "inline"}
}

func (f *fakePlane) CheckObject(string, map[cube.Hook][]byte) error { return f.step("CheckObject") }

func (f *fakePlane) Send(_ datapath.CubeID, _ bool, p *cube.PacketOut) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, *p)
	return nil
}

// now returns the graph in use.
func (f *fakePlane) now() *datapath.Graph {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.graph
}

// fakeNetdevs are devices in memory.
type fakeNetdevs struct {
	mu      sync.Mutex
	infos   map[string]netdev.Info
	readied []string
}

func newFakeNetdevs(names ...string) *fakeNetdevs {
	f := &fakeNetdevs{infos: map[string]netdev.Info{}}
	for i, name := range names {
		f.infos[name] = netdev.Info{Name: name, Index: 10 + i, Up: true, Kind: "veth"}
	}
	return f
}

func (f *fakeNetdevs) List() ([]netdev.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	infos := slices.Collect(maps.Values(f.infos))
	slices.SortFunc(infos, func(a, b netdev.Info) int { return a.Index - b.Index })
	return infos, nil
}

func (f *fakeNetdevs) Get(name string) (netdev.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, ok := f.infos[name]
	if !ok {
		return info, fmt.Errorf("%s: %w", name, netdev.ErrNotFound)
	}
	return info, nil
}

func (f *fakeNetdevs) EnsureCanReceiveRedirects(name string) (netdev.Readiness, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readied = append(f.readied, name)
	return netdev.Readiness{OK: true}, nil
}

func (f *fakeNetdevs) set(info netdev.Info) netdev.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.infos[info.Name] = info
	return info
}

func (f *fakeNetdevs) remove(name string) netdev.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.infos[name]
	delete(f.infos, name)
	return info
}

// behaviour is what a test makes the services' code do.
type behaviour struct {
	mu sync.Mutex
	// fail is asked at each call of a cube's code, "NAME Method"; it may return an error, block or panic.
	fail func(call string) error
	// log are the calls so far, learned the state of all bridges by address.
	log     []string
	learned map[string]string
	sizes   map[string]uint32
}

func (b *behaviour) call(name, method string, args ...any) error {
	what := name + " " + method
	if len(args) > 0 {
		what += fmt.Sprint(args...)
	}
	b.mu.Lock()
	b.log = append(b.log, what)
	fail := b.fail
	b.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(name + " " + method)
}

func (b *behaviour) setFail(fail func(string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
}

// calls takes the log.
func (b *behaviour) calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.log
	b.log = nil
	return log
}

// toy is an instance of either service; a bridge has more methods.
type toy struct {
	env cube.Env
	b   *behaviour
}

// Prepare compiles the aging time and the loglevel into the programs.
func (c *toy) Prepare(_ context.Context, old, after json.RawMessage) (cube.Plan, error) {
	if err := c.b.call(c.env.Name(), "Prepare"); err != nil {
		return cube.Plan{}, err
	}
	var conf struct {
		Fdb struct {
			AgingTime uint32 `json:"aging-time"`
		} `json:"fdb"`
		Ports []cube.Port `json:"ports"`
	}
	if err := json.Unmarshal(after, &conf); err != nil {
		return cube.Plan{}, err
	}
	for _, p := range conf.Ports {
		if _, ok := c.env.PortIndex(p.Name); !ok {
			return cube.Plan{}, fmt.Errorf("port %s has no index in Prepare", p.Name)
		}
	}
	plan := cube.Plan{Constants: map[string]any{"aging_time": conf.Fdb.AgingTime}}
	if old == nil {
		plan.MapSizes = c.b.sizes
		if _, err := c.env.Map("fdb"); err == nil && c.b.sizes != nil {
			return cube.Plan{}, errors.New("a map is there before the first Commit")
		}
	}
	plan.Commit = func() error {
		if _, err := c.env.Map("fdb"); err != nil {
			return err
		}
		return c.b.call(c.env.Name(), "Commit")
	}
	plan.Undo = func() error { return c.b.call(c.env.Name(), "Undo") }
	return plan, nil
}

func (c *toy) Close() { _ = c.b.call(c.env.Name(), "Close") }

func (c *toy) PacketIn(p *cube.PacketIn) {
	if err := c.b.call(c.env.Name(), "PacketIn", " ", string(p.Data)); err != nil {
		return
	}
	_ = c.env.Send(&cube.PacketOut{Port: p.Port, Data: bytes.Clone(p.Data)})
}

type toyBridge struct{ toy }

func (c *toyBridge) PortChanged(name string, up bool) {
	_ = c.b.call(c.env.Name(), "PortChanged", " ", name, " ", up)
}

func (c *toyBridge) State(_ context.Context, path []string) (any, error) {
	if err := c.b.call(c.env.Name(), "State"); err != nil {
		return nil, err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	var entries []map[string]any
	for _, address := range slices.Sorted(maps.Keys(c.b.learned)) {
		entries = append(entries, map[string]any{"address": address, "port": c.b.learned[address], "age": 7})
	}
	return map[string]any{"fdb": map[string]any{"entry": entries},
		"ports": []any{map[string]any{"name": "p1", "packets": uint64(1) << 63}, map[string]any{"name": "gone", "packets": 1}}}, nil
}

func (c *toyBridge) DeleteState(_ context.Context, path []string) error {
	if err := c.b.call(c.env.Name(), "DeleteState", " ", strings.Join(path, " ")); err != nil {
		return err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	last := path[len(path)-1]
	if _, ok := c.b.learned[last]; !ok {
		return fmt.Errorf("%s: %w", last, cube.ErrNotFound)
	}
	delete(c.b.learned, last)
	return nil
}

func (c *toyBridge) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if err := c.b.call(c.env.Name(), "Action"); err != nil {
		return cube.ActionResult{}, err
	}
	if path[1] == "flush" {
		return cube.ActionResult{Output: map[string]any{"flushed": len(c.b.learned)}}, nil
	}
	var in struct{ Address, Port string }
	if err := json.Unmarshal(input, &in); err != nil {
		return cube.ActionResult{}, err
	}
	return cube.ActionResult{Edits: []cube.Edit{
		{Path: []string{"fdb", "entry", in.Address}, Value: map[string]any{"port": in.Port}},
		{Path: []string{"note"}, Value: "learned " + in.Address},
	}}, nil
}

type toyFilter struct{ toy }

func (c *toyFilter) ParentChanged(parent string) {
	_ = c.b.call(c.env.Name(), "ParentChanged", " ", parent)
}

// lab is a manager with everything around it.
type lab struct {
	*Manager
	t       *testing.T
	plane   *fakePlane
	devs    *fakeNetdevs
	b       *behaviour
	records map[string][]byte
	mu      sync.Mutex
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func toyServices(t testing.TB, b *behaviour) []cube.Service {
	return []cube.Service{
		{Model: readFile(t, "testdata/toybridge.yang"), MaxPorts: 8, New: func(e cube.Env) (cube.Instance, error) {
			if err := b.call(e.Name(), "New"); err != nil {
				return nil, err
			}
			return &toyBridge{toy{e, b}}, nil
		}},
		{Model: readFile(t, "testdata/toyfilter.yang"), New: func(e cube.Env) (cube.Instance, error) {
			return &toyFilter{toy{e, b}}, nil
		}},
	}
}

func newLab(t *testing.T, devs ...string) *lab {
	t.Helper()
	l := &lab{t: t, plane: newFakePlane(), devs: newFakeNetdevs(devs...), b: &behaviour{learned: map[string]string{}},
		records: map[string][]byte{}}
	l.start()
	t.Cleanup(func() { l.stop() })
	return l
}

// start makes a manager of what the lab's store holds.
func (l *lab) start() {
	l.t.Helper()
	state := &store.State{}
	for _, k := range sortedKeys(l.records) {
		state.Records = append(state.Records, store.Record{Key: k, Value: l.records[k]})
	}
	m, err := newManager(Options{Datapath: l.plane, State: state, Services: toyServices(l.t, l.b), Netdevs: l.devs,
		Logger: slog.New(slog.NewTextHandler(l.t.Output(), nil)), Version: "1"}, l.commit)
	if err != nil {
		l.t.Fatal(err)
	}
	l.Manager = m
}

func (l *lab) stop() {
	if err := l.Close(context.Background()); err != nil {
		l.t.Error(err)
	}
}

// commit is the lab's store.
func (l *lab) commit(recs []store.Record) error {
	if err := l.plane.step("store"); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range recs {
		if r.Value == nil {
			delete(l.records, r.Key)
		} else {
			l.records[r.Key] = bytes.Clone(r.Value)
		}
	}
	return nil
}

// do runs requests, written as a person types them; the first that is refused ends it.
func (l *lab) do(lines ...string) error {
	for _, line := range lines {
		if err := l.one(line); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

// must is do for requests that are right.
func (l *lab) must(lines ...string) {
	l.t.Helper()
	if err := l.do(lines...); err != nil {
		l.t.Fatal(err)
	}
}

// one runs "VERB words... [JSON]".
func (l *lab) one(line string) error {
	ctx := context.Background()
	line, body, _ := strings.Cut(line, " <<< ")
	w := strings.Fields(line)
	switch w[0] {
	case "create":
		return l.Create(ctx, w[1], w[2], []byte(body))
	case "many":
		return l.CreateMany(ctx, []byte(body))
	case "delete":
		service, ok := l.ServiceOf(w[1])
		if !ok {
			service = "toybridge"
		}
		return l.Delete(ctx, service, w[1])
	case "connect":
		return l.Connect(ctx, w[1], w[2])
	case "disconnect":
		return l.Disconnect(ctx, w[1], w[2])
	case "attach":
		r := AttachRequest{Cube: w[1], Port: w[2]}
		for _, option := range w[3:] {
			key, value, _ := strings.Cut(option, "=")
			switch key {
			case "position":
				r.Position = value
			case "before":
				r.Before = value
			case "after":
				r.After = value
			}
		}
		return l.Attach(ctx, r)
	case "detach":
		return l.Detach(ctx, w[1], w[2])
	}
	op := map[string]yang.Op{"post": yang.Create, "put": yang.Replace, "patch": yang.Merge, "del": yang.Delete}[w[0]]
	return l.edit(op, w[1], w[2:], body)
}

func (l *lab) edit(op yang.Op, name string, words []string, body string) error {
	service, ok := l.ServiceOf(name)
	if !ok {
		return fmt.Errorf("cube %s: %w", name, cube.ErrNotFound)
	}
	schema, err := l.Schema(service)
	if err != nil {
		return err
	}
	_, path, err := schema.Resolve(words)
	if err != nil {
		return err
	}
	return l.Edit(context.Background(), service, name, op, path, []byte(body))
}

// read reads a part of a cube.
func (l *lab) read(name string, words ...string) (string, error) {
	service, _ := l.ServiceOf(name)
	schema, err := l.Schema(service)
	if err != nil {
		return "", err
	}
	_, path, err := schema.Resolve(words)
	if err != nil {
		return "", err
	}
	raw, err := l.Read(context.Background(), service, name, path)
	return string(raw), err
}

func (l *lab) wantRead(want, name string, words ...string) {
	l.t.Helper()
	got, err := l.read(name, words...)
	if err != nil || got != want {
		l.t.Errorf("%s %v reads %s, %v; want %s", name, words, got, err, want)
	}
}

// state is all that a refused request must leave alone.
type state struct {
	graph   *datapath.Graph
	records map[string][]byte
	maps    map[datapath.CubeID]datapath.Spec
	shown   string
	trees   string
}

func (l *lab) state() state {
	l.t.Helper()
	shown, err := l.Topology(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	s := state{graph: l.plane.now(), shown: string(shown)}
	l.mu.Lock()
	s.records = maps.Clone(l.records)
	l.mu.Unlock()
	l.plane.mu.Lock()
	s.maps = maps.Clone(l.plane.cubes)
	open := l.plane.open
	l.plane.mu.Unlock()
	if open != 0 {
		l.t.Errorf("%d changes of the data plane were neither committed nor aborted", open)
	}
	<-l.writer
	defer func() { l.writer <- struct{}{} }()
	w := l.view.Load()
	for _, name := range sortedKeys(w.units) {
		raw, err := w.units[name].tree.JSON(nil, yang.JSONOptions{Defaults: true})
		if err != nil {
			l.t.Fatal(err)
		}
		s.trees += name + string(raw)
	}
	return s
}

func (l *lab) wantState(want state) {
	l.t.Helper()
	got := l.state()
	if !reflect.DeepEqual(got, want) {
		l.t.Errorf("a refused request left a trace:\n got %+v\nwant %+v", got, want)
	}
}
