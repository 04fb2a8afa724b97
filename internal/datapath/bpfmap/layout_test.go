// SPDX-License-Identifier: Apache-2.0

package bpfmap

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
