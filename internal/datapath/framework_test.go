// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/internal/datapath/abi"
)

func TestFrameworkFatesMatchTheEnum(t *testing.T) {
	data, err := core.Objects.ReadFile("core.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	types, err := btf.LoadSpecFromReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var e *btf.Enum
	if err := types.TypeByName("pcn_reason", &e); err != nil {
		t.Fatal(err)
	}
	for _, v := range e.Values {
		label := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(v.Name, "PCN_REASON_")), "_", "-")
		switch {
		case label == "first" && v.Value != firstReason:
			t.Errorf("PCN_REASON_FIRST is %d, firstReason %d", v.Value, firstReason)
		case label == "first", label == "max":
		case int(v.Value) >= len(frameworkFates) || frameworkFates[v.Value].Name != label:
			t.Errorf("%s = %d has no fate of that name in Go", v.Name, v.Value)
		}
	}
}

// TestMapsOfBothHooksAgree: the hooks share the framework's maps.
func TestMapsOfBothHooksAgree(t *testing.T) {
	specs := map[string]*ebpf.CollectionSpec{}
	for _, h := range abi.Hooks {
		s, err := loadSpec("core." + h.String() + ".o")
		if err != nil {
			t.Fatal(err)
		}
		specs[h.String()] = s
	}
	for name, m := range specs["tc"].Maps {
		x := specs["xdp"].Maps[name]
		if x == nil || strings.HasPrefix(name, ".") {
			continue
		}
		if x.Type != m.Type || x.KeySize != m.KeySize || x.ValueSize != m.ValueSize ||
			x.MaxEntries != m.MaxEntries || x.Flags != m.Flags {
			t.Errorf("map %s: %v at TC, %v at XDP", name, m, x)
		}
	}
}
