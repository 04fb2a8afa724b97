// SPDX-License-Identifier: Apache-2.0

package topology

// DELETE of whole lists: configured entries, those of the cube's code, and those that stay.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// mixed makes a bridge with a configured entry and two learned ones.
func mixed(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.must(bridges[0], `post br1 fdb entry aa <<< {"port":"p1"}`)
	l.b.learned["bb"], l.b.learned["cc"] = "p1", "p2"
	l.b.calls()
	return l
}

func TestDeletingAListDeletesWhatIsConfiguredAndWhatIsLearned(t *testing.T) {
	l := mixed(t)
	l.must(`del br1 fdb entry`)
	l.wantRead(`[]`, "br1", "fdb", "entry")
	if slices.ContainsFunc(slices.Collect(maps.Keys(l.records)), func(k string) bool { return strings.HasPrefix(k, world.EntryKey) }) {
		t.Error("an entry is still in the store")
	}
	// State is deleted last: until then, the change can be undone.
	calls := slices.DeleteFunc(l.b.calls(), func(c string) bool { return strings.HasPrefix(c, "br1 State") })
	want := []string{"br1 DeleteState fdb entry bb", "br1 DeleteState fdb entry cc"}
	if !slices.Equal(calls[max(0, len(calls)-2):], want) || !slices.Contains(calls, "br1 Commit") {
		t.Errorf("the calls are %q, want %q behind the commit", calls, want)
	}
	revision := l.view.Load().Revision
	l.must(`del br1 fdb entry`) // empty
	l.b.learned["bb"] = "p1"
	l.must(`del br1 fdb entry`)
	if len(l.b.learned) != 0 || l.view.Load().Revision != revision {
		t.Errorf("%v are learned, revision %d; want none, and %d as before", l.b.learned, l.view.Load().Revision, revision)
	}
}

func TestEntriesThatCannotBeDeletedStay(t *testing.T) {
	for _, refusal := range []error{cube.ErrInvalid, cube.ErrInUse, cube.ErrUnsupported, cube.ErrNotFound} {
		l := mixed(t)
		first := true
		l.b.setFail(func(call string) error {
			if call == "br1 DeleteState" && first {
				first = false
				return fmt.Errorf("bb follows from something else: %w", refusal)
			}
			return nil
		})
		l.must(`del br1 fdb entry`)
		l.wantRead(`[{"address":"bb","port":"p1","age":7}]`, "br1", "fdb", "entry")
	}
}

// A cube may answer that it has no such state.
func TestAListWithoutState(t *testing.T) {
	l := mixed(t)
	l.b.setFail(func(call string) error {
		if call == "br1 State" {
			return fmt.Errorf("no such list: %w", cube.ErrNotFound)
		}
		return nil
	})
	l.must(`del br1 fdb entry`)
	l.b.setFail(nil)
	l.wantRead(`[{"address":"bb","port":"p1","age":7},{"address":"cc","port":"p2","age":7}]`, "br1", "fdb", "entry")
}

func TestAListIsDeletedWholeOrNotAtAll(t *testing.T) {
	for _, tt := range []struct {
		step string
		// learned are left.
		learned int
	}{{"br1 Prepare", 2}, {"br1 Commit", 2}, {"br1 State", 2}, {"br1 DeleteState", 2}, {"store", 0}} {
		l := mixed(t)
		before := l.state()
		l.b.setFail(failAt(tt.step, nil))
		l.plane.setFail(failAt(tt.step, nil))
		if err := l.do(`del br1 fdb entry`); !errors.Is(err, errInjected) {
			t.Errorf("a failure of %s: %v", tt.step, err)
		}
		l.b.setFail(nil)
		l.plane.setFail(nil)
		if len(l.b.learned) != tt.learned {
			t.Errorf("after a failure of %s %d are learned, want %d", tt.step, len(l.b.learned), tt.learned)
		}
		l.wantState(before)
		l.wantRead(`{"address":"aa","port":"p1"}`, "br1", "fdb", "entry", "aa")
	}
}

func TestListsOfADegradedCube(t *testing.T) {
	l := mixed(t)
	l.must(`del br1 fdb entry aa`)
	l.b.setFail(failAt("br1 DeleteState", "spilled"))
	for _, want := range []string{"panic: spilled", "is degraded"} {
		if err := l.do(`del br1 fdb entry`); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A handler that waits for the data plane ends before the transaction that deletes state has locked that.
func TestAHandlerChangesProgramsBeforeAListIsDeleted(t *testing.T) {
	l := mixed(t)
	l.must(`del br1 fdb entry aa`)
	p := l.programsOf("br1")
	inside, deleted := make(chan struct{}), make(chan error, 1)
	var reloaded, within error
	l.b.setFail(func(call string) error {
		switch call {
		case "br1 PacketIn":
			close(inside)
			eventually(t, "the transaction begins", func() bool { return len(l.token) == 0 })
			reloaded = p.Reload(ingressSlot(1), cube.Program{Function: "from the handler"})
		case "br1 DeleteState":
			if within == nil {
				within = p.Reload(ingressSlot(2), cube.Program{Function: "too late"})
			}
		}
		return nil
	})
	l.PacketIn(1, &cube.PacketIn{Data: []byte("p")})
	<-inside
	go func() { deleted <- l.do(`del br1 fdb entry`) }()
	if err := <-deleted; err != nil || reloaded != nil || !errors.Is(within, cube.ErrInUse) {
		t.Fatalf("the list %v, the handler's change %v, that of DeleteState %v", err, reloaded, within)
	}
	if len(l.b.learned) != 0 {
		t.Errorf("%v are still learned", l.b.learned)
	}
}

const flowsModel = `module flows {
	yang-version 1.1; namespace "http://polycube.network/flows"; prefix flows;
	import polycube-base { prefix polycube-base; }
	import polycube-transparent-base { prefix polycube-transparent-base; }
	polycube-base:service-description "flows";
	uses polycube-transparent-base:transparent-base-yang-module;
	list flow { polycube-base:deletable; config false; key "id"; leaf id { type uint16; } }
	list page { polycube-base:deletable; polycube-base:paged; config false; key "id"; leaf id { type uint16; } }
	list set { key "id"; leaf id { type uint16; } }
	list seen { config false; key "id"; leaf id { type uint16; } }
}`

// flows have three of each. What DeleteState answers depends on the words behind the name of the list.
type flows struct {
	toy
	answers map[string]error
	deleted []string
}

func (f *flows) State(context.Context, []string) (any, error) {
	three := []map[string]any{{"id": 1}, {"id": 2}, {"id": 3}}
	return map[string]any{"flow": three, "seen": three}, nil
}

func (f *flows) Page(_ context.Context, _ []string, q cube.PageQuery) (cube.Page, error) {
	next := map[string]cube.Page{
		"":  {Entries: rawEntries(`{"id":1}`, `{"id":2}`), Next: "2"},
		"2": {Entries: rawEntries(`{"id":3}`)},
	}
	return next[q.After], nil
}

func (f *flows) DeleteState(_ context.Context, path []string) error {
	f.deleted = append(f.deleted, strings.Join(path, " "))
	return f.answers[strings.Join(path[1:], " ")]
}

func TestDeletingListsOfState(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		answers    map[string]error
		want, err  string
	}{
		{"all at once", "del f flow", nil, "flow", ""},
		{"one by one", "del f flow", map[string]error{"": cube.ErrNotFound}, "flow, flow 1, flow 2, flow 3", ""},
		{"by pages", "del f page", map[string]error{"": cube.ErrNotFound}, "page, page 1, page 2, page 3", ""},
		{"some stay", "del f flow", map[string]error{"": cube.ErrNotFound, "1": cube.ErrInvalid, "2": cube.ErrNotFound}, "flow, flow 1, flow 2, flow 3", ""},
		{"one fails", "del f flow", map[string]error{"": cube.ErrNotFound, "2": errInjected}, "flow, flow 1, flow 2", "injected"},
		{"all refused", "del f flow", map[string]error{"": cube.ErrInUse}, "flow", "in use"},
		{"only read", "del f seen", nil, "", "seen is read-only"},
		{"only read, an entry", "del f seen 1", nil, "", "seen is read-only"},
	} {
		f := &flows{answers: tt.answers}
		l := newLab(t)
		l.stop()
		l.extra = []cube.Service{{Model: flowsModel, New: func(e cube.Env) (cube.Instance, error) {
			f.toy = toy{e, l.b}
			return instanceOf(f), nil
		}}}
		l.start()
		l.must("create flows f")
		err := l.do(tt.line)
		if got := strings.Join(f.deleted, ", "); got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q was deleted, error %v; want %q, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// TestNobodyDeletesState: if the cube has no code to delete state, the answer is the same for the list and for an entry.
func TestNobodyDeletesState(t *testing.T) {
	l := newLab(t)
	l.stop()
	l.extra = []cube.Service{{Model: flowsModel, New: func(e cube.Env) (cube.Instance, error) {
		i := instanceOf(&flows{toy: toy{e, l.b}})
		i.DeleteState = nil
		return i, nil
	}}}
	l.start()
	l.must("create flows f")
	for _, line := range []string{"del f flow", "del f flow 1"} {
		if err := l.do(line); !errors.Is(err, service.ErrNoDeleter) || !errors.Is(err, cube.ErrUnsupported) {
			t.Errorf("%s: %v", line, err)
		}
	}
	// In a list of the configuration, there is nothing else to delete.
	l.must("post f set 1", "del f set", "del f set")
	if err := l.do("del f set 1"); !read.IsMissing(err) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("an entry that is not there: %v", err)
	}
}

func TestEntriesAreCounted(t *testing.T) {
	l := mixed(t)
	for _, tt := range []struct {
		list string
		most int
		want read.ListCount
	}{
		{"fdb entry", 9, read.ListCount{Entries: 3, Configured: 1}},
		{"fdb entry", 3, read.ListCount{Entries: 3, Configured: 1}},
		{"fdb entry", 2, read.ListCount{Entries: 2, Configured: 1, More: true}},
		{"ports", 9, read.ListCount{Entries: 2, Configured: 2}},
	} {
		var path yang.Path
		for word := range strings.FieldsSeq(tt.list) {
			path = append(path, yang.Step{Name: word})
		}
		if got, err := l.CountEntries(context.Background(), "toybridge", "br1", path, tt.most); err != nil || got != tt.want {
			t.Errorf("%s, at most %d: %+v, %v; want %+v", tt.list, tt.most, got, err, tt.want)
		}
	}
	if _, err := l.CountEntries(context.Background(), "toybridge", "br1", yang.Path{{Name: "fdb"}}, 9); err == nil {
		t.Error("the entries of a container are counted")
	}
}

func rawEntries(texts ...string) (out []json.RawMessage) {
	for _, text := range texts {
		out = append(out, json.RawMessage(text))
	}
	return out
}
