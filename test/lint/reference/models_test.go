// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/yang"
)

const root = "../../.."

func TestTheReferenceIsThatOfTheModels(t *testing.T) {
	documents, err := Models(root)
	if err != nil || len(documents) == 0 {
		t.Fatalf("%d models: %v", len(documents), err)
	}
	for path, want := range documents {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not what the model says (%v); remedy: make reference", path, err)
		}
	}
}

func TestWhatIsSaidOfAModel(t *testing.T) {
	schema, err := yang.Load(`module toy {
  yang-version 1.1; namespace "urn:toy"; prefix toy;
  import polycube-base { prefix polycube-base; }
  import polycube-standard-base { prefix polycube-standard-base; }
  polycube-base:service-description "A toy."; polycube-base:service-version "2"; polycube-base:service-min-kernel-version "6.1";
  uses polycube-standard-base:standard-base-yang-module;
  container table {
    leaf size { type uint8 { range "1..9"; } units "rows"; default "3"; description "How
      many | rows."; polycube-base:init-only-config; }
    list row { polycube-base:bulk; key "id kind"; leaf id { type string { length "1..3"; } } leaf kind { type enumeration { enum A; enum B; } }
      leaf port { type leafref { path "../../../ports/name"; } mandatory true; polycube-base:cli-example "p1"; }
      leaf hits { type uint64; config false; polycube-base:name-metric "toy_hits"; polycube-base:type-metric "COUNTER"; polycube-base:help-metric "Hits"; }
    }
    action clear { description "Clears."; input { leaf all { type boolean; description "All."; } } }
  }
}`)
	if err != nil {
		t.Fatal(err)
	}
	defer schema.Close()
	text := string(RenderModel(schema))
	for _, line := range []string{
		"# toy\n\nA toy. Version 2, a standard cube: it has ports. Linux 6.1 or newer.",
		"| `table size` | uint8 1..9, in rows | How many \\| rows. Default `3`. Fixed. |\n",
		"| `table row ID KIND` | list of any length; `ID` is string of 1..3 characters, `KIND` is `A` `B` |  |\n",
		"| `table row ID KIND port` | one of `ports/name` | Mandatory. Example: `p1`. |\n",
		"### `table clear`\n\nClears.\n\n- takes `all`: boolean. All.\n",
		"| `toy_hits` | counter | Hits |\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	_, state, _ := strings.Cut(text, "## State")
	if !strings.Contains(state, "| `table row ID KIND hits` | uint64 0..18446744073709551615 |") || strings.Contains(state, "`table size`") {
		t.Errorf("state is\n%s", state)
	}
}
