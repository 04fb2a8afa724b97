// SPDX-License-Identifier: Apache-2.0

package datapath

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
		"pcn_entry": entry{}, "pcn_exit": exit{}, "pcn_slot": slot{}, "pcn_page": page{},
		"pcn_fates": fates{}, "pcn_flood": flood{}, "pcn_flood_exit": floodExit{}, "pcn_flood_set": floodSet{}, "pcn_copies": copies{},
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
