// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/abi"
)

// TestMapsOfBothHooksAgree: the hooks share reserved for the framework maps.
func TestMapsOfBothHooksAgree(t *testing.T) {
	specs := map[string]*ebpf.CollectionSpec{}
	for _, h := range abi.Hooks {
		s, err := LoadSpec("core." + h.String() + ".o")
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
