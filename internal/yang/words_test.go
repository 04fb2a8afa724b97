// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"strings"
	"testing"
)

// routes is a model with a list of two keys, and an action that is a verb of it.
const routes = `module m { yang-version 1.1; namespace "urn:m"; prefix m; import polycube-base { prefix b; }
  import polycube-transparent-base { prefix t; } import ietf-inet-types { prefix inet; }
  uses t:transparent-base-yang-module;
  b:service-name "m"; b:service-description "m"; b:service-version "1"; b:service-min-kernel-version "6.1";
  list route { key "network gateway"; leaf network { type inet:ip-prefix; b:no-host-bits; } leaf gateway { type string; } }
  leaf-list name { type string; }
  rpc route-get { input { leaf address { type string; } } }
  rpc name-get { }
}`

func TestPathsThatLackKeysLeadToTheOnlyEntry(t *testing.T) {
	s := loadText(t, routes)
	tree := cube(t, s, `{"route":[{"network":"10.0.0.0/8","gateway":"a"},{"network":"10.0.0.0/8","gateway":"b c"},{"network":"2001:db8::/32","gateway":"a"}]}`)
	for _, c := range []struct {
		keys    string
		want    string
		tag     Tag
		message string
	}{
		{keys: "2001:DB8:0::/32", want: "route/2001:db8::%2F32/a"},
		{keys: "2001:db8::/32 a", want: "route/2001:db8::%2F32/a"},
		{keys: "", want: "route"},
		{keys: "10.0.0.0/8", tag: InvalidValue, message: `route 10.0.0.0/8: there are 2, specify one: route 10.0.0.0/8 a, route 10.0.0.0/8 "b c"`},
		{keys: "11.0.0.0/8", tag: DataMissing, message: "route 11.0.0.0/8: does not exist"},
		{keys: "10.0.0.1/8", tag: InvalidValue, message: "route: network: 10.0.0.1/8 is an address in a network: the network is 10.0.0.0/8"},
		{keys: "ten", tag: InvalidValue, message: `route: network: "ten" is not a valid ip-prefix`},
	} {
		got, err := tree.Only(Path{{Name: "route", Keys: strings.Fields(c.keys)}})
		checkError(t, err, c.tag, c.message)
		if err == nil && got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.keys, got, c.want)
		}
	}
	if got, err := tree.Only(Path{}); err != nil || len(got) != 0 {
		t.Errorf("the cube: %v, %v", got, err)
	}
}

func TestActionsAreVerbsOfLists(t *testing.T) {
	s := loadText(t, routes)
	for words, want := range map[string]string{
		"route get": "route-get", "route get 10.0.0.1 x": "route-get 10.0.0.1 x", "route put": "", "route": "", "get": "",
		"name get": "", "route 10.0.0.0/8 get": "", "nothing get": "", "route-get": "",
	} {
		action, path, values := s.ActionOf(strings.Fields(words))
		if got := strings.TrimSpace(path.Words() + " " + strings.Join(values, " ")); got != want || (action != nil) != (want != "") {
			t.Errorf("%s is %q, want %q", words, got, want)
		}
	}
	if verbs := s.Root().Child("route").Verbs(); len(verbs) != 1 || verbs["get"] == nil {
		t.Errorf("the verbs of route are %v", verbs)
	}
	if verbs := s.Root().Child("name").Verbs(); len(verbs) != 0 {
		t.Errorf("the verbs of a leaf-list are %v", verbs)
	}
}

func TestHostBitsAreRefusedWhereTheModelSays(t *testing.T) {
	tree := cube(t, loadText(t, routes), `{}`)
	_, err := tree.Edit(t.Context(), Merge, nil, []byte(`{"route":[{"network":"2001:db8::1/32","gateway":"a"}]}`))
	checkError(t, err, InvalidValue, "route network: 2001:db8::1/32 is an address in a network: the network is 2001:db8::/32")
}
