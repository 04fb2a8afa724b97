// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology"
)

// refsModel has a reference of every kind.
const refsModel = `module refs {
  yang-version 1.1; namespace "urn:refs"; prefix refs;
  import polycube-base { prefix polycube-base; }
  import polycube-standard-base { prefix polycube-standard-base; }
  uses polycube-standard-base:standard-base-yang-module;
  leaf main { type leafref { path "/refs:ports/refs:name"; } }
  leaf either { type union { type leafref { path "../pool/name"; } type enumeration { enum none; } } }
  leaf free { type string; }
  leaf size { type uint16 { range "5..9"; } }
  leaf wide { type int32; }
  leaf-list allowed { type leafref { path "../ports/name"; } }
  container set {
    description "Sets.";
    leaf must { type string; mandatory true; }
    leaf once { type string; polycube-base:init-only-config; }
    leaf seen { type string; config false; }
    list of { key "port"; description "Ports of the set."; leaf port { type leafref { path "../../../ports/name"; } } }
    container if { when "../../free = 'x'"; leaf must { type string; mandatory true; } }
  }
  list from {
    key "port way";
    leaf port { type leafref { path "../../ports/name"; } }
    leaf way { type enumeration { enum IN; enum OUT; } }
    leaf rule { type leafref { path "/from[port=current()/../port]/rules/number"; } }
    list rules {
      key "number";
      leaf number { type uint32; }
      leaf next { type leafref { path "../../rules/number"; } }
      action move { input { leaf to { type leafref { path "../../../rules/number"; } } leaf port { type leafref { path "/ports/name"; } } } }
    }
  }
  list many { key "id"; polycube-base:bulk; leaf id { type uint32; } leaf port { type leafref { path "../../ports/name"; } } }
  list pool { key "name"; leaf name { type string; } }
}`

// refsLab has cubes of refs and of tap, connected and attached in part.
func refsLab(t *testing.T) *lab {
	objects := map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {1}}
	m, err := topology.New(topology.Options{
		Datapath: noKernel{}, Netdevs: madeUpNetdevs{}, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Services: []cube.Service{
			{Model: refsModel, Objects: objects, New: newTap},
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
	l := newLab(t, Options{Manager: m}, false)
	l.must(t, 201, "POST", "/cubes", `[
		{"name":"a","service-name":"refs","set":{"must":"x","of":[{"port":"p2"}]},"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"b:q1"},{"name":"p3"}],
		 "pool":[{"name":"big"},{"name":"small one"}],
		 "from":[{"port":"p1","way":"IN","rules":[{"number":1},{"number":7}]},{"port":"p2","way":"OUT","rules":[{"number":3}]}]},
		{"name":"b","service-name":"refs","set":{"must":"x"},"ports":[{"name":"q1","peer":"a:p2"},{"name":"q2"}]},
		{"name":"t1","service-name":"tap"},{"name":"t2","service-name":"tap"},{"name":"t3","service-name":"tap"}]`)
	l.must(t, 200, "POST", "/attach", `{"cube":"t1","port":"a:p1"}`)
	l.must(t, 200, "POST", "/attach", `{"cube":"t2","port":"veth2"}`)
	return l
}

// TestCompletionOffersWhatExistsAndFits: words for the path asked, with the verb.
func TestCompletionOffersWhatExistsAndFits(t *testing.T) {
	l := refsLab(t)
	tests := []struct{ name, path, want string }{
		{"an absolute leafref", "/refs/a/main?help=SET", "p1 p2 p3"},
		{"a leafref in a union with an enumeration", "/refs/a/either?help=SET", "big,small one"},
		{"a leaf-list of leafrefs", "/refs/a/allowed?help=SET", "p1 p2 p3"},
		{"several of a leaf-list: those that are left", "/refs/a/allowed?help=SET&completion=value&prefix=p3,p1,", "p3,p1,p2"},
		{"several, by a beginning", "/refs/a/allowed?help=SET&completion=value&prefix=p3,x", ""},
		{"values of a list of keys", "/refs/a/set/of?help=SET&completion=value", "p1 p2 p3"},
		{"several of them", "/refs/a/set/of?help=SET&completion=value&prefix=p2,p1", "p2,p1"},
		{"its keys as words of the path", "/refs/a/set/of?help=SHOW&completion=word", "p2"},
		{"a leaf has no second value", "/refs/a/main?help=SET&completion=value&prefix=p1,", ""},
		{"what is in containers, to add", "/refs/new?help=ADD&prefix=set.", "set.must= set.once= set.of= set.if.must="},
		{"what is in containers, to set", "/refs/a?help=SET&prefix=set.", "set.must= set.of= set.if.must="},
		{"a beginning within a container", "/refs/a?help=SET&prefix=set.if", "set.if.must="},
		{"a leafref as first key", "/refs/a/from?help=ADD", "p1 p2 p3"},
		{"an enumeration as second key", "/refs/a/from/p1?help=ADD", "in out"},
		{"keys that exist", "/refs/a/from?help=SHOW", "p1 p2"},
		{"keys that exist, after the first", "/refs/a/from/p2?help=DEL", "OUT"},
		{"a leafref within one's own entry", "/refs/a/from/p1/IN/rules/1/next?help=SET", "1 7"},
		{"the same in another entry", "/refs/a/from/p2/OUT/rules/3/next?help=SET", "3"},
		{"a leafref with a predicate offers more", "/refs/a/from/p1/IN/rule?help=SET", "1 7 3"},
		{"the input of an action", "/refs/a/from/p1/IN/rules/1/move/to?help=NONE", "1 7"},
		{"the input of an action, absolute", "/refs/a/from/p1/IN/rules/1/move/port?help=NONE", "p1 p2 p3"},
		{"members of an action", "/refs/a/from/p1/IN/rules/1/move?help=NONE", "to= port="},
		{"a leafref of a cube that is not there yet", "/refs/new/main?help=ADD", "<main>"},
		{"a peer: free ports of others and free netdevs", "/refs/a/ports/p3/peer?help=SET", "b:q2 veth2 down0"},
		{"a peer of a port to come", "/refs/b/ports/q9/peer?help=ADD", "a:p3 veth2 down0"},
		{"cubes to put on a new port", "/refs/b/ports/q9/tcubes?help=ADD", "t3"},
		{"a beginning", "/refs/a/ports/p3/peer?help=SET&prefix=ve", "veth2"},
		{"a leaf that nothing is known of", "/refs/a/free?help=SET", "<free>"},
		{"a leaf as a word of the path", "/refs/a/loglevel?help=SET&completion=word", ""},
		{"a leaf as a word of the path, to show", "/refs/a/loglevel?help=NONE&completion=word", "show"},
		{"verbs of an entry without lists", "/refs/a/ports/p1?help=NONE", "set show del"},
		{"verbs of an entry with lists", "/refs/a/from/p1/IN?help=NONE", "add set show del rules"},
		{"a cube that does not exist", "/refs/new?help=NONE", "add"},
		{"members of an entry to show", "/refs/a/pool/big?help=SHOW", "name"},
		{"first words to show", "/?help=SHOW", "services cubes topology netdevs drops refs tap a b t1 t2 t3"},
		{"first words to set", "/?help=SET&prefix=t", "tap t1 t2 t3"},
		{"connect: whatever is free", "/connect?help=NONE", "a:p3 b:q2 veth2 down0"},
		{"connect a netdev: ports", "/connect/veth2?help=NONE", "a:p3 b:q2"},
		{"connect a port: not with itself", "/connect/a:p3?help=NONE", "b:q2 veth2 down0"},
		{"disconnect: whatever is connected", "/disconnect?help=NONE", "a:p1 a:p2 b:q1"},
		{"disconnect: the other end", "/disconnect/a:p2?help=NONE", "b:q1"},
		{"disconnect a netdev: its port", "/disconnect/veth1?help=NONE", "a:p1"},
		{"attach: cubes that are free", "/attach?help=NONE", "t3"},
		{"attach: places", "/attach/t3?help=NONE", "a:p1 a:p2 a:p3 b:q1 b:q2 veth1 veth2 down0 host"},
		{"attach: where", "/attach/t3/a:p1?help=NONE", "position= before= after="},
		{"attach: before a cube of a port", "/attach/t3/a:p1/before?help=NONE", "t1"},
		{"attach: after a cube of a netdev", "/attach/t3/veth2/after?help=NONE", "t2"},
		{"attach: positions", "/attach/t3/veth2/position?help=NONE", "auto first last"},
		{"detach: cubes that are attached", "/detach?help=NONE", "t1 t2"},
		{"detach: the place", "/detach/t2?help=NONE", "veth2"},
		{"stats", "/cubes/a?help=SHOW", "stats"},
	}
	for _, tt := range tests {
		path := tt.path
		if !strings.Contains(path, "completion") {
			path += "&completion"
		}
		a := l.must(t, 200, "OPTIONS", path, "")
		var words []string
		if err := json.Unmarshal([]byte(a.body), &words); err != nil {
			t.Fatalf("%s: %v: %s", tt.name, err, a.body)
		}
		got := strings.Join(words, " ")
		if strings.Contains(tt.want, "small one") {
			got = strings.Join(words, ",")
		}
		if got != tt.want {
			t.Errorf("%s: OPTIONS %s offers %q, want %q", tt.name, path, got, tt.want)
		}
	}
}

// TestAnExampleIsMadeOfTheType, and a reference that nothing has is asked about.
func TestAnExampleIsMadeOfTheType(t *testing.T) {
	l := refsLab(t)
	tests := []struct{ leaf, want string }{
		{"size", "5"}, {"wide", "1"}, {"main", "port1"}, {"free", ""}, {"shadow", "true"}, {"loglevel", "INFO"},
	}
	a := l.must(t, 200, "OPTIONS", "/refs/new?help=ADD", "")
	var help struct {
		Optional map[string]struct {
			Example, Range, Leafref string
		} `json:"optional-params"`
	}
	if err := json.Unmarshal([]byte(a.body), &help); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		if got := help.Optional[tt.leaf].Example; got != tt.want {
			t.Errorf("%s: the example is %q, want %q", tt.leaf, got, tt.want)
		}
	}
	if got := help.Optional["size"].Range + help.Optional["main"].Leafref; got != "5..9/refs:ports/refs:name" {
		t.Errorf("range and leafref: %q", got)
	}
	for path, body := range map[string]string{"/refs/a/main": `"p11"`, "/refs/a/many/1": `{"port":"p11"}`} {
		method := "PATCH"
		if body[0] == '{' {
			method = "POST"
		}
		if e := l.must(t, 400, method, path, body).fault(t); strings.Join(e.Near, " ") != "p1" || !strings.Contains(e.Message, `refers to "p11", which is not in `) {
			t.Errorf("%s: a leafref that is near p1: %+v", path, e)
		}
	}
}

// TestHelpOfNestedParameters: with their names from above; those that must be given are apart, unless a condition may do
// without them.
func TestHelpOfNestedParameters(t *testing.T) {
	l := refsLab(t)
	type described struct {
		Name, Type, SimpleType, Typedef, Description, Leafref string
		Candidates                                            []string
	}
	var help struct {
		Params   map[string]described `json:"params"`
		Optional map[string]described `json:"optional-params"`
	}
	read := func(path string) {
		t.Helper()
		help.Params, help.Optional = nil, nil
		if err := json.Unmarshal([]byte(l.must(t, 200, "OPTIONS", path, "").body), &help); err != nil {
			t.Fatal(err)
		}
	}
	read("/refs/new?help=ADD")
	if _, must := help.Params["set.must"]; !must || len(help.Params) != 1 || help.Optional["set.if.must"].Name != "set.if.must" {
		t.Errorf("to add a cube: %+v", help)
	}
	of := help.Optional["set.of"]
	if of.Type != "leaf" || of.SimpleType != "string[]" || of.Description != "Ports of the set." || of.Leafref == "" {
		t.Errorf("a list of keys: %+v", of)
	}
	read("/refs/a/set/of?help=SET&value")
	if p := help.Params["of"]; p.SimpleType != "string[]" || strings.Join(p.Candidates, " ") != "p1 p2 p3" || len(help.Params) != 1 {
		t.Errorf("its values: %+v", help)
	}
	read("/refs/a/set/of?help=ADD")
	if p := help.Params["port"]; p.Type != "key" || len(help.Params) != 1 {
		t.Errorf("its entries: %+v", help)
	}
}

// TestALongListIsCompletedByItsBeginning: what is offered stays short, a wrong key is answered.
func TestALongListIsCompletedByItsBeginning(t *testing.T) {
	l := newWide(t)
	var rules []string
	for i := range 5000 {
		rules = append(rules, fmt.Sprintf(`{"id":%d}`, 10000+i))
	}
	l.must(t, 201, "POST", "/wide/w2", `{"rule":[`+strings.Join(rules, ",")+"]}")
	tests := []struct {
		prefix      string
		n           int
		first, last string
	}{
		{"", 2000, "10000", "11999"},
		{"1499", 10, "14990", "14999"},
		{"14998", 1, "14998", "14998"},
	}
	for _, tt := range tests {
		a := l.must(t, 200, "OPTIONS", "/wide/w2/rule?help=SHOW&completion=word&prefix="+tt.prefix, "")
		var words []string
		if err := json.Unmarshal([]byte(a.body), &words); err != nil {
			t.Fatal(err)
		}
		if len(words) != tt.n || words[0] != tt.first || words[len(words)-1] != tt.last {
			t.Errorf("%q: %d words, from %s to %s", tt.prefix, len(words), words[0], words[len(words)-1])
		}
	}
	if e := l.must(t, 404, "GET", "/wide/w2/rule/100000", "").fault(t); strings.Join(e.Near, " ") != "10000" {
		t.Errorf("a key too long by a digit: %+v", e)
	}
	if e := l.must(t, 404, "GET", "/wide/w2/rule/14999/src", "").fault(t); e.Near != nil {
		t.Errorf("a leaf that is not set, of an entry that is far behind: %+v", e)
	}
}
