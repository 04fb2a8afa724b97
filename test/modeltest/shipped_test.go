// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/yang"
)

// Help is generated from the models: every node of a shipped model has a description, units for numbers, and an example
// value.

// timed are names of leaves that hold a time, and mean nothing without its unit.
var timed = regexp.MustCompile(`(^|-)(time|timeout|interval|age|delay|lifetime|ttl|period)($|-)`)

// unclear lists what is missing for help on a node and those below it.
func unclear(n *yang.Node) []string {
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: ", n.Path())+fmt.Sprintf(format, args...))
	}
	// The input and the output of an action have no statement of their own.
	inout := n.Parent() != nil && n.Parent().Kind() == yang.Action
	if n.Parent() != nil && !inout {
		switch text := strings.TrimSpace(n.Description()); {
		case text == "":
			fault("no description: say what it is and does")
		case strings.EqualFold(strings.Trim(text, "."), strings.ReplaceAll(n.Name(), "-", " ")):
			fault("the description repeats the name: say what it is and does")
		}
	}
	if n.Kind() == yang.Leaf || n.Kind() == yang.LeafList {
		faults = append(faults, unclearLeaf(n)...)
	}
	for _, c := range n.Children() {
		faults = append(faults, unclear(c)...)
	}
	for _, c := range []*yang.Node{n.Input(), n.Output()} {
		if c != nil {
			faults = append(faults, unclear(c)...)
		}
	}
	return faults
}

func unclearLeaf(n *yang.Node) []string {
	var faults []string
	t := n.Type()
	number := strings.Contains(t.Base, "int") || t.Base == "decimal64"
	if number && timed.MatchString(n.Name()) && n.Units() == "" {
		faults = append(faults, n.Path()+": no units: a time is in seconds or something else")
	}
	_, hasDefault := n.Default()
	// The path contains the name of the service; nobody types it.
	free := n.Path() != "service-name" && t.Base == "string" && t.LeafrefPath == "" && !hasDefault
	if free && n.Config() && n.Example() == "" {
		faults = append(faults, n.Path()+": no polycube-base:cli-example, and no one can make one of its type")
	}
	if n.Example() != "" {
		if err := n.Accepts(n.Example()); err != nil {
			faults = append(faults, n.Path()+": the example is no value of it: "+err.Error())
		}
	}
	return faults
}

func TestEveryNodeOfAModelThatShipsExplainsItself(t *testing.T) {
	var models []string
	for _, where := range []string{"../../cubes/*/*.yang", "../../examples/services/*/*.yang"} {
		found, err := filepath.Glob(where)
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, found...)
	}
	if len(models) < 4 {
		t.Fatalf("only %q are here", models)
	}
	for _, path := range models {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		schema := Load(t, string(text))
		for _, fault := range unclear(schema.Root()) {
			t.Errorf("%s: %s", path, fault)
		}
		if info := schema.Service(); info.Description == "" || info.Version == "" {
			t.Errorf("%s: polycube-base:service-description or service-version is missing", path)
		}
	}
}

func TestWhatAModelLeavesUnclear(t *testing.T) {
	schema := Load(t, `module dim {
  yang-version 1.1; namespace "urn:dim"; prefix dim;
  import polycube-base { prefix polycube-base; }
  import polycube-transparent-base { prefix base; }
  uses base:transparent-base-yang-module;
  leaf a { type uint8; }
  leaf mac-address { type string; description "MAC address."; polycube-base:cli-example "02:00:00:00:00:01"; }
  leaf aging-time { type uint32; description "How long an entry stays."; }
  leaf pages { type uint32; description "How many pages there are."; }
  leaf text { type string; description "Anything that one likes."; }
  leaf small { type uint8 { range "1..4"; } description "A small number."; polycube-base:cli-example "5"; }
  container box {
    description "What can begin anew.";
    action go { description "Begin anew."; input { leaf b { type string; } } output { leaf c { type boolean; description "Whether it did."; } } }
  }
}`)
	want := []string{
		"a: no description: say what it is and does",
		"mac-address: the description repeats the name: say what it is and does",
		"aging-time: no units: a time is in seconds or something else",
		"text: no polycube-base:cli-example, and no one can make one of its type",
		"small: the example is no value of it: small: 5 is out of range 1..4",
		"box/go/input/b: no description: say what it is and does",
		"box/go/input/b: no polycube-base:cli-example, and no one can make one of its type",
	}
	if got := unclear(schema.Root()); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
