// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// toyTable is a cube that gets the entries of its list one by one, and keeps them like a map in the kernel.
type toyTable struct {
	toy
	all   *map[string]map[string]string
	began bool
}

type toyEntry struct{ Address, Port string }

func (c *toyTable) Prepare(ctx context.Context, change cube.Change) (plan cube.Plan, err error) {
	if change.New != nil {
		if plan, err = c.toy.Prepare(ctx, change); err != nil {
			return plan, err
		}
	}
	if change.Created() || len(change.Entries) > 0 {
		entries, err := c.prepareEntries(change.Entries)
		plan.Before = append(plan.Before, entries.Before...)
		return plan, err
	}
	return plan, nil
}

func (c *toyTable) prepareEntries(changes []cube.EntryChange) (cube.Plan, error) {
	if err := c.b.call(c.env.Name(), "PrepareEntries"); err != nil {
		return cube.Plan{}, err
	}
	decoded, err := cube.DecodeEntries[toyEntry](changes)
	if err != nil {
		return cube.Plan{}, err
	}
	before, began := map[string]string{}, c.began
	if began {
		before = (*c.all)[c.env.Name()]
	}
	after := maps.Clone(before)
	for i, d := range decoded {
		if strings.Join(changes[i].List, "/") != "fdb/entry" {
			return cube.Plan{}, fmt.Errorf("changes of %v", changes[i].List)
		}
		if d.Old != nil {
			if after[d.Old.Address] != d.Old.Port {
				return cube.Plan{}, fmt.Errorf("entry %s was %q, not %q", d.Old.Address, after[d.Old.Address], d.Old.Port)
			}
			delete(after, d.Old.Address)
		}
		if d.New != nil {
			after[d.New.Address] = d.New.Port
		}
	}
	return cube.Plan{Before: []cube.Step{cube.Effect(func() (func() error, error) {
		if err := c.b.call(c.env.Name(), "CommitEntries"); err != nil {
			return nil, err
		}
		(*c.all)[c.env.Name()] = after
		c.began = true
		return func() error { (*c.all)[c.env.Name()], c.began = before, began; return nil }, nil
	})}}, nil
}

// newTableLab returns a lab with a service that gets entries, and the entries of its cubes.
func newTableLab(t *testing.T) (*lab, *map[string]map[string]string) {
	l := &lab{t: t, plane: newFakePlane(), devs: newFakeNetdevs("veth1"), b: &behaviour{learned: map[string]string{}}, records: map[string][]byte{}}
	all := &map[string]map[string]string{}
	l.extra = []cube.Service{{
		Model: strings.ReplaceAll(readFile(t, "testdata/toybridge.yang"), "toybridge", "toytable"), MaxPorts: 8,
		New: func(e cube.Env) (cube.Instance, error) { return instanceOf(&toyTable{toy: toy{e, l.b}, all: all}), nil },
	}}
	l.start()
	t.Cleanup(func() { l.stop() })
	return l, all
}

// wantEntries compares the entries that a read shows, and those in the store, with the cube's.
func (l *lab) wantEntries(name string, has map[string]string) {
	l.t.Helper()
	shown := map[string]string{}
	err := l.Entries(context.Background(), "", name, yang.Path{{Name: "fdb"}, {Name: "entry"}}, nil, func(keys []string, raw json.RawMessage) bool {
		var e toyEntry
		if err := json.Unmarshal(raw, &e); err != nil || e.Address != keys[0] {
			l.t.Errorf("entry %q reads %s, %v", keys, raw, err)
		}
		shown[e.Address] = e.Port
		return true
	})
	if err != nil {
		l.t.Fatal(err)
	}
	stored := map[string]string{}
	prefix := world.EntryKey + l.view.Load().Cubes[name].UUID + "/fdb/entry|"
	for key, value := range l.records {
		if address, ok := strings.CutPrefix(key, prefix); ok {
			var e toyEntry
			if err := json.Unmarshal(value, &e); err != nil || e.Address != address {
				l.t.Errorf("%s holds %s, %v", key, value, err)
			}
			stored[address] = e.Port
		}
	}
	if has == nil {
		has = map[string]string{}
	}
	if !reflect.DeepEqual(shown, has) || !reflect.DeepEqual(stored, has) {
		l.t.Errorf("%s has %v, a read shows %v, the store holds %v", name, has, shown, stored)
	}
}

// Whatever is changed, refused or restored, a cube has the entries that a read shows and that the store contains.
func TestEntriesOfLargeListsReachTheCube(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { randomEntries(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func randomEntries(t *testing.T, r *rand.Rand) {
	l, all := newTableLab(t)
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	entry := func() string {
		return fmt.Sprintf(`{"address":"a%d","port":"%s"}`, r.IntN(8), pick("p1", "p2"))
	}
	array := func() string { return `[` + entry() + pick("", `,{"address":"b","port":"p1"}`) + `]` }
	steps := []string{"store", "commit", "prepare", "t1 Commit", "t1 CommitEntries", "t1 Prepare", "t1 PrepareEntries"}
	for range 60 {
		fail := func(string) error { return nil }
		if r.IntN(3) == 0 {
			at := pick(steps...)
			fail = func(step string) error {
				if step == at {
					return errInjected
				}
				return nil
			}
		}
		l.plane.setFail(fail)
		l.b.setFail(fail)
		op := pick("post", "put", "patch", "del")
		var line string
		switch r.IntN(9) {
		case 0:
			line = "create toytable t1 <<< " + pick(`{}`, `{"fdb":{"entry":`+array()+`}}`)
		case 1:
			line = "delete t1"
		case 2:
			line = op + " t1 fdb entry <<< " + array()
		case 3:
			line = op + " t1 fdb <<< " + pick(`{"aging-time":5}`, `{"aging-time":6,"entry":`+array()+`}`)
		case 4:
			line = `many <<< [{"name":"t1","service-name":"toytable","fdb":{"entry":` + array() + `}},{"name":"t2","service-name":"toytable"}]`
		default:
			line = fmt.Sprintf(`%s t1 fdb entry a%d <<< {"port":"%s"}`, op, r.IntN(8), pick("p1", "p2"))
		}
		before := l.view.Load()
		err := l.do(line)
		if err != nil && l.view.Load().Revision != before.Revision {
			t.Errorf("%s: refused (%v), and the configuration is another", line, err)
		}
		l.plane.setFail(nil)
		l.b.setFail(nil)
		if r.IntN(8) == 0 {
			l.stop()
			*all = map[string]map[string]string{}
			l.start()
		}
		for _, name := range []string{"t1", "t2"} {
			if l.view.Load().Cubes[name] != nil {
				l.wantEntries(name, (*all)[name])
			}
		}
		if t.Failed() {
			t.Fatalf("after %s: %v", line, err)
		}
	}
	if err := l.do("delete t1", "delete t2"); err != nil && !errors.Is(err, cube.ErrNotFound) {
		t.Fatal(err)
	}
	for key := range l.records {
		if strings.HasPrefix(key, world.EntryKey) && len(l.view.Load().Cubes) == 0 {
			t.Errorf("no cube is left, and the store holds %s", key)
		}
	}
}

func TestPagesOfAList(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br <<< {"fdb":{"entry":[{"address":"d","port":"p"},{"address":"b","port":"p"},{"address":"f","port":"p"}]},"ports":[{"name":"p2"},{"name":"p1"}]}`)
	l.b.learned["a"], l.b.learned["c"], l.b.learned["d"] = "p1", "p2", "p3"
	page := func(after []string, limit int, words ...string) (string, error) {
		var path yang.Path
		for _, w := range words {
			path = append(path, yang.Step{Name: w})
		}
		var got []string
		err := l.Entries(context.Background(), "toybridge", "br", path, after, func(keys []string, _ json.RawMessage) bool {
			got = append(got, keys...)
			return len(got) < limit
		})
		return strings.Join(got, " "), err
	}
	for _, c := range []struct {
		after string
		limit int
		list  string
		want  string
	}{
		{"", 9, "fdb entry", "a b c d f"}, {"", 2, "fdb entry", "a b"}, {"b", 2, "fdb entry", "c d"}, {"d", 9, "fdb entry", "f"},
		{"e", 9, "fdb entry", "f"}, {"z", 9, "fdb entry", ""}, {"", 9, "ports", "p2 p1"}, {"p2", 9, "ports", "p1"},
	} {
		var after []string
		if c.after != "" {
			after = []string{c.after}
		}
		if got, err := page(after, c.limit, strings.Fields(c.list)...); err != nil || got != c.want {
			t.Errorf("%d of %s after %q: %q, %v, want %q", c.limit, c.list, c.after, got, err, c.want)
		}
	}
	if _, err := page([]string{"p9"}, 1, "ports"); err == nil || !strings.Contains(err.Error(), "no longer exists") {
		t.Errorf("a page after a port that is gone: %v", err)
	}
	if _, err := page(nil, 1, "fdb"); err == nil || !strings.Contains(err.Error(), "not a list") {
		t.Errorf("pages of a container: %v", err)
	}
}
