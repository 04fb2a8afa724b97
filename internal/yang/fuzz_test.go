// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// seeds are edits that reach every kind of node, good and bad.
var seeds = []struct{ op, path, body string }{
	{"0", "ports\np9", `{"peer":"x","tcubes":["a"]}`},
	{"1", "rule", `[{"from":"a","to":1},{"from":"\"'","to":2}]`},
	{"2", "limits", `{"low":5,"allow":true,"few":[{"id":1},{"id":1}]}`},
	{"2", "types", `{"u8":"0x1","dec":1e2,"either":"ANY","on":[null],"pet":"zoo:cat","opts":"safe fast"}`},
	{"3", "rule\na\n1", ``},
	{"3", "types\nnames\nn1", ``},
	{"0", "types\nnames\n'\"]", `{}`},
	{"2", "", `{"service-name":"zoo","loglevel":"err","types":{"blob":"AQ=="}}`},
	{"1", "", `{}`},
	{"2", "limits\ntagged", `false`},
	{"0", "rule\na\n1\nreset", `{"reason":"x"}`},
	{"2", "rule\n\x00\n1", `{"a":[[[[[[[[{}]]]]]]]]}`},
	{"2", "ports\np1\npeer", "\"\xff\""},
	{"1", "limits\ndiffering", `[{"id":1,"port":1},{"id":2,"port":1}]`},
	{"0", "rule\na\n99999999999999999999", `null`},
	{"2", "types", `{"i64":-9223372036854775809,"u64":1e400}`},
}

// FuzzEdit sees that no edit crashes, that one that fails changes nothing, that
// what is printed can be read again, and that a revert restores what was there.
func FuzzEdit(f *testing.F) {
	s := load(f, "zoo")
	for i := range seeds {
		f.Add(seeds[i].op[0]-'0', seeds[i].path, []byte(seeds[i].body))
	}
	f.Fuzz(func(t *testing.T, op byte, path string, body []byte) {
		tree := cube(t, s, zooCube)
		defer tree.Close()
		before := state(t, tree)
		var words []string
		if path != "" {
			words = strings.Split(path, "\n")
		}
		_, p, err := s.Resolve(words)
		if err != nil {
			return
		}
		change, err := tree.Edit(t.Context(), Op(op%4), p, body)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Tag == "" || e.Message == "" {
				t.Fatalf("not a fault of the request: %v", err)
			}
		} else {
			roundTrip(t, s, tree)
			if err := change.Revert(); err != nil {
				t.Fatal(err)
			}
		}
		if after := state(t, tree); after != before {
			t.Fatalf("%d %q %q: the tree was\n%s\nand is\n%s", op, path, body, before, after)
		}
	})
}

// roundTrip makes a second cube from what the first one prints.
func roundTrip(t *testing.T, s *Schema, tree *Tree) {
	t.Helper()
	set, err := tree.JSON(nil, JSONOptions{})
	if err != nil || !json.Valid(set) {
		t.Fatalf("printed %s, %v", set, err)
	}
	second := s.NewTree()
	defer second.Close()
	if _, err := second.Edit(t.Context(), Create, nil, set); err != nil {
		t.Fatalf("%s is refused: %v", set, err)
	}
	if a, b := state(t, tree), state(t, second); a != b {
		t.Fatalf("the cube is\n%s\nand its copy\n%s", a, b)
	}
}

// FuzzLoad sees that no text of a module crashes the daemon.
func FuzzLoad(f *testing.F) {
	const head = `module m { yang-version 1.1; namespace "urn:m"; prefix m; import polycube-transparent-base { prefix b; } ` +
		`uses b:transparent-base-yang-module; `
	for _, body := range []string{``, `leaf x { type string { pattern "(["; } }`, `leaf x { type leafref { path "../x"; } }`,
		`container c { must "count(//*) > 1"; }`, `grouping g { uses g; } uses g;`, `typedef t { type t; } leaf x { type t; }`,
		`augment "/b:nothing" { leaf y { type int8; } }`, `list l { key "a a"; leaf a { type empty; } }`} {
		f.Add(head + body + "}")
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Load(text)
		if err == nil {
			s.Close()
		}
	})
}

// TestRandomEdits makes long sequences of random edits and reverts, with
// values that are likely to meet each other.
func TestRandomEdits(t *testing.T) {
	text, err := os.ReadFile("testdata/zoo.yang")
	if err != nil {
		t.Fatal(err)
	}
	plain := load(t, "zoo")
	conditional, err := Load(strings.Replace(string(text), "  list rule {", extra+"  list rule {", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer conditional.Close()
	if plain.conditional || !conditional.conditional {
		t.Errorf("conditional are %v and %v", plain.conditional, conditional.conditional)
	}
	for seed := range uint64(80) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := plain
			if seed%2 == 1 {
				s = conditional
			}
			randomEdits(t, s, seed)
		})
	}
}

// extra makes the lists of the zoo conditional, which is undone in another way.
const extra = `container extra {
	when "../limits/tagged = 'true'";
	list step { key id; ordered-by user; leaf id { type uint8; } leaf note { type string; default "none"; } }
	leaf-list word { type string; ordered-by user; }
}
`

func randomEdits(t *testing.T, s *Schema, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	tree := cube(t, s, zooCube)
	var changes []*Change
	states := []string{state(t, tree)}
	for range 60 {
		p, op, body := randomEdit(r)
		c, err := tree.Edit(t.Context(), op, p, []byte(body))
		var e *Error
		switch {
		case err != nil && !errors.As(err, &e):
			t.Fatalf("%s %s %s: %v", op, p, body, err)
		case err != nil:
			if got := state(t, tree); got != states[len(states)-1] {
				t.Fatalf("%s %s %s: %v: the tree was\n%s\nand is\n%s", op, p, body, err, states[len(states)-1], got)
			}
		default:
			changes, states = append(changes, c), append(states, state(t, tree))
			if c.Empty() != (values(states[len(states)-1]) == values(states[len(states)-2])) {
				t.Fatalf("%s %s %s: diff is %q between\n%s\n%s", op, p, body, diff(c), states[len(states)-2],
					states[len(states)-1])
			}
		}
	}
	roundTrip(t, s, tree)
	for i := len(changes) - 1; i >= 0; i-- {
		if err := changes[i].Revert(); err != nil {
			t.Fatal(err)
		}
		if got := state(t, tree); got != states[i] {
			t.Fatalf("step %d: the tree was\n%s\nand is\n%s", i, states[i], got)
		}
	}
}

// values is the part of a state that has the defaults in it.
func values(state string) string {
	_, all, _ := strings.Cut(state, "\n")
	return all
}

func randomEdit(r *rand.Rand) (Path, Op, string) {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	n := func() string { return fmt.Sprint(r.IntN(4)) }
	entry := func() string {
		return fmt.Sprintf(`{"from":"%s","to":%s%s}`, pick("a", "b", "c"), n(),
			pick("", `,"verdict":"pass"`, `,"match":[{"field":"`+n()+`"}]`, `,"tag":"t"`))
	}
	op := Op(r.IntN(4))
	switch r.IntN(11) {
	case 9:
		return Path{{Name: "extra"}, {Name: "step", Keys: []string{n()}}}, op, pick(`{}`, `{"note":"x"}`)
	case 10:
		return Path{{Name: "extra"}}, op, pick(`{"step":[{"id":1},{"id":3},{"id":2}]}`, `{"step":[{"id":2,"note":"x"}]}`, `{"word":["c","a","b"]}`, `{}`)
	case 0:
		return Path{{Name: "rule", Keys: []string{pick("a", "b", "c"), n()}}}, op, pick(`{}`, `{"verdict":"PASS"}`, `{"tag":"x"}`)
	case 1:
		return Path{{Name: "rule"}}, op, "[" + entry() + "," + entry() + "," + entry() + "]"
	case 2:
		return Path{{Name: "limits"}}, op, pick(`{"allow":true}`, `{"rate":5}`, `{"burst":5}`, `{"tagged":false}`,
			`{"tagged":true,"tag":5}`, `{"low":5,"high":7}`, `{"few":[{"id":3}]}`, `{"marked":{}}`, `{"to-port":"p1"}`,
			`{"complete":[{"id":1,"needed":"x"}]}`, `{"complete":[{"id":1}]}`)
	case 3:
		return Path{{Name: "types"}, {Name: "names"}}, op, pick(`["n1"]`, `["n2","n1"]`, `["n3","n1","n2"]`, `[]`)
	case 4:
		return Path{{Name: "types"}, {Name: "names", Keys: []string{"n" + n()}}}, op, ``
	case 5:
		return Path{{Name: "ports", Keys: []string{"p" + n()}}}, op, pick(`{}`, `{"peer":"x"}`, `{"speed":1000}`, `{"speed":7}`)
	case 6:
		return Path{{Name: "limits"}, {Name: "marked"}}, op, pick(`{}`, `{"by":"x"}`)
	case 7:
		return Path{{Name: "limits"}, {Name: pick("tagged", "allow", "rate", "burst", "tag", "low")}}, op, pick("true", "3", "1")
	}
	return Path{}, op, pick(`{"loglevel":"warn"}`, `{"types":{"u8":1}}`, `{"ports":[{"name":"p1"}]}`, `{"limits":{"allow":true}}`,
		`{"rule":[`+entry()+`,`+entry()+`]}`, `{"shadow":true,"span":true}`)
}
