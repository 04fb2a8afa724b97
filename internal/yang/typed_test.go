// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"errors"
	"strings"
	"testing"
)

// trunks is a model with lists that can be typed in words, and some that cannot.
const trunks = `module m { yang-version 1.1; namespace "urn:m"; prefix m; import polycube-base { prefix b; }
  import polycube-transparent-base { prefix t; }
  uses t:transparent-base-yang-module;
  b:service-name "m"; b:service-description "m"; b:service-version "1"; b:service-min-kernel-version "6.1";
  container trunk {
    list allowed { key "id"; leaf id { type uint16 { range "1..4094"; } } leaf seen { type uint64; config false; } }
    list order { key "id"; ordered-by user; leaf id { type string; } }
    leaf-list tag { type string; }
    leaf-list number { type uint8; max-elements 3; }
    leaf native { type uint16; }
    container deep { leaf-list bit { type boolean; } }
  }
  list fixed { key "id"; b:init-only-config; leaf id { type uint8; } }
  list port { key "name"; leaf name { type string; } leaf peer { type string; } list vlan { key "id"; leaf id { type uint8; } } }
  list pair { key "a b"; leaf a { type string; } leaf b { type string; } }
  list many { b:bulk; key "id"; leaf id { type uint8; } leaf-list tag { type string; } }
  rpc go { input { leaf-list to { type uint8; } list hop { key "id"; leaf id { type uint8; } } } }
}`

func TestListsAreTypedInWords(t *testing.T) {
	const before = `"trunk":{"allowed":[{"id":10},{"id":20}],"order":[{"id":"a"},{"id":"b"}],"tag":["x"],"number":[1]},"fixed":[{"id":1}],"port":[{"name":"p1","peer":"e"}],"many":[{"id":1}]`
	s := loadText(t, trunks)
	for _, c := range []struct {
		name     string
		op       Op
		at, body string
		// instead of before; nothing changes when was is empty
		was, is string
		message string
	}{
		{name: "a leaf-list of one", op: Merge, at: "trunk", body: `{"number":2}`, was: `"number":[1]`, is: `"number":[2]`},
		{name: "a leaf-list", op: Merge, at: "trunk number", body: `"7, 8"`, was: `"number":[1]`, is: `"number":[7,8]`},
		{name: "a leaf-list of booleans, deep", op: Merge, at: "", body: `{"trunk":{"deep":{"bit":"true,false"}}}`, was: `"number":[1]}`, is: `"number":[1],"deep":{"bit":[true,false]}}`},
		{name: "a leaf-list of nothing", op: Merge, at: "trunk number", body: `""`, was: `,"number":[1]`},
		{name: "a leaf-list of an empty text", op: Merge, at: "trunk tag", body: `""`, was: `"tag":["x"]`, is: `"tag":[""]`},
		{name: "a text with a comma, as an array", op: Merge, at: "trunk tag", body: `["a,b"]`, was: `"tag":["x"]`, is: `"tag":["a,b"]`},
		{name: "a leaf-list, as null", op: Merge, at: "trunk tag", body: `null`, was: `"tag":["x"],`},
		{name: "keys are exactly what is said", op: Merge, at: "trunk allowed", body: `"20,30"`, was: `{"id":10},{"id":20}`, is: `{"id":20},{"id":30}`},
		{name: "the same among members", op: Merge, at: "", body: `{"trunk":{"allowed":"5","native":5}}`, was: `{"id":10},{"id":20}],"order":[{"id":"a"},{"id":"b"}],"tag":["x"],"number":[1]`, is: `{"id":5}],"order":[{"id":"a"},{"id":"b"}],"tag":["x"],"number":[1],"native":5`},
		{name: "no keys", op: Merge, at: "trunk allowed", body: `""`, was: `"allowed":[{"id":10},{"id":20}],`},
		{name: "an array adds", op: Merge, at: "trunk", body: `{"allowed":[{"id":30}]}`, was: `{"id":20}`, is: `{"id":20},{"id":30}`},
		{name: "an order", op: Merge, at: "trunk order", body: `"c,b,a"`, was: `{"id":"a"},{"id":"b"}`, is: `{"id":"c"},{"id":"b"},{"id":"a"}`},
		{name: "creation adds", op: Create, at: "trunk", body: `{"allowed":30}`, was: `{"id":20}`, is: `{"id":20},{"id":30}`},
		{name: "an entry with keys of its own", op: Create, at: "port p2", body: `{"vlan":"1,2"}`, was: `"peer":"e"}`, is: `"peer":"e"},{"name":"p2","vlan":[{"id":1},{"id":2}]}`},
		{name: "a leaf-list of a bulk list", op: Create, at: "many 2", body: `{"tag":"a,b"}`, was: `{"id":1}]}`, is: `{"id":1},{"id":2,"tag":["a","b"]}]}`},
		{name: "the same of one entry", op: Merge, at: "many 1 tag", body: `"a"`, was: `{"id":1}]}`, is: `{"id":1,"tag":["a"]}]}`},
		{name: "a leaf is no list", op: Merge, at: "port p1", body: `{"peer":"a,b"}`, was: `"peer":"e"`, is: `"peer":"a,b"`},
		{name: "a value that is none", op: Merge, at: "trunk", body: `{"allowed":"10,5000"}`, message: `trunk allowed: id: 5000 is out of range 1..4094`},
		{name: "nothing between commas", op: Merge, at: "trunk allowed", body: `"10,,20"`, message: `allowed: "10,,20" has an empty value between commas`},
		{name: "twice the same", op: Merge, at: "trunk", body: `{"allowed":"10,10"}`, message: "trunk allowed 10: is given twice"},
		{name: "no key where something is created", op: Create, at: "port p3", body: `{"vlan":""}`, message: `port p3 vlan id: "" is not a whole number in 0..255`},
		{name: "entries that have more", op: Merge, at: "", body: `{"port":"p1,p2"}`, message: "port: its entries have more than a name: change them one at a time"},
		{name: "entries that have several keys", op: Merge, at: "", body: `{"pair":"a,b"}`, message: "pair: a string is given, but an array of objects is required"},
		{name: "keys that are fixed", op: Merge, at: "", body: `{"fixed":"2"}`, message: "fixed 1: is fixed at creation"},
		{name: "too many", op: Merge, at: "trunk number", body: `"1` + strings.Repeat(",1", maxEntries) + `"`, message: "number: more than 16384 entries"},
		{name: "a container", op: Merge, at: "trunk", body: `{"deep":1}`, message: "trunk deep: it has no value of its own, only members: bit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := cube(t, s, `{`+before+`}`)
			_, err := tree.EditWords(t.Context(), c.op, at(t, s, c.at), []byte(c.body))
			tag := InvalidValue
			if c.message == "" {
				tag = ""
			}
			checkError(t, err, tag, c.message)
			got, err := tree.JSON(nil, JSONOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := `{"service-name":"m",` + before + `}`
			if c.was != "" && strings.Count(want, c.was) != 1 {
				t.Fatalf("%s is not once in %s", c.was, want)
			}
			if want = strings.Replace(want, c.was, c.is, 1); string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// TestOtherClientsAreTakenAtTheirWord: they have to send arrays for lists.
func TestOtherClientsAreTakenAtTheirWord(t *testing.T) {
	s := loadText(t, trunks)
	for body, message := range map[string]string{
		`{"trunk":{"tag":"x"}}`:         "trunk tag: a string is given, but an array is required",
		`{"trunk":{"allowed":"10,20"}}`: "trunk allowed: a string is given, but an array of objects is required",
		`{"trunk":{"deep":1}}`:          "trunk deep: a number is given, but an object is required",
	} {
		_, err := cube(t, s, `{}`).Edit(t.Context(), Merge, nil, []byte(body))
		checkError(t, err, InvalidValue, message)
	}
}

func TestInputsAreTypedInWords(t *testing.T) {
	s := loadText(t, trunks)
	tree := cube(t, s, `{}`)
	for body, want := range map[string]string{`{"to":"1,2","hop":"3,4"}`: `{"to":[1,2],"hop":[{"id":3},{"id":4}]}`, `{"to":5}`: `{"to":[5]}`} {
		if got, err := tree.InputWords(at(t, s, "go"), []byte(body)); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
	_, err := tree.ParseInput(at(t, s, "go"), []byte(`{"to":5}`))
	checkError(t, err, InvalidValue, "go to: a number is given, but an array is required")
}

// TestMembersOfContainersAreNearTheirNames: if the container is missing, it is suggested.
func TestMembersOfContainersAreNearTheirNames(t *testing.T) {
	s := loadText(t, trunks)
	for name, want := range map[string]string{"native": "trunk.native", "bit": "trunk.deep.bit", "seen": "", "nativ": "", "trunks": "trunk"} {
		_, err := cube(t, s, `{}`).Edit(t.Context(), Merge, nil, []byte(`{"`+name+`":1}`))
		if e := (*Error)(nil); !errors.As(err, &e) || strings.Join(e.Near, " ") != want {
			t.Errorf("%s: %+v, want near %q", name, err, want)
		}
	}
	for words, want := range map[string]string{"native": "trunk.native", "trunk.native": "trunk native", "trunk.deep.bit": "trunk deep bit", "trunk.x": "trunk", "x.trunk.native": "", "port p1 bit": ""} {
		_, _, err := s.Resolve(strings.Fields(words))
		if e := (*Error)(nil); !errors.As(err, &e) || strings.Join(e.Near, " ") != want {
			t.Errorf("%s: %+v, want near %q", words, err, want)
		}
	}
}
