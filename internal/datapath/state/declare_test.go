// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

func TestHostileDeclarations(t *testing.T) {
	good := &ebpf.MapSpec{Name: "m", Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 16}
	with := func(change func(*ebpf.MapSpec)) *ebpf.MapSpec {
		s := good.Copy()
		change(s)
		return s
	}
	tagged := func(tags ...string) *ebpf.MapSpec { return with(func(s *ebpf.MapSpec) { s.Tags = tags }) }
	typed := func(typ ebpf.MapType) *ebpf.MapSpec { return with(func(s *ebpf.MapSpec) { s.Type = typ }) }
	tests := []struct {
		name string
		spec *ebpf.MapSpec
		want string // "" is accepted
	}{
		{"fdb", good, ""},
		{".bss", with(func(s *ebpf.MapSpec) { s.Type = ebpf.Array }), ""},
		{"fdb", tagged("pcn_shared:a-b_9"), ""},
		{"fdb", tagged("other tools' tag", "pcn_public"), ""},
		{"fdb", tagged("pcn_extern:nat"), ""},
		{"fdb", tagged("pcn_disposable"), ""},
		{"fdb", tagged("pcn_disposable", "pcn_shared:a"), ""},
		{"../../br1/fdb", good, "C name"},
		{"..", good, "C name"},
		{"+object-tc", good, "C name"},
		{"a/b", good, "C name"},
		{"", good, "C name"},
		{strings.Repeat("m", 65), good, "C name"},
		{"pcn_ring", good, "reserved for the framework"},
		{"fdb", tagged("pcn_shared:../../core"), "is not a valid shared name"},
		{"fdb", tagged("pcn_shared:"), "is not a valid shared name"},
		{"fdb", tagged("pcn_shared:" + strings.Repeat("n", 65)), "is not a valid shared name"},
		{"fdb", tagged("pcn_extern:a+b"), "is not a valid shared name"},
		{"fdb", tagged("pcn_shared:a", "pcn_public"), "in two ways"},
		{"fdb", tagged("pcn_extern:me"), "must not import its own"},
		{"fdb", tagged("pcn_owner:a"), "unknown tag"},
		{"fdb", with(func(s *ebpf.MapSpec) { s.MaxEntries = 1 << 31 }), "the limit of a map is 1024 MB"},
		{"fdb", with(func(s *ebpf.MapSpec) { s.Type, s.ValueSize, s.MaxEntries = ebpf.PerCPUArray, 1<<20, 1<<12 }), "the limit of a map is 1024 MB"},
		{"fdb", with(func(s *ebpf.MapSpec) { s.MaxEntries = 0 }), "max_entries is 0"},
		{"fdb", typed(ebpf.ProgramArray), "cannot have a map of type"},
		{"fdb", typed(ebpf.DevMap), "cannot have a map of type"},
		{"fdb", typed(ebpf.XSKMap), "cannot have a map of type"},
		{"fdb", typed(ebpf.CPUMap), "cannot have a map of type"},
		{"fdb", typed(ebpf.SockHash), "cannot have a map of type"},
		{"fdb", typed(ebpf.MapType(200)), "cannot have a map of type"},
		{"fdb", typed(ebpf.ArrayOfMaps), "the type of its inner maps is missing"},
		{"fdb", with(func(s *ebpf.MapSpec) { s.Type, s.InnerMap = ebpf.HashOfMaps, typed(ebpf.ProgramArray) }), "inner maps: a cube cannot"},
	}
	for _, tt := range tests {
		o := &link.Object{Maps: map[string]*ebpf.MapSpec{tt.name: tt.spec}}
		_, err := declarations("me", o)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("map %.20q %s %.30q: %v, want %q", tt.name, tt.spec, tt.spec.Tags, err, tt.want)
		}
	}
	twins := &link.Object{Maps: map[string]*ebpf.MapSpec{".bss": good, "_bss": good}}
	if _, err := declarations("me", twins); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("two maps with one pin: %v", err)
	}
}

func TestDeclarationsOfOneMapAgreeWhetherItIsDisposable(t *testing.T) {
	spec := func(tags ...string) *ebpf.MapSpec {
		return &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 16, Tags: append(tags, "pcn_public")}
	}
	kept, dropped := declaration{spec: spec(), scope: public}, declaration{spec: spec("pcn_disposable"), scope: public}
	in := &Instance{spec: Spec{Name: "c"}}
	if err := in.agree("m", kept, dropped); err == nil || !strings.Contains(err.Error(), "only one of the declarations has PCN_DISPOSABLE") {
		t.Errorf("one that is disposable and one that is not: %v", err)
	}
	if err := in.agree("m", dropped, dropped); err != nil {
		t.Errorf("two that are disposable: %v", err)
	}
}
