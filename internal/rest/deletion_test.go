// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/rest/cubes"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/topology"
)

const stationsModel = `module stations {
  yang-version 1.1;
  namespace "http://polycube.network/stations";
  prefix stations;
  import polycube-base { prefix polycube-base; }
  import polycube-standard-base { prefix polycube-standard-base; }
  polycube-base:service-description "Stations";
  uses polycube-standard-base:standard-base-yang-module;
  container fdb {
    leaf aging-time { type uint32; default "300"; }
    list entry {
      polycube-base:bulk;
      key "vlan address";
      leaf vlan { type uint16; }
      leaf address { type string; }
      leaf port { type leafref { path "../../../ports/name"; } }
      leaf age { type uint32; config false; }
    }
  }
  list seen { config false; key "address"; leaf address { type string; } }
}`

// stationCube learned addresses in VLAN 1. The one that is called fixed cannot be deleted.
type stationCube struct {
	learned map[string]bool
}

func (c *stationCube) State(context.Context, []string) (any, error) {
	entries := []map[string]any{}
	for _, address := range slices.Sorted(maps.Keys(c.learned)) {
		entries = append(entries, map[string]any{"vlan": 1, "address": address, "age": 5})
	}
	return map[string]any{"fdb": map[string]any{"entry": entries}, "seen": []map[string]any{{"address": "a"}}}, nil
}

func (c *stationCube) DeleteState(_ context.Context, path []string) error {
	address := path[len(path)-1]
	switch {
	case !c.learned[address]:
		return fmt.Errorf("%s: %w", address, cube.ErrNotFound)
	case address == "fixed":
		return fmt.Errorf("it follows from something else: %w", cube.ErrInvalid)
	}
	delete(c.learned, address)
	return nil
}

// newStations has a cube s with two ports, and a configured station behind the first.
func newStations(t *testing.T, learned ...string) (*lab, *stationCube) {
	t.Helper()
	c := &stationCube{learned: map[string]bool{}}
	for _, address := range learned {
		c.learned[address] = true
	}
	objects := map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {1}}
	m, err := topology.New(topology.Options{
		Datapath: noKernel{}, Netdevs: madeUpNetdevs{}, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Services: []cube.Service{
			{Model: stationsModel, Objects: objects, New: func(cube.Env) (cube.Instance, error) {
				return cube.Instance{Prepare: accepts, State: c.State, DeleteState: c.DeleteState}, nil
			}},
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
	l := newLab(t, Options{Manager: m, Rate: -1}, false)
	l.must(t, 201, "POST", "/cubes", `[{"name":"s","service-name":"stations","ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}],
		"fdb":{"entry":[{"vlan":1,"address":"set","port":"p1"}]}},{"name":"t1","service-name":"tap"}]`)
	l.must(t, 200, "POST", "/attach", `{"cube":"t1","port":"s:p1"}`)
	return l, c
}

// typed sends what the command line does for `del`.
func (l *lab) typed(t testing.TB, path string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodDelete, "http://daemon"+message.BasePath+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(resource.VerbHeader, resource.VerbDel)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return l.send(t, l.client, req)
}

func (l *lab) addresses(t testing.TB) []string {
	t.Helper()
	return keysIn(t, l.must(t, 200, "GET", "/stations/s/fdb/entry", "").body, "address")
}

// TestDeletingAWholeList: a program needs no confirmation, and what could be deleted entry by entry is gone.
func TestDeletingAWholeList(t *testing.T) {
	l, _ := newStations(t, "one", "two", "fixed")
	l.must(t, 200, "DELETE", "/stations/s/fdb/entry", "")
	if got := l.addresses(t); !slices.Equal(got, []string{"fixed"}) {
		t.Errorf("%q are left, want the one that cannot be deleted", got)
	}
	l.must(t, 400, "DELETE", "/stations/s/fdb/entry/1/fixed", "")
	l.must(t, 200, "DELETE", "/stations/s/fdb/entry", "") // nothing to do is no error
	l.must(t, 200, "DELETE", "/stations/s/ports?all", "")
	l.must(t, 200, "DELETE", "/stations/s/ports", "")
}

// TestAListThatSomethingDependsOn stays whole, with all that was learned, and the response names what depends on it.
func TestAListThatSomethingDependsOn(t *testing.T) {
	l, c := newStations(t, "one")
	before := l.must(t, 200, "GET", "/stations/s", "").body
	e := l.must(t, 400, "DELETE", "/stations/s/ports", "").fault(t)
	if want := `fdb entry 1 set port: refers to "p1", which is not in ports/name`; e.Message != want || e.Near != nil {
		t.Errorf("the answer is %q, did-you-mean %q; want %q", e.Message, e.Near, want)
	}
	if after := l.must(t, 200, "GET", "/stations/s", "").body; after != before || !c.learned["one"] {
		t.Errorf("the cube was\n%s\nand is\n%s", before, after)
	}
}

// TestAListOfStateThatIsOnlyRead answers the same for the list as for an entry.
func TestAListOfStateThatIsOnlyRead(t *testing.T) {
	l, _ := newStations(t)
	for _, path := range []string{"/stations/s/seen", "/stations/s/seen/a", "/stations/s/seen?all"} {
		for _, a := range []answer{l.do(t, "DELETE", path, ""), l.typed(t, path)} {
			if e := a.fault(t); a.status != 405 || e.Message != "seen is state: it can only be read" {
				t.Errorf("%s: %d %s", path, a.status, e.Message)
			}
		}
	}
}

// TestAPersonIsAskedBeforeAListIsDeleted: what was typed is refused with a question, and nothing changed.
func TestAPersonIsAskedBeforeAListIsDeleted(t *testing.T) {
	l, c := newStations(t, "one", "two")
	l.must(t, 201, "POST", "/stations/none", `{"ports":[{"name":"p1"}]}`)
	many, _ := newFlows(t, 1)
	for _, tt := range []struct {
		l                       *lab
		path, message, question string
		detail                  []string
	}{
		{l, "/stations/s/fdb/entry", "s fdb entry is a list: append <vlan> <address> to delete one entry, or --all to delete every entry",
			"Delete all 3 entries of s fdb entry (1 configured), except those derived from other configuration?", nil},
		{l, "/stations/s/ports", "s ports is a list: append <name> to delete one entry, or --all to delete every entry",
			"Delete all 2 entries of s ports?", []string{"p1, wired to veth1, t1 attached", "p2"}},
		{l, "/stations/none/ports", "none ports is a list: append <name> to delete one entry, or --all to delete every entry",
			"Delete the only entry of none ports?", []string{"p1"}},
		{many, "/flows/f1/flow", "f1 flow is a list: append <src> <port> to delete one entry, or --all to delete every entry",
			"Delete the only entry of f1 flow?", nil},
	} {
		before := tt.l.must(t, 200, "GET", tt.path, "").body
		a := tt.l.typed(t, tt.path)
		e := a.fault(t)
		if a.status != 400 || e.Tag != "confirmation-required" || e.Info != "all" || e.Message != tt.message || e.Question != tt.question || !slices.Equal(e.Detail, tt.detail) {
			t.Errorf("%s: %d %+v", tt.path, a.status, e)
		}
		if after := tt.l.must(t, 200, "GET", tt.path, "").body; after != before {
			t.Errorf("%s: it was\n%s\nand is\n%s", tt.path, before, after)
		}
		if a := tt.l.typed(t, tt.path+"?all", "If-Match", "*"); tt.path == "/stations/s/fdb/entry" && a.status != 200 {
			t.Errorf("%s, confirmed: %d %s", tt.path, a.status, a.body)
		}
	}
	if len(c.learned) != 0 {
		t.Errorf("%v are still learned", c.learned)
	}
	if e := l.typed(t, "/stations/s/fdb/entry").fault(t); e.Question != "" || e.Tag != "confirmation-required" {
		t.Errorf("an empty list: %+v", e)
	}
}

// TestAListOfMany is not counted to its end.
func TestAListOfMany(t *testing.T) {
	l, _ := newStations(t)
	var entries []string
	for i := range cubes.MaxCounted {
		entries = append(entries, fmt.Sprintf(`{"vlan":2,"address":"a%d"}`, i))
	}
	l.must(t, 201, "POST", "/stations/s/fdb/entry", "["+strings.Join(entries, ",")+"]")
	if e := l.typed(t, "/stations/s/fdb/entry").fault(t); e.Question != "Delete all entries of s fdb entry, more than 10000?" {
		t.Errorf("the question is %q", e.Question)
	}
	var ports []map[string]string
	for i := range cubes.MaxPortsNamed {
		ports = append(ports, map[string]string{"name": fmt.Sprintf("q%d", i)})
	}
	body, err := json.Marshal(ports)
	if err != nil {
		t.Fatal(err)
	}
	l.must(t, 201, "POST", "/stations/s/ports", string(body))
	if e := l.typed(t, "/stations/s/ports").fault(t); len(e.Detail) != cubes.MaxPortsNamed+1 || e.Detail[cubes.MaxPortsNamed] != "and 2 more" {
		t.Errorf("the ports are %q", e.Detail)
	}
}

// TestTheConfigurationThatAQuestionIsAbout: what came meanwhile is not deleted by a reply to an earlier question.
func TestTheConfigurationThatAQuestionIsAbout(t *testing.T) {
	l, _ := newStations(t, "one")
	tag := l.typed(t, "/stations/s/fdb/entry").header.Get("ETag")
	l.must(t, 201, "POST", "/stations/s/fdb/entry/7/new", `{}`)
	if a := l.typed(t, "/stations/s/fdb/entry?all", "If-Match", tag); a.status != 412 || len(l.addresses(t)) != 3 {
		t.Errorf("a reply that is too late: %d, %q are left", a.status, l.addresses(t))
	}
	tag = l.typed(t, "/stations/s/fdb/entry").header.Get("ETag")
	if a := l.typed(t, "/stations/s/fdb/entry?all", "If-Match", tag); a.status != 200 || len(l.addresses(t)) != 0 {
		t.Errorf("a reply in time: %d, %q are left", a.status, l.addresses(t))
	}
}

// TestAllIsForLists: on anything else it is refused, and nothing happens.
func TestAllIsForLists(t *testing.T) {
	l, _ := newStations(t, "one")
	before := l.must(t, 200, "GET", "/stations/s", "").body
	for path, words := range map[string]string{
		"/stations/s": "s", "/stations/s/fdb": "s fdb", "/stations/s/fdb/aging-time": "s fdb aging-time",
		"/stations/s/fdb/entry/1/set": "s fdb entry 1 set", "/stations/s/fdb/entry/1": "s fdb entry 1",
		"/stations/s/fdb/entry/1/one": "s fdb entry 1 one", "/stations/s/ports/p2": "s ports p2", "/stations/s/ports/p1/peer": "s ports p1 peer",
	} {
		if e := l.typed(t, path+"?all").fault(t); e.Message != words+" is not a list: delete it without --all" {
			t.Errorf("%s, typed: %s", path, e.Message)
		}
		if e := l.must(t, 400, "DELETE", path+"?all", "").fault(t); e.Message != words+" is not a list: delete it without all" {
			t.Errorf("%s: %s", path, e.Message)
		}
	}
	if after := l.must(t, 200, "GET", "/stations/s", "").body; after != before {
		t.Errorf("the cube was\n%s\nand is\n%s", before, after)
	}
	for path, want := range map[string]string{
		"/stations": "the cubes of stations are deleted one at a time: append <name> to the path", "/stations/nobody/ports": `no stations is named "nobody"`,
	} {
		if e := l.typed(t, path).fault(t); e.Message != want {
			t.Errorf("%s: %s", path, e.Message)
		}
	}
}

// TestTheDescriptionHasAllAtLists: the parameter is described where it means something.
func TestTheDescriptionHasAllAtLists(t *testing.T) {
	l, _ := newStations(t)
	var doc struct {
		Paths map[string]struct {
			Delete struct {
				Parameters  []struct{ Name, In string }
				Description string
			}
		}
	}
	if err := json.Unmarshal([]byte(l.must(t, 200, "GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/stations/{name}/fdb/entry": true, "/stations/{name}/ports": true, "/stations/{name}/fdb": false,
		"/stations/{name}/fdb/entry/{vlan}/{address}": false, "/stations/{name}": false,
	} {
		o := doc.Paths[path].Delete
		got := slices.Contains(o.Parameters, struct{ Name, In string }{"all", "query"})
		if got != want || strings.Contains(o.Description, "Entries derived from other configuration stay") != want {
			t.Errorf("DELETE of %s: %+v, want the parameter: %v", path, o, want)
		}
	}
}

// TestHelpOffersAllAtLists: where it can be given, to those who ask for flags.
func TestHelpOffersAllAtLists(t *testing.T) {
	l, _ := newStations(t, "one")
	for path, want := range map[string]bool{
		"/stations/s/fdb/entry?help=DEL": true, "/stations/s/ports?help=DEL": true, "/stations/s/ports?help=SHOW": false,
		"/stations/s/ports?help=NONE": false, "/stations/s/fdb?help=DEL": false, "/stations/s/seen?help=DEL": false,
		"/stations/s/fdb/entry/1?help=DEL": false, "/stations/s/ports/p1?help=DEL": false, "/stations?help=DEL": false,
	} {
		if got := strings.Contains(l.must(t, 200, "OPTIONS", path, "").body, `"flags":{"--all":{`); got != want {
			t.Errorf("help of %s has the flag: %v, want %v", path, got, want)
		}
		words := l.must(t, 200, "OPTIONS", path+"&completion=word", "").body
		dashes := l.must(t, 200, "OPTIONS", path+"&completion=word&prefix=-", "").body
		if strings.Contains(words, "--all") || (strings.TrimSpace(dashes) == `["--all"]`) != want {
			t.Errorf("completion of %s: %s, behind a dash %s", path, words, dashes)
		}
	}
}
