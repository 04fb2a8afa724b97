// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/internal/yang/moduletext"
)

func names(nodes []*Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name())
	}
	return out
}

func TestService(t *testing.T) {
	for _, c := range []struct {
		model   string
		info    Info
		members []string
	}{
		{model: "simplebridge", info: Info{Name: "simplebridge", Module: "simplebridge", Description: "learning bridge",
			Version: "1.0.0", MinKernel: "6.1", Namespace: "http://polycube.network/simplebridge"},
			members: []string{"uuid", "type", "service-name", "loglevel", "shadow", "span", "ports", "fdb"}},
		{model: "ghost", info: Info{Name: "spirit", Module: "ghost", Transparent: true, Namespace: "urn:polycube:test:ghost"},
			members: []string{"uuid", "type", "service-name", "loglevel", "parent", "ingress-action"}},
		{model: "zoo", info: Info{Name: "zoo", Module: "zoo", Description: "every kind of node",
			Namespace: "urn:polycube:test:zoo"}, members: []string{"uuid", "type", "service-name", "loglevel", "shadow",
			"span", "ports", "types", "limits", "rule"}},
	} {
		t.Run(c.model, func(t *testing.T) {
			s := load(t, c.model)
			got := s.Service()
			if !strings.Contains(got.Text, "module "+c.model) {
				t.Errorf("text is %q", got.Text)
			}
			got.Text = ""
			if got != c.info {
				t.Errorf("got  %+v\nwant %+v", got, c.info)
			}
			if members := names(s.Root().Children()); !slices.Equal(members, c.members) {
				t.Errorf("members are %v, want %v", members, c.members)
			}
		})
	}
}

// lookUp finds a node of the model, inputs and outputs of actions too.
func lookUp(t *testing.T, s *Schema, words string) *Node {
	t.Helper()
	n := s.Root()
	for _, w := range strings.Fields(words) {
		switch {
		case w == "input" && n.Kind() == Action:
			n = n.Input()
		case w == "output" && n.Kind() == Action:
			n = n.Output()
		default:
			n = n.Child(w)
		}
		if n == nil {
			t.Fatalf("no %s in %q", w, words)
		}
	}
	return n
}

func TestNodes(t *testing.T) {
	s := load(t, "zoo")
	node := func(words string) *Node { return lookUp(t, s, words) }
	for _, c := range []struct {
		words, is string
		got, want any
	}{
		{"rule", "keys", names(node("rule").Keys()), []string{"from", "to"}},
		{"rule", "user ordered", node("rule").UserOrdered(), true},
		{"ports", "user ordered", node("ports").UserOrdered(), false},
		{"rule", "members", names(node("rule").Children()),
			[]string{"from", "to", "verdict", "tag", "hits", "match", "reset"}},
		{"rule from", "key", node("rule from").IsKey(), true},
		{"rule from", "mandatory", node("rule from").Mandatory(), true},
		{"rule from", "parent", node("rule from").Parent(), node("rule")},
		{"rule hits", "config", node("rule hits").Config(), false},
		{"rule tag", "init only", node("rule tag").InitOnly(), true},
		{"rule reset", "kind", node("rule reset").Kind(), Action},
		{"rule reset input", "members", names(node("rule reset input").Children()), []string{"reason", "level", "port"}},
		{"rule reset input reason", "mandatory", node("rule reset input reason").Mandatory(), true},
		{"rule reset output was", "type", node("rule reset output was").Type().Base, "uint64"},
		{"limits", "a choice's members", names(node("limits").Children())[9:],
			[]string{"allow", "rate", "burst", "marked"}},
		{"limits few", "max", node("limits few").MaxElements(), 2},
		{"limits marked", "presence", node("limits marked").Presence(), true},
		{"limits to-port", "leafref", node("limits to-port").Type().LeafrefPath, "/ports/name"},
		{"limits to-port", "base", node("limits to-port").Type().Base, "string"},
		{"ports", "augmented members", names(node("ports").Children()),
			[]string{"name", "uuid", "status", "status-reason", "peer", "tcubes", "mac", "speed"}},
		{"ports speed", "units", node("ports speed").Units(), "Mbit/s"},
		{"ports speed", "path", node("ports speed").Path(), "ports/speed"},
		{"ports tcubes", "kind", node("ports tcubes").Kind(), LeafList},
		{"ports name", "patterns", node("ports name").Type().Patterns, []string{`[^:/\s]+`}},
		{"ports name", "length", node("ports name").Type().Length, "1..64"},
		{"types address", "example", node("types address").Example(), "10.0.0.1"},
		{"types address", "type name", node("types address").Type().Name, "inet:ipv4-address"},
		{"types mode", "enums", node("types mode").Type().Enums, []string{"ACCESS", "trunk", "Any"}},
		{"types pet", "identities", node("types pet").Type().Enums, []string{"cat", "dog"}},
		{"types dec", "range", node("types dec").Type().Range, "-1.5..99.25"},
		{"types i32", "range", node("types i32").Type().Range, "-5..5 | 100"},
		{"types u64", "range", node("types u64").Type().Range, "0..18446744073709551615"},
		{"types either", "union", len(node("types either").Type().Union), 3},
		{"loglevel", "description", node("loglevel").Description(), "Lowest severity that the cube logs."},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s, %s: got %v, want %v", c.words, c.is, c.got, c.want)
		}
	}
	if def, ok := node("loglevel").Default(); def != "INFO" || !ok {
		t.Errorf("default of loglevel is %q, %v", def, ok)
	}
	if _, ok := node("ports peer").Default(); ok {
		t.Error("peer has a default")
	}
	if _, ok := node("ports mac").Extension("init-only-config"); !ok {
		t.Error("mac has lost its extension")
	}
}

func TestLoadRefuses(t *testing.T) {
	const head = `module m { yang-version 1.1; namespace "urn:m"; prefix m; `
	const base = `import polycube-transparent-base { prefix b; } uses b:transparent-base-yang-module; `
	for _, c := range []struct{ name, text, want string }{
		{"nothing", ``, "load model"},
		{"no YANG", `hello`, "load model"},
		{"no base", head + `}`, "must use exactly one of"},
		{"a base twice", head + base + `import polycube-standard-base { prefix s; } }`, "load model"},
		{"an import that does not exist", head + `import nowhere { prefix n; } }`, "nowhere"},
		{"an unknown type", head + base + `leaf x { type colour; } }`, "colour"},
		{"a NUL", head + "\x00}", "U+0000"},
		{"no UTF-8", head + "\xff}", "UTF-8"},
		{"too deep", head + strings.Repeat("container c { ", 70) + strings.Repeat("}", 71), "nested deeper"},
		{"too long", strings.Repeat(" ", moduletext.Max+1), "longer than"},
		{"anydata", head + base + `anydata x; }`, "not supported"},
		{"a list without key", head + base + `list x { config true; leaf y { type string; } } }`, "load model"},
		{"too many keys", head + base + `list x { key "a b c d e f g h i"; ` + keyLeaves("abcdefghi") + `} }`, "more than 8 keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Load(c.text)
			if err == nil {
				s.Close()
				t.Fatal("loaded")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
	if s, err := Load(head + base + `leaf x { type string; description "{{{{ // } \" '"; } /* {{ */ // {{` + "\n}"); err != nil {
		t.Errorf("braces in strings and comments: %v", err)
	} else {
		s.Close()
	}
}

func keyLeaves(names string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("leaf " + string(n) + " { type string; } ")
	}
	return b.String()
}

func TestResolve(t *testing.T) {
	s := load(t, "zoo")
	for _, c := range []struct {
		words string
		path  string
		tag   Tag
		given []string
	}{
		{words: "", path: ""},
		{words: "ports", path: "ports"},
		{words: "ports p1", path: "ports/p1"},
		{words: "ports p1 peer", path: "ports/p1/peer"},
		{words: "rule 10.0.0.0/8 1 match x", path: "rule/10.0.0.0%2F8/1/match/x"},
		{words: "rule a 1 reset", path: "rule/a/1/reset"},
		{words: "rule a", given: []string{"a"}},
		{words: "nothing", tag: BadElement},
		{words: "ports p1 nothing", tag: BadElement},
		{words: "loglevel INFO", tag: BadElement},
		{words: "types names n1", path: "types/names/n1"},
		{words: "limits rate", path: "limits/rate"},
		{words: "limits action", tag: BadElement},
		{words: "rule a 1 reset input", tag: BadElement},
	} {
		t.Run(c.words, func(t *testing.T) {
			node, path, err := s.Resolve(strings.Fields(c.words))
			var partial *PartialKeysError
			if errors.As(err, &partial) {
				if !slices.Equal(partial.Given, c.given) || partial.List.Name() != "rule" || partial.Path.String() != "rule" {
					t.Errorf("partial keys: %+v", partial)
				}
				if want := "rule: 1 of 2 keys given, missing: to"; err.Error() != want {
					t.Errorf("got %q, want %q", err, want)
				}
				return
			}
			checkError(t, err, c.tag, "")
			if c.given != nil {
				t.Fatal("the partial keys were accepted")
			}
			if err == nil && (path.String() != c.path || node == nil) {
				t.Errorf("got %s, want %s", path, c.path)
			}
		})
	}
	_, _, err := s.Resolve(make([]string, maxPathWords+1))
	checkError(t, err, InvalidValue, "the path is too long")
}

// Many goroutines may use one schema, each with its own tree.
func TestSchemaIsShared(t *testing.T) {
	s := load(t, "zoo")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			tree := s.NewTree()
			defer tree.Close()
			if _, err := tree.Edit(t.Context(), Create, nil, []byte(zooCube)); err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				c, err := tree.Edit(t.Context(), Merge, Path{{Name: "limits"}}, []byte(`{"allow":true,"tagged":false}`))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := tree.Edit(t.Context(), Merge, Path{{Name: "types"}}, []byte(`{"u8":"x"}`)); err == nil {
					t.Error("a bad value was taken")
				}
				if err := c.Revert(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestReads(t *testing.T) {
	s := load(t, "zoo")
	tree := cube(t, s, zooCube)
	for _, c := range []struct {
		words, want string
		tag         Tag
	}{
		{words: "ports p1 speed", want: `1000`},
		{words: "ports p2 peer", tag: DataMissing},
		{words: "ports p9", tag: DataMissing},
		{words: "ports p9 tcubes", tag: DataMissing},
		{words: "ports p2 tcubes", want: `[]`},
		{words: "limits complete", want: `[]`},
		{words: "limits marked", tag: DataMissing},
		{words: "rule a 1 match", want: `[]`},
		{words: "rule a 1 match x", tag: DataMissing},
		{words: "rule a 300000", tag: InvalidValue},
		{words: "ports p1 status", tag: DataMissing},
		{words: "rule a 1 reset", tag: OperationNotSupported},
		{words: "types names n1", want: `"n1"`},
		{words: "types names n9", tag: DataMissing},
	} {
		t.Run(c.words, func(t *testing.T) {
			got, err := tree.JSON(at(t, s, c.words), JSONOptions{})
			checkError(t, err, c.tag, "")
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if (c.tag == DataMissing) != errors.Is(err, ErrNotFound) {
				t.Errorf("errors.Is(%v, ErrNotFound) is wrong", err)
			}
		})
	}
	tree.Close()
	if _, err := tree.JSON(nil, JSONOptions{}); err == nil {
		t.Error("a closed tree can be read")
	}
	if _, err := tree.Edit(t.Context(), Merge, nil, nil); err == nil {
		t.Error("a closed tree can be edited")
	}
}

// No import comes from the file system, whatever the current directory holds.
func TestLoadReadsNoFile(t *testing.T) {
	dir := t.TempDir()
	const other = `module other { namespace "urn:o"; prefix o; }`
	if err := os.WriteFile(dir+"/other.yang", []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	s, err := Load(`module m { yang-version 1.1; namespace "urn:m"; prefix m; import other { prefix o; } }`)
	if err == nil {
		s.Close()
		t.Error("a module was read from the current directory")
	}
}
