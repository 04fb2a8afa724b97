// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/bpf/core"
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
