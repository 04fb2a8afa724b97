// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

const model = `module demo {
	yang-version 1.1; namespace "urn:polycube:test:demo"; prefix demo;
	import polycube-standard-base { prefix sb; }
	import ietf-inet-types { prefix inet; }
	uses sb:standard-base-yang-module {
		augment ports { leaf ip { type inet:ipv4-address; } leaf seen { config false; type uint8; } }
	}
	container fdb {
		leaf aging-time { type uint32; }
		list entry { key address; leaf address { type string; } leaf age { config false; type uint32; } }
		action flush;
	}
	leaf flag { type boolean; }
	leaf ratio { type decimal64 { fraction-digits 2; } }
	leaf raw { type binary; }
	leaf vlan { type union { type uint16; type string; } }
	leaf-list tags { type uint16; }
}`

const plain = `module plain {
	yang-version 1.1; namespace "urn:polycube:test:plain"; prefix plain;
	import polycube-standard-base { prefix sb; }
	uses sb:standard-base-yang-module;
	leaf action { type enumeration { enum DROP; enum PASS; } }
}`

// seconds is a duration as the models give it.
type seconds time.Duration

func (s *seconds) UnmarshalJSON(text []byte) error {
	var n uint32
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	*s = seconds(time.Duration(n) * time.Second)
	return nil
}

type port struct {
	Name string     `json:"name"`
	IP   netip.Addr `json:"ip"`
}

type entry struct {
	Address string `json:"address"`
}

type fdb struct {
	AgingTime seconds `json:"aging-time"`
	Entry     []entry `json:"entry,omitempty"`
}

type common struct {
	Flag *bool `json:"flag"`
}

type good struct {
	common
	LogLevel string          `json:"loglevel"`
	Ports    []port          `json:"ports"`
	FDB      *fdb            `json:"fdb"`
	Ratio    float64         `json:"ratio"`
	Raw      []byte          `json:"raw"`
	VLAN     json.RawMessage `json:"vlan"`
	Tags     []uint16        `json:"tags"`
	Hidden   int             `json:"-"`
	private  int
}

type acting struct {
	Action string `json:"action"`
}

func TestMatch(t *testing.T) {
	Match(t, Load(t, model), good{private: 1})
	Match(t, Load(t, model), &good{})
	Match(t, Load(t, plain), struct {
		Action string `json:"action"`
	}{})
}

// mismatchCases are configurations that do not fit, and how the faults end.
var mismatchCases = []struct {
	name   string
	plain  bool
	config any
	want   []string
}{
	{"no struct", true, 5, []string{"the configuration is int, a struct is wanted"}},
	{"nothing", true, nil, []string{"the configuration is <nil>, a struct is wanted"}},
	{"a leaf is missing", true, struct{}{}, []string{`action: struct {} has no field with the tag json:"action"`}},
	{"a field too many", true, struct {
		Action string `json:"action"`
		Colour string `json:"colour"`
	}{}, []string{"Colour: the model has no colour: drop the field or add the node"}},
	{"a field without tag", true, struct {
		Action string `json:"action"`
		Colour string
	}{}, []string{"Colour has no json tag: name the node it belongs to"}},
	{"a tag twice", true, struct {
		acting
		Other string `json:"action"`
	}{}, []string{`the fields Action and Other have the same tag json:"action"`}},
	{"an enum as a number", true, struct {
		Action int `json:"action"`
	}{}, []string{"Action is int, a string or a type with UnmarshalText is wanted for enumeration"}},
	{"state and base", true, struct {
		Action string `json:"action"`
		UUID   string `json:"uuid"`
		Type   bool   `json:"type"`
	}{}, []string{"UUID is state, not configuration: drop the field",
		"Type is bool, a string or a type with UnmarshalText is wanted for enumeration"}},
	{"everything in the wrong kind", false, struct {
		Flag  int     `json:"flag"`
		Ports []entry `json:"ports"`
		FDB   struct {
			AgingTime time.Duration `json:"aging-time"`
			Entry     []string      `json:"entry"`
			Flush     bool          `json:"flush"`
		} `json:"fdb"`
		Ratio int    `json:"ratio"`
		Raw   int    `json:"raw"`
		VLAN  uint16 `json:"vlan"`
		Tags  []int8 `json:"tags"`
	}{}, []string{
		`ports/name: modeltest.entry has no field with the tag json:"name"`,
		`ports/ip: modeltest.entry has no field with the tag json:"ip"`,
		"modeltest.entry.Address: the model has no ports/address: drop the field or add the node",
		"which would read uint32 as nanoseconds: use a type with UnmarshalJSON",
		"a slice of structs is wanted for a list",
		"Flush is an action, not configuration: drop the field",
		"Flag is int, a bool is wanted for boolean",
		"Ratio is int, a float is wanted for decimal64",
		"Raw is int, a []byte or a string is wanted for binary",
		"VLAN is uint16, a string, an interface, or a type with UnmarshalJSON or UnmarshalText is wanted for union",
		"Tags is int8, an integer that holds uint16 is wanted for uint16",
	}},
	{"a list that the service adds to is missing", false, struct {
		good
		Ports []port `json:"-"`
		FDB   string `json:"fdb"`
		Tags  uint16 `json:"tags"`
	}{}, []string{"have the same tag json:\"fdb\"", "have the same tag json:\"tags\"",
		"a struct is wanted for a container", "a slice is wanted for a leaf-list"}},
}

func TestMismatches(t *testing.T) {
	demo, small := Load(t, model), Load(t, plain)
	for _, c := range mismatchCases {
		t.Run(c.name, func(t *testing.T) {
			schema := demo
			if c.plain {
				schema = small
			}
			got := mismatches(schema, c.config)
			if !slices.EqualFunc(got, c.want, strings.HasSuffix) {
				t.Errorf("got\n  %s\nwant the ends\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}
