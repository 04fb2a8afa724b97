// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

func TestShapes(t *testing.T) {
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	s64 := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	pair := &btf.Struct{Name: "pair", Size: 16, Members: []btf.Member{
		{Name: "a", Type: &btf.Typedef{Name: "__u32", Type: u32}}, {Name: "b", Type: s64, Offset: 64},
	}}
	for _, tt := range []struct {
		typ  btf.Type
		want string
	}{
		{nil, ""},
		{&btf.Void{}, ""},
		{&btf.Const{Type: u32}, "u32"},
		{&btf.Enum{Size: 4}, "u32"},
		{&btf.Float{Size: 8}, "f64"},
		{&btf.Pointer{Target: pair}, "pointer"},
		{&btf.Array{Type: s64, Nelems: 3}, "[3]i64"},
		{pair, "{a u32 at 0; b i64 at 8}"},
		{&btf.Union{Members: pair.Members[:1]}, "{a u32 at 0}"},
		{&btf.Struct{Members: []btf.Member{{Name: "f", Type: u32, Offset: 3, BitfieldSize: 5}}}, "{f u32 at bit 3, 5 bits}"},
		{&btf.Datasec{Vars: []btf.VarSecinfo{{Type: &btf.Var{Name: "v", Type: u32}, Offset: 4}}}, "{v u32 at 4}"},
	} {
		if got := shape(tt.typ); got != tt.want {
			t.Errorf("%v is %q, want %q", tt.typ, got, tt.want)
		}
	}
}

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
	if err := sameMetadata(probeTC); err != nil {
		t.Errorf("an object of ours: %v", err)
	}
	if err := sameMetadata([]byte("no object")); err == nil {
		t.Error("what is no object has our metadata")
	}
}
