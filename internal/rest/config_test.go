// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology"
)

// newStoredManager makes a real manager with a real store.
func newStoredManager(t testing.TB) *topology.Manager {
	t.Helper()
	s, state, err := store.Open(store.Options{Dir: t.TempDir() + "/store", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return managerOf(t, topology.Options{Store: s, State: state})
}

func managerOf(t testing.TB, o topology.Options) *topology.Manager {
	t.Helper()
	objects := map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {1}}
	o.Datapath, o.Netdevs, o.Version, o.Logger = noKernel{}, madeUpNetdevs{}, "test", slog.New(slog.DiscardHandler)
	o.Services = []cube.Service{
		{Model: labModel, Objects: objects, New: newLabCube},
		{Model: tapModel, Objects: objects, New: newTap},
	}
	m, err := topology.New(o)
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

const labDocument = `{"cubes":[{"name":"l1","service-name":"lab","ports":[{"name":"p1","peer":"veth1","tcubes":["t1"]}],"fdb":{"aging-time":60}},` +
	`{"name":"t1","service-name":"tap"},{"name":"t2","service-name":"tap"}],"netdevs":[{"name":"veth2","tcubes":["t2"]}]}`

func TestConfigurationGoesOutAndIn(t *testing.T) {
	l := newLab(t, Options{Manager: newStoredManager(t)}, false)
	a := l.must(t, http.StatusOK, "PATCH", "/config?dry-run", labDocument)
	var applied topology.Applied
	if err := json.Unmarshal([]byte(a.body), &applied); err != nil || !applied.Changed || !applied.DryRun || len(applied.Difference.Cubes) != 3 {
		t.Errorf("the dry run answers %s (%v)", a.body, err)
	}
	if a := l.must(t, http.StatusOK, "GET", "/config", ""); a.body != `{"cubes":[]}` || a.header.Get("ETag") != `"0"` {
		t.Errorf("after a dry run there is %s at %s", a.body, a.header.Get("ETag"))
	}
	l.must(t, http.StatusOK, "PATCH", "/config", labDocument)
	a = l.must(t, http.StatusOK, "GET", "/config", "")
	if a.body != labDocument || a.header.Get("ETag") != `"1"` || a.header.Get("Content-Type") != message.ContentType {
		t.Errorf("it exports %s at %s", a.body, a.header.Get("ETag"))
	}
	if a := l.must(t, http.StatusOK, "HEAD", "/config", ""); a.body != "" || a.header.Get("ETag") != `"1"` {
		t.Errorf("HEAD answers %q at %s", a.body, a.header.Get("ETag"))
	}
	l.must(t, http.StatusOK, "PUT", "/config", `[{"name":"t2","service-name":"tap"}]`)
	if a := l.must(t, http.StatusOK, "GET", "/config", ""); a.body != `{"cubes":[{"name":"t2","service-name":"tap"}]}` {
		t.Errorf("a whole configuration leaves %s", a.body)
	}
	if a := l.must(t, http.StatusOK, "GET", "/config?revision=1", ""); a.body != labDocument {
		t.Errorf("revision 1 is %s", a.body)
	}
	l.must(t, http.StatusOK, "POST", "/rollback", `{"revision":1}`)
	if a := l.must(t, http.StatusOK, "GET", "/config", ""); a.body != labDocument {
		t.Errorf("a rollback leaves %s", a.body)
	}
	var history topology.History
	a = l.must(t, http.StatusOK, "GET", "/history?limit=2", "")
	if err := json.Unmarshal([]byte(a.body), &history); err != nil || len(history.Revisions) != 2 || history.Revision != 3 ||
		history.Revisions[0].Note != "rollback to revision 1" || history.Revisions[0].By[0].What != "POST "+message.BasePath+"/rollback" {
		t.Errorf("history is %s (%v)", a.body, err)
	}
	a = l.must(t, http.StatusOK, "GET", "/history/2", "")
	var detail topology.RevisionDetail
	if err := json.Unmarshal([]byte(a.body), &detail); err != nil || detail.Number != 2 || len(detail.Difference.Cubes) != 2 || len(detail.Difference.Netdevs) != 1 {
		t.Errorf("revision 2 is %s (%v)", a.body, err)
	}
}

func TestConfigurationHoldsForTheRevisionThatWasSeen(t *testing.T) {
	l := newLab(t, Options{Manager: newStoredManager(t)}, false)
	l.must(t, http.StatusOK, "PATCH", "/config", labDocument)
	put := func(match string) answer {
		req, err := http.NewRequest("PUT", "http://daemon"+message.BasePath+"/config", strings.NewReader(`[]`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("If-Match", match)
		return l.send(t, l.client, req)
	}
	if a := put(`"0"`); a.status != http.StatusPreconditionFailed || a.fault(t).Tag != message.TagStale {
		t.Errorf("an old revision: %d %s", a.status, a.body)
	}
	if a := put(`"x"`); a.status != http.StatusBadRequest {
		t.Errorf("no revision: %d %s", a.status, a.body)
	}
	if a := put(`"1"`); a.status != http.StatusOK {
		t.Errorf("the revision: %d %s", a.status, a.body)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	l := newLab(t, Options{Manager: newStoredManager(t)}, false)
	l.must(t, http.StatusOK, "PATCH", "/config", labDocument)
	cases := []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"no document", "PUT", "/config", "", 400, "the document is empty"},
		{"no JSON", "PUT", "/config", "cubes: []", 400, "not JSON"},
		{"a model's fault", "PATCH", "/config", `[{"name":"l1","service-name":"lab","fdb":{"aging-time":-1}}]`, 400, "cubes[0] l1: fdb aging-time"},
		{"a wrong word", "PATCH", "/config", `[{"name":"l1","service-name":"lab","moode":"DROP"}]`, 400, "did you mean mode?"},
		{"a wrong service", "PATCH", "/config", `[{"name":"l1","service-name":"labb"}]`, 400, "did you mean lab?"},
		{"a netdev that is down", "PATCH", "/config", `[{"name":"l1","service-name":"lab","ports":[{"name":"p1","peer":"down0"}]}]`, 400, "cubes[0] l1: port p1 of l1: peer down0: netdev down0 is down"},
		{"a peer in use", "PATCH", "/config", `[{"name":"l2","service-name":"lab","ports":[{"name":"p1","peer":"veth1"}]}]`, 409, "already the peer of l1:p1"},
		{"an unknown parameter", "PATCH", "/config?dryrun", `[]`, 400, "did you mean dry-run?"},
		{"a wrong parameter", "PATCH", "/config?dry-run=perhaps", `[]`, 400, "true or false"},
		{"another method", "POST", "/config", `[]`, 405, "only GET, PUT, PATCH, OPTIONS"},
		{"a revision to come", "GET", "/config?revision=9", "", 404, "the configuration is at revision 1"},
		{"no revision", "GET", "/history/x", "", 400, "a revision must be a number"},
		{"a revision that nobody made", "GET", "/history/9", "", 404, "the configuration is at revision 1"},
		{"too long a history", "GET", "/history?limit=100000", "", 400, "from 1 to 1000"},
		{"a rollback to nowhere", "POST", "/rollback", `{}`, 400, "expected the number of a revision"},
		{"a rollback to the future", "POST", "/rollback", `{"revision":9}`, 400, "the configuration is at revision 1"},
		{"a document of 33 MB", "PUT", "/config", `[{"name":"` + strings.Repeat("x", 33<<20) + `"}]`, 413, "larger than 32 MiB"},
		{"a cube with the name of a resource", "PATCH", "/config", `[{"name":"history","service-name":"lab"}]`, 400, "is reserved for the command line"},
	}
	for _, c := range cases {
		a := l.do(t, c.method, c.path, c.body)
		if a.status != c.status || !strings.Contains(a.body, c.says) {
			t.Errorf("%s: %d, want %d; %.300s, want %q", c.name, a.status, c.status, a.body, c.says)
		}
		a.fault(t)
	}
	a := l.do(t, "PATCH", "/config", `[{"name":"l1","service-name":"lab","fdb":{"aging-time":-1},"route":[{"network":"a","nexthop":"b","pathcost":999}]},{"name":"x","service-name":"tapp"}]`)
	var body message.ErrorBody
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || len(body.Errors.Error) != 3 {
		t.Fatalf("three faults are %s (%v)", a.body, err)
	}
	for i, want := range []message.ErrorEntry{{Path: "/cubes/l1/fdb/aging-time", Info: "cubes[0] l1"}, {Path: "/cubes/l1/route/a/b/pathcost", Info: "cubes[0] l1"}, {Path: "/cubes/x/service-name", Info: "cubes[1] x"}} {
		if e := body.Errors.Error[i]; e.Path != want.Path || e.Info != want.Info {
			t.Errorf("fault %d is at %s (%s), want %s (%s)", i, e.Path, e.Info, want.Path, want.Info)
		}
	}
	if a := l.must(t, http.StatusOK, "GET", "/config", ""); a.body != labDocument || a.header.Get("ETag") != `"1"` {
		t.Errorf("refused requests left %s at %s", a.body, a.header.Get("ETag"))
	}
}

func TestWithoutAStoreThereIsNoHistory(t *testing.T) {
	l := newLab(t, Options{}, false)
	for _, path := range []string{"/history", "/history/1", "/config?revision=1"} {
		if a := l.do(t, "GET", path, ""); a.status != http.StatusBadRequest || a.fault(t).Tag != message.TagUnsupported {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
		}
	}
}
