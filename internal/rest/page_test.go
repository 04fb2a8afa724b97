// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/topology"
)

//go:embed testdata/wide.yang
var wideModel string

// newWide serves w1, a cube with lists.
func newWide(t testing.TB) *lab {
	t.Helper()
	m, err := topology.New(topology.Options{
		Datapath: noKernel{}, Netdevs: madeUpNetdevs{}, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Services: []cube.Service{{Model: wideModel, Objects: map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {1}},
			New: newTap}},
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
	var rules []string
	for i := range 25 {
		rules = append(rules, fmt.Sprintf(`{"id":%d,"action":%q,"src":"10.0.%d.0/24"}`, 100-i, []string{"DROP", "FORWARD"}[i%2], i%3))
	}
	l.must(t, 201, "POST", "/wide/w1", `{"rule":[`+strings.Join(rules, ",")+`],"route":[
		{"network":"10.0.0.0/8","nexthop":"a","cost":18446744073709551615,"tag":["x","y"]},
		{"network":"fe80::/10","nexthop":"b c","cost":3,"more":{"hops":7}},
		{"network":"0.0.0.0/0","nexthop":"a/b","cost":20,"tag":["y"]}]}`)
	return l
}

// keysIn are the values of a member of an array's entries.
func keysIn(t testing.TB, body, member string) (out []string) {
	t.Helper()
	var entries []map[string]any
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&entries); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, e := range entries {
		out = append(out, fmt.Sprint(e[member]))
	}
	return out
}

// nextOf is the path of the next page, "" when there is none.
func nextOf(h http.Header) string {
	for part := range strings.SplitSeq(h.Get("Link"), ", ") {
		if target, ok := strings.CutSuffix(part, `>; rel="next"`); ok {
			return strings.TrimPrefix(strings.TrimPrefix(target, "<"), message.BasePath)
		}
	}
	return ""
}

// TestPages: the pages of a list, one behind the other by their links, are the list, whatever the size of a page.
func TestPages(t *testing.T) {
	l := newWide(t)
	l.must(t, 201, "POST", "/wide/w2", "")
	l.must(t, 201, "POST", "/wide/w3", "")
	for _, tt := range []struct {
		path, key string
		count     int
	}{{"/wide/w1/rule", "id", 25}, {"/wide/w1/route", "nexthop", 3}, {"/wide", "name", 3}, {"/wide/w1/ports", "name", 0}} {
		whole := keysIn(t, l.must(t, 200, "GET", tt.path, "").body, tt.key)
		if len(whole) != tt.count {
			t.Errorf("%s has %d entries, want %d", tt.path, len(whole), tt.count)
		}
		for _, size := range []int{1, 2, 7, 24, 25, 26, 1000} {
			var all []string
			pages := 0
			for next := fmt.Sprintf("%s/?limit=%d", tt.path, size); next != ""; pages++ {
				a := l.must(t, 200, "GET", next, "")
				keys := keysIn(t, a.body, tt.key)
				if len(keys) > size || a.header.Get("Content-Type") != message.ContentType {
					t.Fatalf("%s: %d entries of type %s", next, len(keys), a.header.Get("Content-Type"))
				}
				all, next = append(all, keys...), nextOf(a.header)
			}
			if !slices.Equal(all, whole) || pages != max(1, (len(whole)+size-1)/size) {
				t.Errorf("%s by %d: %d pages with %v, want %v", tt.path, size, pages, all, whole)
			}
		}
	}
}

// TestPagesOfAListThatChanges: an entry that goes while somebody reads pages of a large list costs nobody another entry.
func TestPagesOfAListThatChanges(t *testing.T) {
	l := newWide(t)
	a := l.must(t, 200, "GET", "/wide/w1/rule?limit=10", "")
	first := keysIn(t, a.body, "id")
	l.must(t, 204, "DELETE", "/wide/w1/rule/"+first[9], "") // the one that the next page begins behind
	l.must(t, 204, "DELETE", "/wide/w1/rule/"+first[0], "")
	rest := keysIn(t, l.must(t, 200, "GET", strings.Replace(nextOf(a.header), "limit=10", "limit=100", 1), "").body, "id")
	if len(rest) != 15 || rest[0] != "86" {
		t.Errorf("behind %v comes %v", first, rest)
	}
}

// TestFilters: which entries are left, for each operator and type.
func TestFilters(t *testing.T) {
	l := newWide(t)
	tests := []struct {
		path    string
		filters []string
		key     string
		want    string
	}{
		{"/wide/w1/rule", []string{"action=forward", "src=10.0.1.0/24"}, "id", "81 87 93 99"},
		{"/wide/w1/rule", []string{"id<=78"}, "id", "76 77 78"},
		{"/wide/w1/rule", []string{"id>98"}, "id", "99 100"},
		{"/wide/w1/rule", []string{"id>=98", "id<100"}, "id", "98 99"},
		{"/wide/w1/rule", []string{"src=*.2.*", "action!=DROP"}, "id", "77 83 89 95"},
		{"/wide/w1/rule", []string{"src=172.*"}, "id", ""},
		{"/wide/w1/rule", []string{"id=9*9"}, "id", "99"},
		{"/wide/w1/route", []string{"cost>18446744073709551614"}, "nexthop", "a"},
		{"/wide/w1/route", []string{"cost=3"}, "nexthop", "b c"},
		{"/wide/w1/route", []string{"tag=y"}, "nexthop", "a a/b"},
		{"/wide/w1/route", []string{"tag!=y"}, "nexthop", "b c"},
		{"/wide/w1/route", []string{"tag!=x"}, "nexthop", "b c a/b"},
		{"/wide/w1/route", []string{"more.hops=7"}, "nexthop", "b c"},
		{"/wide/w1/route", []string{"more.hops!=7"}, "nexthop", "a a/b"},
		{"/wide/w1/route", []string{"more.hops<9"}, "nexthop", "b c"},
		{"/wide/w1/route", []string{"network=FE80::/10"}, "nexthop", "b c"},
		{"/wide", []string{"name=w*"}, "name", "w1"},
		{"/wide", []string{"level=2"}, "name", ""},
	}
	for _, tt := range tests {
		q := url.Values{resource.ParamFilter: tt.filters}
		if got := strings.Join(keysIn(t, l.must(t, 200, "GET", tt.path+"?"+q.Encode(), "").body, tt.key), " "); got != tt.want {
			t.Errorf("%s %v: %q, want %q", tt.path, tt.filters, got, tt.want)
		}
	}
	// A limit counts what is shown, and the next page keeps the filter.
	var all []string
	for next := "/wide/w1/rule?limit=5&filter=action%3DDROP"; next != ""; {
		a := l.must(t, 200, "GET", next, "")
		all, next = append(all, keysIn(t, a.body, "action")...), nextOf(a.header)
	}
	if len(all) != 13 || slices.Contains(all, "FORWARD") {
		t.Errorf("pages with a filter: %v", all)
	}
}

// TestWrongPages: what cannot be meant is answered with a sentence.
func TestWrongPages(t *testing.T) {
	l := newWide(t)
	tests := []struct{ path, says string }{
		{"/wide/w1/rule?limit=0", "from 1 to"}, {"/wide/w1/rule?limit=many", "from 1 to"}, {"/wide/w1/rule?limit=1000001", "from 1 to"},
		{"/wide/w1/rule?limi=5", "unknown parameter \"limi\""},
		{"/wide/w1/route?after=10.0.0.0", "the 2 keys"}, {"/wide/w1/route?after=a/%25zz", "encoded as in a path"},
		{"/wide/w1/rule?after=x", "x"}, {"/wide/w1/route?after=gone/gone", "no longer exists, read from the start"}, {"/wide?after=gone", "no longer exists"},
		{"/wide/w1/rule?filter=action", "write a leaf"}, {"/wide/w1/rule?filter==5", "write a leaf"},
		{"/wide/w1/rule?filter=colour%3Dred", "no leaf \"colour\""}, {"/wide/w1/rule?filter=actoin%3DDROP", "did you mean action"},
		{"/wide/w1/rule?filter=id<many", "compares only numbers"}, {"/wide/w1/route?filter=more%3D1", "no leaf \"more\""},
		{"/wide/w1/plain?limit=5", "accepted only on lists"}, {"/wide/w1/level?filter=a%3Db", "accepted only on lists"}, {"/wide/w1?limit=5", "accepted only on lists"},
	}
	for _, tt := range tests {
		if a := l.must(t, 400, "GET", tt.path, ""); !strings.Contains(a.fault(t).Message, tt.says) {
			t.Errorf("%s: %s, want %q", tt.path, a.fault(t).Message, tt.says)
		}
	}
}
