// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/bpf/core"
)

func TestMetadataMayGrowInItsReservedRoom(t *testing.T) {
	u32 := &btf.Int{Size: 4}
	member := func(name string, at btf.Bits, words uint32) btf.Member {
		if words == 1 {
			return btf.Member{Name: name, Type: u32, Offset: at * 32}
		}
		return btf.Member{Name: name, Type: &btf.Array{Type: u32, Nelems: words}, Offset: at * 32}
	}
	md := func(size uint32, members ...btf.Member) *btf.Struct {
		return &btf.Struct{Name: "pcn_md", Size: size, Members: members}
	}
	was := md(16, member("port", 0, 1), member("reserved", 1, 3))
	for what, tt := range map[string]struct {
		is *btf.Struct
		ok bool
	}{
		"the same":              {was, true},
		"a member in the room":  {md(16, member("port", 0, 1), member("queue", 1, 1), member("reserved", 2, 2)), true},
		"another size":          {md(20, member("port", 0, 1), member("reserved", 1, 4)), false},
		"a member elsewhere":    {md(16, member("queue", 0, 1), member("port", 1, 1), member("reserved", 2, 2)), false},
		"a member renamed":      {md(16, member("in_port", 0, 1), member("reserved", 1, 3)), false},
		"a member that is wide": {md(16, member("port", 0, 2), member("reserved", 2, 2)), false},
	} {
		if err := extends(was, tt.is); (err == nil) != tt.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	ours, err := core.Objects.ReadFile("host.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	if err := sameMetadata(ours); err != nil {
		t.Errorf("an object of ours: %v", err)
	}
	if err := sameMetadata([]byte("no object")); err == nil {
		t.Error("what is no object has our metadata")
	}
}
