// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology"
)

const flowsModel = `module flows {
  yang-version 1.1;
  namespace "http://polycube.network/flows";
  prefix flows;
  import polycube-base { prefix polycube-base; }
  import polycube-transparent-base { prefix polycube-transparent-base; }
  description "Sessions.";
  polycube-base:service-description "Sessions";
  uses polycube-transparent-base:transparent-base-yang-module;
  list flow {
    polycube-base:paged;
    polycube-base:deletable;
    config false;
    key "src port";
    leaf src { type string; }
    leaf port { type uint16; }
    leaf packets { type uint32; }
  }
}`

// flowCube has flows by number; a page looks at few of them, and its cursor is a number.
type flowCube struct {
	flows map[int]bool
	asked []cube.PageQuery
}

const lookedAt = 7

func (f *flowCube) entry(n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"src":"10.0.0.%d","port":%d,"packets":%d}`, n%5, n, n*10))
}

func (f *flowCube) Page(_ context.Context, _ []string, q cube.PageQuery) (cube.Page, error) {
	f.asked = append(f.asked, q)
	var page cube.Page
	from := 0
	if q.After != "" {
		number, ok := strings.CutPrefix(q.After, "c.")
		var err error
		if from, err = strconv.Atoi(number); err != nil || !ok {
			return page, fmt.Errorf("after %q: %w", q.After, cube.ErrInvalid)
		}
	}
	for n, looked := from, 0; n < 100; n, looked = n+1, looked+1 {
		if looked == lookedAt || len(page.Entries) == q.Limit {
			page.Next = fmt.Sprintf("c.%d", n)
			break
		}
		if f.flows[n] && (q.Matches == nil || q.Matches(f.entry(n))) {
			page.Entries = append(page.Entries, f.entry(n))
		}
	}
	return page, nil
}

func (f *flowCube) State(_ context.Context, path []string) (any, error) {
	if len(path) < 3 {
		return nil, nil
	}
	n, err := strconv.Atoi(path[2])
	if err != nil || !f.flows[n] {
		return nil, nil //nolint:nilerr // no flow has such a number
	}
	return map[string]any{"flow": []json.RawMessage{f.entry(n)}}, nil
}

func (f *flowCube) DeleteState(_ context.Context, path []string) error {
	if len(path) == 1 {
		clear(f.flows)
		return nil
	}
	n, err := strconv.Atoi(path[2])
	if err != nil || !f.flows[n] {
		return fmt.Errorf("flow %v: %w", path[1:], cube.ErrNotFound)
	}
	delete(f.flows, n)
	return nil
}

func newFlows(t *testing.T, flows ...int) (*lab, *flowCube) {
	t.Helper()
	f := &flowCube{flows: map[int]bool{}}
	for _, n := range flows {
		f.flows[n] = true
	}
	m, err := topology.New(topology.Options{
		Datapath: noKernel{}, Netdevs: madeUpNetdevs{}, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Services: []cube.Service{{Model: flowsModel, Objects: map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {1}},
			New: func(cube.Env) (cube.Instance, error) {
				return cube.Instance{Prepare: accepts, State: f.State, Page: f.Page, DeleteState: f.DeleteState}, nil
			}}},
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
	l.must(t, 201, "POST", "/flows/f1", "")
	return l, f
}

// TestPagesOfState: a list that is marked `paged` is read in pages of any size by the cube's cursors, or streamed, and
// the cube is never asked for more than a page.
func TestPagesOfState(t *testing.T) {
	var flows []int
	for n := range 33 {
		flows = append(flows, n*3)
	}
	l, f := newFlows(t, flows...)
	whole := keysIn(t, l.must(t, 200, "GET", "/flows/f1/flow", "").body, "port")
	if len(whole) != len(flows) {
		t.Errorf("%d flows are streamed, want %d", len(whole), len(flows))
	}
	for _, tt := range []struct {
		query string
		want  int
	}{{"", 33}, {"&filter=src=10.0.0.3", 7}, {"&filter=packets%3E=900", 3}, {"&filter=src=none", 0}} {
		for _, size := range []int{1, 2, 5, 7, 33, 1000} {
			var all []string
			for next := fmt.Sprintf("/flows/f1/flow/?limit=%d%s", size, tt.query); next != ""; {
				a := l.must(t, 200, "GET", next, "")
				keys := keysIn(t, a.body, "port")
				if next = nextOf(a.header); len(keys) > size || next != "" && len(keys) < size {
					t.Fatalf("%d%s: a page has %d entries, the next is %q", size, tt.query, len(keys), next)
				}
				all = append(all, keys...)
			}
			if len(all) != tt.want || !slices.IsSortedFunc(all, func(a, b string) int { return len(a)*100 + strings.Compare(a, b) - len(b)*100 }) {
				t.Errorf("%d%s: %v, want %d", size, tt.query, all, tt.want)
			}
		}
	}
	for _, q := range f.asked {
		if q.Limit < 1 || q.Limit > 1000 {
			t.Errorf("the cube was asked for %d entries", q.Limit)
		}
	}
	// After without limit is the rest.
	if rest := keysIn(t, l.must(t, 200, "GET", "/flows/f1/flow?after=c.90", "").body, "port"); !slices.Equal(rest, []string{"90", "93", "96"}) {
		t.Errorf("the rest is %v", rest)
	}
	if body := l.must(t, 400, "GET", "/flows/f1/flow?after=10.0.0.1/7", "").body; !strings.Contains(body, "10.0.0.1/7") {
		t.Errorf("what is no cursor: %s", body)
	}
	// What is above has no flows, one of them is read alone.
	if body := l.must(t, 200, "GET", "/flows/f1", "").body; strings.Contains(body, "10.0.0.") {
		t.Errorf("the cube has %s", body)
	}
	l.must(t, 200, "GET", "/flows/f1/flow/10.0.0.3/3", "")
	l.must(t, 404, "GET", "/flows/f1/flow/10.0.0.4/4", "")
}

// TestStateThatCanBeDeleted: entries of a list that is marked `deletable`, one or all; nothing else of it can be changed.
func TestStateThatCanBeDeleted(t *testing.T) {
	l, f := newFlows(t, 1, 2, 3)
	l.must(t, 204, "DELETE", "/flows/f1/flow/10.0.0.2/2", "")
	l.must(t, 404, "GET", "/flows/f1/flow/10.0.0.2/2", "")
	l.must(t, 409, "DELETE", "/flows/f1/flow/10.0.0.2/2", "")
	for _, method := range []string{"POST", "PUT", "PATCH"} {
		a := l.must(t, http.StatusMethodNotAllowed, method, "/flows/f1/flow", "[]")
		if !strings.Contains(a.body, "read and deleted") || a.header.Get("Allow") != "GET, DELETE, OPTIONS" {
			t.Errorf("%s: %s, allowed are %s", method, a.body, a.header.Get("Allow"))
		}
	}
	l.must(t, 200, "DELETE", "/flows/f1/flow", "")
	if len(f.flows) != 0 || l.must(t, 200, "GET", "/flows/f1/flow", "").body != "[]" {
		t.Errorf("left are %v", f.flows)
	}
	if body := l.must(t, 200, "OPTIONS", "/flows/f1/flow?help=NONE&completion", "").body; !strings.Contains(body, `"del"`) {
		t.Errorf("completion offers %s", body)
	}
}
