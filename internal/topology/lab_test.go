// SPDX-License-Identifier: Apache-2.0

package topology

// A manager with everything around it, driven by requests as a person types them.

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/test/pace"
)

// lab is a manager with everything around it.
type lab struct {
	*Manager
	t       *testing.T
	plane   *fakePlane
	devs    *fakeNetdevs
	b       *behaviour
	records map[string][]byte
	// txs are the store's past, states what it held after each of them; who made a change is in them alone.
	txs     []store.Transaction
	states  []map[string][]byte
	shadows Shadows      // nil: none
	host    service.Host // nil: none
	extra   []cube.Service
	logger  slog.Handler // nil: the test's output
	events  *events.Log  // nil: none
	mu      sync.Mutex
}

func newLab(t *testing.T, devs ...string) *lab {
	t.Helper()
	return newLoggingLab(t, nil, devs...)
}

// newLoggingLab returns a lab with another log.
func newLoggingLab(t *testing.T, logger slog.Handler, devs ...string) *lab {
	t.Helper()
	l := &lab{t: t, plane: newFakePlane(), devs: newFakeNetdevs(devs...), b: &behaviour{learned: map[string]string{}},
		records: map[string][]byte{}, logger: logger, events: events.New("run", 0)}
	l.start()
	t.Cleanup(func() { l.stop() })
	return l
}

// start makes a manager from the lab's store.
func (l *lab) start() {
	l.t.Helper()
	l.plane.opened = map[datapath.CubeID]bool{}
	state := &store.State{Sequence: uint64(len(l.txs))}
	for _, k := range slices.Sorted(maps.Keys(l.records)) {
		state.Records = append(state.Records, store.Record{Key: k, Value: l.records[k]})
	}
	logger := l.logger
	if logger == nil {
		logger = slog.NewTextHandler(l.t.Output(), nil)
	}
	m, err := newManager(Options{Datapath: l.plane, State: state, Services: append(toyServices(l.t, l.b), l.extra...), Netdevs: l.devs, Shadows: l.shadows, Host: l.host,
		Logger: slog.New(logger), Events: l.events, Version: "1"}, l.commit, func(uint64) {})
	if err != nil {
		l.t.Fatal(err)
	}
	l.Manager = m
	m.Past = history.New(labPast{l}, m.ModelOf, m.Revision)
	m.trials.Start()
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
	l.states = append(l.states, maps.Clone(l.records))
	l.txs = append(l.txs, store.Transaction{Sequence: uint64(len(l.txs) + 1), Records: slices.Clone(recs)})
	for _, r := range recs {
		switch {
		case r.Key == history.ChangeKey:
		case r.Value == nil:
			delete(l.records, r.Key)
		default:
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
	l.wantGraph()
	return nil
}

// wantGraph checks that the graph in use is that of the whole world: a change derives a part of it.
func (l *lab) wantGraph() {
	l.t.Helper()
	<-l.token
	defer func() { l.token <- struct{}{} }()
	if err := l.inUse.Lock(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	defer l.inUse.Unlock()
	if want := l.view.Load().Graph(); l.inUse.graph != nil && !reflect.DeepEqual(l.inUse.graph, want) {
		l.t.Errorf("the graph in use is not that of the topology:\n got %s\nwant %s", graphText(l.inUse.graph), graphText(want))
	}
}

func graphText(g *datapath.Graph) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(g.Cubes)) {
		fmt.Fprintf(&b, "\n%+v", *g.Cubes[id])
		for _, index := range slices.Sorted(maps.Keys(g.Cubes[id].Ports)) {
			fmt.Fprintf(&b, "\n  %+v", *g.Cubes[id].Ports[index])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.Netdevs)) {
		fmt.Fprintf(&b, "\n%+v", *g.Netdevs[name])
	}
	return b.String()
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
	if w[0] == "act" {
		_, err := l.act(w[1], w[2:], body)
		return err
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

func (l *lab) act(name string, words []string, body string) (string, error) {
	service, _ := l.ServiceOf(name)
	schema, err := l.Schema(service)
	if err != nil {
		return "", err
	}
	_, path, err := schema.Resolve(words)
	if err != nil {
		return "", err
	}
	out, err := l.Action(context.Background(), service, name, path, []byte(body))
	return string(out), err
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

// state returns everything that a refused request must not change.
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
	// After a restart, it is not known how a netdev was lost.
	shown = regexp.MustCompile(`"status-reason":"[^"]*",`).ReplaceAll(shown, nil)
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
	<-l.token
	defer func() { l.token <- struct{}{} }()
	w := l.view.Load()
	for _, name := range slices.Sorted(maps.Keys(w.Units)) {
		raw, err := w.Units[name].Tree.JSON(nil, yang.JSONOptions{Defaults: true})
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

// quiet waits until all cubes have been notified.
func (l *lab) quiet() {
	l.t.Helper()
	for name, u := range l.view.Load().Units {
		done := make(chan struct{})
		end := sync.OnceFunc(func() { close(done) })
		u.Post(unit.Task{What: "quiet", Run: end, Dropped: end})
		select {
		case <-done:
		case <-time.After(pace.Stretch(10 * time.Second)):
			l.t.Fatalf("%s does not end what it does", name)
		}
	}
}
