// SPDX-License-Identifier: Apache-2.0

package topology

// Two small services whose code does what a test tells it to.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
)

// behaviour is what a test makes the services' code do.
type behaviour struct {
	mu sync.Mutex
	// fail is called at each call of a cube's code, "NAME Method"; it may return an error, block or panic.
	fail func(call string) error
	// log are the calls so far, learned the state of all bridges by address.
	log     []string
	learned map[string]string
	sizes   map[string]uint32
	// resized are the sizes that later plans ask for.
	resized map[string]uint32
	// parents are the notifications of filters, in order.
	parents []cube.Parent
	// programs are in every plan.
	programs map[cube.ProgramSlot]*cube.Program
	// after has a step after the flip in every plan.
	after bool
	// rest is the rest of the action flush.
	rest func(context.Context) (any, error)
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

// calls returns the log and clears it.
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
func (c *toy) Prepare(_ context.Context, change cube.Change) (cube.Plan, error) {
	old, after := change.Old, change.New
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
	plan := cube.Plan{Constants: map[string]any{"aging_time": conf.Fdb.AgingTime}, Programs: c.b.programs, MapSizes: c.b.resized}
	if old == nil {
		plan.MapSizes = c.b.sizes
		if _, err := c.env.Map("fdb"); err == nil && c.b.sizes != nil {
			return cube.Plan{}, errors.New("a map is there before the first Commit")
		}
	}
	plan.Before = []cube.Step{cube.Effect(func() (func() error, error) {
		if _, err := c.env.Map("fdb"); err != nil {
			return nil, err
		}
		return func() error { return c.b.call(c.env.Name(), "Undo") }, c.b.call(c.env.Name(), "Commit")
	})}
	if c.b.after {
		plan.After = []cube.Step{cube.Effect(func() (func() error, error) { return nil, c.b.call(c.env.Name(), "After") })}
	}
	return plan, nil
}

func (c *toy) Close() { _ = c.b.call(c.env.Name(), "Close") }

func (c *toy) PacketIn(p *cube.PacketIn) {
	if err := c.b.call(c.env.Name(), "PacketIn", " ", string(p.Data)); err != nil {
		return
	}
	_ = c.env.Send(&cube.PacketOut{Port: p.Port, Trip: p.Trip, Data: bytes.Clone(p.Data)})
}

func (c *toy) Notify(kind uint32, data []byte) {
	_ = c.b.call(c.env.Name(), "Notify", " ", kind, " ", string(data))
}

type toyBridge struct{ toy }

func (c *toyBridge) LinkChanged(name string, works bool) {
	_ = c.b.call(c.env.Name(), "LinkChanged", " ", name, " ", works)
}

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
	if path[1] == "flush" && c.b.rest != nil {
		return cube.ActionResult{Rest: c.b.rest}, nil
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

func (c *toyFilter) ParentChanged(p cube.Parent) {
	c.b.mu.Lock()
	c.b.parents = append(c.b.parents, p)
	c.b.mu.Unlock()
	_ = c.b.call(c.env.Name(), "ParentChanged", " ", p.Name)
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// instanceOf returns an instance that calls the methods of a test's type.
func instanceOf(c any) cube.Instance {
	i := cube.Instance{Prepare: c.(interface {
		Prepare(context.Context, cube.Change) (cube.Plan, error)
	}).Prepare}
	if c, ok := c.(interface {
		Dependents(context.Context, json.RawMessage, json.RawMessage) ([]cube.Edit, error)
	}); ok {
		i.Dependents = c.Dependents
	}
	if c, ok := c.(interface {
		State(context.Context, []string) (any, error)
	}); ok {
		i.State = c.State
	}
	if c, ok := c.(interface {
		Page(context.Context, []string, cube.PageQuery) (cube.Page, error)
	}); ok {
		i.Page = c.Page
	}
	if c, ok := c.(interface {
		DeleteState(context.Context, []string) error
	}); ok {
		i.DeleteState = c.DeleteState
	}
	if c, ok := c.(interface {
		Action(context.Context, []string, json.RawMessage) (cube.ActionResult, error)
	}); ok {
		i.Action = c.Action
	}
	setEvents(&i, c)
	return i
}

func setEvents(i *cube.Instance, c any) {
	if c, ok := c.(interface{ PacketIn(*cube.PacketIn) }); ok {
		i.PacketIn = c.PacketIn
	}
	if c, ok := c.(interface{ Notify(uint32, []byte) }); ok {
		i.Notify = c.Notify
	}
	if c, ok := c.(interface{ PortChanged(string, bool) }); ok {
		i.PortChanged = c.PortChanged
	}
	if c, ok := c.(interface{ LinkChanged(string, bool) }); ok {
		i.LinkChanged = c.LinkChanged
	}
	if c, ok := c.(interface{ PeerChanged(string, cube.Peer) }); ok {
		i.PeerChanged = c.PeerChanged
	}
	if c, ok := c.(interface{ OutputChanged(uint8, cube.Peer) }); ok {
		i.OutputChanged = c.OutputChanged
	}
	if c, ok := c.(interface{ ParentChanged(cube.Parent) }); ok {
		i.ParentChanged = c.ParentChanged
	}
	if c, ok := c.(interface {
		RoutesChanged([]cube.RouteChange, bool)
	}); ok {
		i.RoutesChanged = c.RoutesChanged
	}
	if c, ok := c.(interface {
		Interfaces(json.RawMessage) (map[string]cube.Interface, error)
		NamespaceChanged(string, cube.Interface, cube.Interface) ([]cube.Edit, error)
	}); ok {
		i.Interfaces, i.NamespaceChanged = c.Interfaces, c.NamespaceChanged
	}
	if c, ok := c.(interface {
		Alignment(json.RawMessage) (map[string]cube.Alignment, error)
		NetdevChanged(string, cube.Interface, cube.Interface) ([]cube.Edit, error)
	}); ok {
		i.Alignment, i.NetdevChanged = c.Alignment, c.NetdevChanged
	}
	if c, ok := c.(interface{ Close() }); ok {
		i.Close = c.Close
	}
}

func toyServices(t testing.TB, b *behaviour) []cube.Service {
	return []cube.Service{
		{Model: readFile(t, "testdata/toybridge.yang"), MaxPorts: 8, WholeLists: true, New: func(e cube.Env) (cube.Instance, error) {
			if err := b.call(e.Name(), "New"); err != nil {
				return cube.Instance{}, err
			}
			return instanceOf(&toyBridge{toy{e, b}}), nil
		}},
		{Model: readFile(t, "testdata/toyfilter.yang"), New: func(e cube.Env) (cube.Instance, error) {
			return instanceOf(&toyFilter{toy{e, b}}), nil
		}},
	}
}
