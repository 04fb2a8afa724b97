// SPDX-License-Identifier: Apache-2.0

package abi

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/bpf/core"
)

// TestABI holds the Go types to the C structs that the programs were compiled with.
func TestABI(t *testing.T) {
	data, err := core.Objects.ReadFile("core.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	types, err := btf.LoadSpecFromReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"pcn_entry": Entry{}, "pcn_exit": Exit{}, "pcn_stack": Stack{}, "pcn_parent": Parent{}, "pcn_slot": Slot{}, "pcn_page": Page{},
		"pcn_fates": Fates{}, "pcn_flood": Flood{}, "pcn_flood_exit": FloodExit{}, "pcn_flood_set": FloodSet{}, "pcn_copies": Copies{},
	} {
		var c *btf.Struct
		if err := types.TypeByName(name, &c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		goType := reflect.TypeOf(value)
		if int(c.Size) != int(goType.Size()) {
			t.Errorf("%s has %d bytes, %s has %d", name, c.Size, goType, goType.Size())
		}
		if len(c.Members) < goType.NumField() {
			t.Errorf("%s has %d members, %s has %d", name, len(c.Members), goType, goType.NumField())
			continue
		}
		for i := range goType.NumField() {
			f, m := goType.Field(i), c.Members[i]
			want := strings.ReplaceAll(m.Name, "_", "")
			if !strings.EqualFold(strings.Trim(f.Name, "_"), want) || m.Offset.Bytes() != uint32(f.Offset) {
				t.Errorf("%s.%s at %d is %s.%s at %d in Go", name, m.Name, m.Offset.Bytes(), goType, f.Name, f.Offset)
			}
		}
	}
}
