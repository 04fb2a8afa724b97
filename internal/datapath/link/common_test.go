// SPDX-License-Identifier: Apache-2.0

package link

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// fetch is the beginning of a function that looks at a map.
func fetch(m string) asm.Instruction { return asm.LoadMapPtr(asm.R1, 0).WithReference(m) }

// caller is an object whose program calls functions: their bodies by name.
func caller(functions map[string]*Function) *Object {
	o := &Object{
		Functions: map[string]*Function{Ingress: {Name: Ingress, Callees: map[string]asm.Instructions{}}},
		Maps: map[string]*ebpf.MapSpec{
			"own":     {Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
			"of_many": {Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1, Tags: []string{"pcn_shared:space"}},
		},
	}
	for name, f := range functions {
		o.Functions[Ingress].Callees[name] = f.Body
	}
	o.addCommon()
	return o
}

func TestFunctionsOfHeadersAreCommon(t *testing.T) {
	functions := map[string]*Function{
		"plain":     body("plain", asm.Mov.Imm(asm.R0, 7), asm.Return()),
		"reads_all": body("reads_all", fetch("of_many"), asm.Mov.Imm(asm.R0, 0), asm.Return()),
		"reads_own": body("reads_own", fetch("own"), asm.Mov.Imm(asm.R0, 0), asm.Return()),
		"constant":  body("constant", fetch(".rodata"), asm.Mov.Imm(asm.R0, 0), asm.Return()),
		"calls_own": body("calls_own", asm.Call.Label("reads_own"), asm.Return()),
		"calls":     body("calls", asm.Call.Label("plain"), asm.Return()),
		"says_who":  body("says_who", asm.Call.Label("pcn_core_log"), asm.Return()),
	}
	is := caller(functions).Functions[Ingress].Common
	for name, want := range map[string]bool{
		"plain": true, "reads_all": true, "calls": true,
		"reads_own": false, "constant": false, "calls_own": false, "says_who": false,
	} {
		if got := is[name] != ""; got != want {
			t.Errorf("%s is common: %v, want %v", name, got, want)
		}
	}
	again := caller(functions).Functions[Ingress].Common
	for name, symbol := range is {
		if again[name] != symbol {
			t.Errorf("%s has the symbols %s and %s in two services with the same header", name, symbol, again[name])
		}
	}
	functions["plain"] = body("plain", asm.Mov.Imm(asm.R0, 8), asm.Return())
	other := caller(functions).Functions[Ingress].Common
	for _, name := range []string{"plain", "calls"} {
		if other[name] == is[name] {
			t.Errorf("%s has the same symbol %s in two services with different versions of a header", name, is[name])
		}
	}
	if other["reads_all"] != is["reads_all"] || !strings.Contains(is["plain"], "plain") {
		t.Errorf("symbols %v and %v", is, other)
	}
}

// TestBothDirectionsOfACubeShareFunctions: a function that does not call the framework has one symbol for both programs of a
// cube, and others for other cubes and objects.
func TestBothDirectionsOfACubeShareFunctions(t *testing.T) {
	functions := map[string]*Function{
		"reads_own": body("reads_own", fetch("own"), asm.Mov.Imm(asm.R0, 0), asm.Return()),
		"says_who":  body("says_who", asm.Call.Label("pcn_core_log"), asm.Return()),
		"calls":     body("calls", asm.Call.Label("says_who"), asm.Return()),
	}
	o, other := caller(functions), caller(functions)
	of := func(id uint16, dir cube.Direction, o *Object) site {
		programs := [2][]CubeProgram{
			{{Object: o, Function: o.Functions[Ingress]}}, {{Object: o, Function: o.Functions[Ingress]}},
		}
		return site{cube: &Cube{ID: id, Programs: programs}, dir: dir}
	}
	in, out, elsewhere := of(1, cube.Ingress, o), of(1, cube.Egress, o), of(2, cube.Ingress, o)
	for name, want := range map[string]bool{"reads_own": true, "says_who": false, "calls": false} {
		if got := in.callee(name) == out.callee(name); got != want {
			t.Errorf("%s: %s and %s are the same: %v, want %v", name, in.callee(name), out.callee(name), got, want)
		}
		if in.callee(name) == elsewhere.callee(name) {
			t.Errorf("%s: two cubes have the symbol %s", name, in.callee(name))
		}
	}
	in.cube.Programs[cube.Egress] = []CubeProgram{{Object: other, Function: other.Functions[Ingress]}}
	if in.callee("reads_own") == entrance(in.cube, cube.Egress).callee("reads_own") {
		t.Errorf("functions of two objects of a cube have the symbol %s", in.callee("reads_own"))
	}
}
