// SPDX-License-Identifier: Apache-2.0

package topology

// What a restart restores, and what happens to cubes that cannot be restored.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/world"
)

// restart ends the manager and makes another one from the store.
func (l *lab) restart() {
	l.t.Helper()
	l.stop()
	l.start()
}

func TestARestartBringsEverythingBack(t *testing.T) {
	l := stand(t)
	l.must(`act br1 fdb learn <<< {"address":"bb"}`, `delete br2`, bridges[1], `del br1 ports p1`,
		`post br1 ports p9 <<< {"tcubes":["th1"],"peer":"veth2"}`, `attach th3 br1:p9 position=first`, `patch br1 <<< {"loglevel":"TRACE"}`)
	before := l.state()
	var recs []*world.Cube
	recs = append(recs, l.view.Load().InOrder()...)
	wrote := false
	l.plane.setFail(func(step string) error {
		wrote = wrote || step == "store"
		return nil
	})
	l.restart()
	l.plane.setFail(nil)
	l.wantState(before)
	if wrote {
		t.Error("the restart wrote to the store though nothing changed")
	}
	for i, rec := range l.view.Load().InOrder() {
		was := recs[i]
		if rec.Name != was.Name || rec.ID != was.ID || rec.UUID != was.UUID || rec.Seq != was.Seq || !reflect.DeepEqual(rec.Ports, was.Ports) {
			t.Errorf("cube %d comes back as %+v, was %+v", i, rec, was)
		}
	}
	l.wantRead(`"learned bb"`, "br1", "note")
	l.must(`create toybridge later`)
	if id := l.view.Load().Cubes["later"].ID; id != 9 {
		t.Errorf("a new cube has the number %d, want 9: numbers go round", id)
	}
	if refs := l.Cubes(); refs[len(refs)-1].Name != "later" || refs[0].Name != "br1" {
		t.Errorf("order of creation is %v", refs)
	}
}

func TestOneBrokenCubeDoesNotHinderOthers(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(*lab)
		mend  func(*lab)
		why   string
		// lost is set if the UUID cannot be read.
		lost bool
	}{
		{"its record is cut", func(l *lab) { l.records["cube/br2"] = l.records["cube/br2"][:40] }, nil, "its record cannot be read", true},
		{"its record is another's", func(l *lab) { l.records["cube/br2"] = l.records["cube/br1"] }, nil, "its record cannot be read", true},
		{"its service is gone", func(l *lab) {
			l.records["cube/br2"] = []byte(strings.Replace(string(l.records["cube/br2"]), `"toybridge"`, `"lost"`, 1))
		}, nil, "service lost is not loaded", false},
		{"its configuration is invalid", func(l *lab) {
			l.records["cube/br2"] = []byte(strings.Replace(string(l.records["cube/br2"]), `"config":{`, `"config":{"fdb":{"aging-time":-1},`, 1))
		}, nil, "aging-time", false},
		{"it has the number of another", func(l *lab) {
			l.records["cube/br2"] = []byte(strings.Replace(string(l.records["cube/br2"]), `"id":2`, `"id":1`, 1))
		}, nil, "its number 1 is that of br1", false},
		{"its port has the slot of another", func(l *lab) {
			l.records["cube/br2"] = []byte(strings.Replace(string(l.records["cube/br2"]), `"slot":2`, `"slot":1`, 1))
		}, nil, "numbers of port", false},
		{"its code refuses", func(l *lab) { l.b.setFail(failAt("br2 Prepare", nil)) }, func(l *lab) { l.b.setFail(nil) }, "injected", false},
		{"its code panics", func(l *lab) { l.b.setFail(failAt("br2 New", errInjected)) }, func(l *lab) { l.b.setFail(nil) }, "injected", false},
		{"its commit fails", func(l *lab) { l.b.setFail(failAt("br2 Commit", nil)) }, func(l *lab) { l.b.setFail(nil) }, "injected", false},
		{"the data plane refuses it", func(l *lab) {
			l.plane.refuse = func(g *datapath.Graph) error {
				for _, n := range g.Cubes {
					if n.Name == "br2" {
						return errInjected
					}
				}
				return nil
			}
		}, func(l *lab) { l.plane.refuse = nil }, "injected", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := stand(t)
			good := maps.Clone(l.records)
			before, uuid := l.state(), l.view.Load().Cubes["br2"].UUID
			l.stop()
			c.spoil(l)
			spoilt := maps.Clone(l.records)
			l.start()
			broken := l.Broken()
			want := uuid
			if c.lost {
				want = "" // all are kept
			}
			if !slices.Equal(l.plane.kept, []string{want}) {
				t.Errorf("the maps of %v are kept, want %q", l.plane.kept, want)
			}
			if len(broken) != 1 || broken[0].Name != "br2" || !strings.Contains(broken[0].Reason, c.why) {
				t.Fatalf("broken: %+v, want br2: %s", broken, c.why)
			}
			if len(l.Cubes()) != len(bridges)-1 {
				t.Errorf("cubes: %v", l.Cubes())
			}
			if !reflect.DeepEqual(l.records, spoilt) {
				t.Error("the store was changed")
			}
			if got := portRow(l, "br1", "p2"); got != "veth1 UP linked=true" {
				t.Errorf("br1:p2 is %q", got)
			}
			if got := portRow(l, "br1", "p1"); got != "br2:p1 DOWN linked=false" {
				t.Errorf("br1:p1 is %q", got)
			}
			if err := l.do(`create toybridge br2`); !errors.Is(err, cube.ErrExists) {
				t.Errorf("creating it anew answers %v", err)
			}
			if _, err := l.NetdevTopology(context.Background(), "veth1"); err != nil {
				t.Error(err)
			}
			l.must(`patch br1 fdb aging-time <<< 300`, `create toybridge other`, `delete other`)
			l.stop()
			l.records = good
			if c.mend != nil {
				c.mend(l)
			}
			l.start()
			l.wantState(before)
		})
	}
}

// failAt makes one call of a cube's code fail, or panic with a value.
func failAt(at string, value any) func(string) error {
	return func(call string) error {
		if call != at {
			return nil
		}
		if value != nil {
			panic(value)
		}
		return errInjected
	}
}

func TestABrokenCubeCanBeDeletedWhateverItsService(t *testing.T) {
	for _, blob := range []string{`{"service":"lost","name":"old","id":3,"uuid":"u","config":{}}`, `garbage`, `{"service":"toyfilter","name":"old","config":{}}`} {
		l := newLab(t)
		l.records["cube/old"] = []byte(blob)
		l.restart()
		if len(l.Broken()) != 1 {
			t.Fatalf("%s: broken are %v", blob, l.Broken())
		}
		if err := l.Delete(context.Background(), "toyfilter", "old"); err != nil {
			t.Errorf("%s: %v", blob, err)
		}
		if len(l.Broken()) != 0 || len(l.records) != 0 {
			t.Errorf("%s: broken are %v, the store has %d records", blob, l.Broken(), len(l.records))
		}
		l.must(`create toybridge old`)
	}
}

// A cube that cannot be restored stays in the graph with the numbers, peers and filters that it had.
func TestABrokenCubeGoesOnWhereItsProgramsAreThere(t *testing.T) {
	spoils := map[string]func(*lab){
		"its service is gone": func(l *lab) {
			l.records["cube/br2"] = []byte(strings.Replace(string(l.records["cube/br2"]), `"toybridge"`, `"lost"`, 1))
		},
		"the model does not have a leaf": func(l *lab) {
			l.records["cube/br2"] = []byte(strings.Replace(string(l.records["cube/br2"]), `"config":{`, `"config":{"colour":"red",`, 1))
		},
		"its maps cannot be carried over": func(l *lab) {
			l.plane.setFail(func(step string) error {
				if step == "CreateCube br2" {
					return errInjected
				}
				return nil
			})
		},
		"its commit fails": func(l *lab) { l.b.setFail(failAt("br2 Commit", nil)) },
	}
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := stand(t)
			l.must(`connect br2:p2 veth2`)
			before := l.plane.now()
			good := maps.Clone(l.records)
			l.stop()
			spoil(l)
			spoilt := maps.Clone(l.records)
			l.plane.holds = true
			l.start()
			if broken := l.Broken(); len(broken) != 1 || broken[0].Name != "br2" {
				t.Fatalf("broken: %+v", broken)
			}
			after := *l.plane.now()
			held := *after.Cubes[2]
			held.Constants, held.LogLevel = before.Cubes[2].Constants, before.Cubes[2].LogLevel // pinned, not known here
			after.Cubes = maps.Clone(after.Cubes)
			after.Cubes[2] = &held
			if !reflect.DeepEqual(&after, before) {
				t.Errorf("the graph is\n%+v, was\n%+v", &after, before)
			}
			if !reflect.DeepEqual(l.records, spoilt) {
				t.Error("the store was changed")
			}
			if got := portRow(l, "br1", "p1"); got != "br2:p1 UP linked=true" {
				t.Errorf("br1:p1 is %q", got)
			}
			if fates, err := l.Fates("br2"); err != nil || len(fates) == 0 || !slices.Contains(l.CubeNames(), "br2") {
				t.Errorf("how packets end in it: %v, %v, among %v", fates, err, l.CubeNames())
			}
			if err := l.do(`post br1 ports p3 <<< {"peer":"veth2"}`); !errors.Is(err, cube.ErrInUse) {
				t.Errorf("taking its netdev answers %v", err)
			}
			for _, line := range []string{`connect br2:p2 veth1`, `patch br2 fdb aging-time <<< 3`, `attach th3 br2:p1`} {
				if err := l.do(line); !errors.Is(err, cube.ErrNotFound) {
					t.Errorf("%s answers %v", line, err)
				}
			}
			l.must(`patch br1 fdb aging-time <<< 300`)
			if err := l.Delete(context.Background(), "toybridge", "br2"); err != nil {
				t.Fatal(err)
			}
			if l.plane.now().Cubes[2] != nil || l.plane.cubes[2].UUID != "" {
				t.Error("the deleted cube is still there")
			}
			if got := portRow(l, "br1", "p1"); got != "br2:p1 DOWN linked=false" {
				t.Errorf("without it br1:p1 is %q", got)
			}
			l.stop()
			l.b.setFail(nil)
			l.plane.setFail(nil)
			l.records = good
			l.start()
		})
	}
}

func TestABrokenCubeThatCannotBeLinkedHindersNobody(t *testing.T) {
	l := stand(t)
	l.stop()
	l.plane.holds = true
	l.b.setFail(failAt("br2 Prepare", nil))
	l.plane.refuse = func(g *datapath.Graph) error {
		if g.Cubes[2] != nil {
			return errInjected
		}
		return nil
	}
	l.start()
	if broken := l.Broken(); len(broken) != 1 || broken[0].Name != "br2" {
		t.Errorf("broken: %+v", broken)
	}
	if n := len(l.Cubes()); n != len(bridges)-1 {
		t.Errorf("%d cubes are there, want %d", n, len(bridges)-1)
	}
	if got := portRow(l, "br1", "p2"); got != "veth1 UP linked=true" {
		t.Errorf("br1:p2 is %q", got)
	}
	if got := portRow(l, "br1", "p1"); got != "br2:p1 DOWN linked=false" {
		t.Errorf("br1:p1 is %q", got)
	}
}

func TestABrokenFilterKeepsItsPortClosed(t *testing.T) {
	l := stand(t)
	l.stop()
	l.b.setFail(failAt("th1 Prepare", nil))
	l.start()
	if got := portRow(l, "br1", "p1"); got != "br2:p1 UP linked=false" && got != "br2:p1 DOWN linked=false" {
		t.Errorf("a port whose filter is broken is %q", got)
	}
	l.wantRead(`["th1"]`, "br1", "ports", "p1", "tcubes")
	if err := l.Delete(context.Background(), "toyfilter", "th1"); err != nil {
		t.Fatal(err)
	}
	if len(l.Broken()) != 0 || l.records[world.CubeKey+"th1"] != nil {
		t.Error("the deleted cube is still there")
	}
	l.wantRead(`[]`, "br1", "ports", "p1", "tcubes")
	if got := portRow(l, "br1", "p1"); got != "br2:p1 UP linked=true" {
		t.Errorf("without the filter the port is %q", got)
	}
	if _, ok := l.plane.cubes[4]; ok {
		t.Error("the maps of the deleted cube are still there")
	}
}

func TestABrokenFilterOnANetdevKeepsThePortBehindItClosed(t *testing.T) {
	l := stand(t)
	if got := portRow(l, "br1", "p2"); got != "veth1 UP linked=true" {
		t.Fatalf("br1:p2 is %q", got)
	}
	l.stop()
	l.b.setFail(failAt("th2 Prepare", nil))
	l.start()
	if graphPort(l, "br1", "p2").Peer != (datapath.Peer{}) {
		t.Error("packets pass a netdev whose filter is broken")
	}
}

func TestANetdevThatCannotBeUsedStopsNobody(t *testing.T) {
	l := stand(t)
	l.must(`connect br2:p2 veth2`)
	before := l.state()
	l.stop()
	l.plane.refuse = func(g *datapath.Graph) error {
		if n := g.Netdevs["veth2"]; n != nil && n.Index != 0 {
			return fmt.Errorf("veth2: another program is attached: %w", cube.ErrInUse)
		}
		return nil
	}
	l.start()
	if len(l.Broken()) != 0 {
		t.Errorf("broken: %v", l.Broken())
	}
	if got := portRow(l, "br2", "p2"); got != "veth2 DOWN linked=true" {
		t.Errorf("br2:p2 is %q", got)
	}
	if got := portRow(l, "br1", "p2"); got != "veth1 UP linked=true" {
		t.Errorf("br1:p2 is %q", got)
	}
	l.plane.refuse = nil
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: l.devs.infos["veth2"]})
	l.wantState(before)
}

func TestNumbersArePersistedAsTheyAre(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(`create toybridge br <<< {"ports":[{"name":"a"},{"name":"b","peer":"veth1"},{"name":"c"}]}`, `del br ports a`)
	var s world.Stored
	if err := json.Unmarshal(l.records["cube/br"], &s); err != nil {
		t.Fatal(err)
	}
	rec := l.view.Load().Cubes["br"]
	want := world.Stored{Service: "toybridge", Name: "br", UUID: rec.UUID, ID: 1, Seq: 1, Type: cube.TypeTC, Config: s.Config,
		Ports: []world.StoredPort{{Name: "b", Index: 1, Slot: 1, UUID: rec.Ports["b"].UUID}, {Name: "c", Index: 2, Slot: 2, UUID: rec.Ports["c"].UUID}}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("stored %+v, want %+v", s, want)
	}
	l.must(`post br ports d`)
	if p := graphPort(l, "br", "d"); p.Index != 0 || p.Slot != 0 {
		t.Errorf("a new port takes index %d and slot %d, want the lowest free", p.Index, p.Slot)
	}
}

func TestWithTheRealStore(t *testing.T) {
	dir := t.TempDir() + "/store"
	plane, devs, b := newFakePlane(), newFakeNetdevs("veth1"), &behaviour{learned: map[string]string{}}
	var shown string
	for range 2 {
		plane.opened = map[datapath.CubeID]bool{}
		s, st, err := store.Open(store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(Options{Datapath: plane, Store: s, State: st, Services: toyServices(t, b), Netdevs: devs})
		if err != nil {
			t.Fatal(err)
		}
		l := &lab{Manager: m, t: t, plane: plane, devs: devs, b: b}
		if shown == "" {
			l.must(bridges...)
			l.must(`connect br1:p1 veth1`, `attach th1 veth1`, `attach th2 br1:p2`, `delete br2`)
		}
		now, err := m.Topology(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if shown != "" && shown != string(now) {
			t.Errorf("after the restart the topology is\n%s, was\n%s", now, shown)
		}
		shown = string(now)
		if err := errors.Join(m.Close(context.Background()), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
