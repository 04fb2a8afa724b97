// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"strings"
	"testing"
)

// Entries that are there by themselves are configured by changing them.
func TestSystemCreatedEntriesNeedNotBeCreated(t *testing.T) {
	text := strings.Replace(modelText(t, "bulk"), `leaf spare { type string; }`, `leaf spare { type string; }
  list vlan {
    polycube-base:system-created;
    key "id";
    leaf id { type uint16 { range "1..9"; } }
    leaf priority { type uint16; default "100"; }
    list port { polycube-base:system-created; key "name"; leaf name { type string; } leaf cost { type uint8; default "4"; } }
    list vlan { polycube-base:system-created; key "id"; leaf id { type uint16; } leaf cost { type uint8; default "4"; } }
  }`, 1)
	s := loadText(t, text)
	for _, c := range []editCase{
		{op: Merge, name: "an entry", path: "vlan 3", body: `{"priority":7}`, show: "vlan 3", view: `{"id":3,"priority":7}`},
		{op: Merge, name: "a leaf", path: "vlan 3 priority", body: `7`, show: "vlan 3", view: `{"id":3,"priority":7}`},
		{op: Merge, name: "an entry in one", path: "vlan 3 port p", body: `{"cost":9}`, show: "vlan 3",
			view: `{"id":3,"port":[{"name":"p","cost":9}]}`},
		{op: Merge, name: "a leaf of an entry in one", path: "vlan 3 port p cost", body: `9`, show: "vlan 3",
			view: `{"id":3,"port":[{"name":"p","cost":9}]}`},
		{op: Merge, name: "a leaf of an entry in one, of a list that is called as one above it", path: "vlan 3 vlan 5 cost",
			body: `9`, show: "vlan 3", view: `{"id":3,"vlan":[{"id":5,"cost":9}]}`},
		{op: Merge, name: "the whole list", path: "vlan", body: `[{"id":3,"priority":7},{"id":4}]`, show: "vlan",
			view: `[{"id":3,"priority":7},{"id":4}]`},
		{op: Create, name: "an entry", path: "vlan 3", body: `{"priority":7}`, show: "vlan 3", view: `{"id":3,"priority":7}`},
		{op: Merge, name: "a key that there cannot be", path: "vlan 10", body: `{"priority":7}`, tag: InvalidValue},
		{op: Merge, name: "a leaf that there cannot be", path: "vlan 3 priority", body: `"x"`, tag: InvalidValue},
		{op: Delete, name: "an entry without configuration", path: "vlan 3", tag: DataMissing, message: "vlan 3: does not exist"},
		{op: Delete, name: "a leaf of an entry without configuration", path: "vlan 3 priority", tag: DataMissing,
			message: "vlan 3: does not exist"},
		{op: Merge, name: "an entry of a list without the mark", path: "ports p9", body: `{}`, tag: DataMissing,
			message: "ports p9: does not exist"},
	} {
		t.Run(c.op.String()+" "+c.name, func(t *testing.T) {
			tree := cube(t, s, `{}`)
			before := state(t, tree)
			for range 2 { // what was taken back can be done again
				change, err := tree.Edit(t.Context(), c.op, at(t, s, c.path), []byte(c.body))
				checkError(t, err, c.tag, c.message)
				if err != nil {
					break
				}
				if got := show(t, tree, c.show); got != c.view {
					t.Errorf("%s is\n%s, want\n%s", c.show, got, c.view)
				}
				if err := change.Revert(); err != nil {
					t.Errorf("revert: %v", err)
				}
			}
			if after := state(t, tree); after != before {
				t.Errorf("the tree was\n%s\nand is\n%s", before, after)
			}
		})
	}
}
