// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// TestTheStackIsThatOfTheDeepestChain: with frames rounded one by one, callbacks of loops, and without what the kernel adds
// for loops that it inlines.
func TestTheStackIsThatOfTheDeepestChain(t *testing.T) {
	insns, _ := program(
		function("pcn_driver", asm.Call.Label("a"), asm.Call.Label("b"), asm.Return()),
		function("a", asm.Call.Label("c"), asm.Return()),
		function("b", asm.FnLoop.Call(), asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Src: asm.PseudoFunc}.WithReference("d"), asm.Call.Label("c"), asm.Return()),
		function("c", asm.Return()),
		function("d", asm.Return()))
	by := func(size int) func(int) int { return func(bytes int) int { return (bytes + size - 1) / size * size } }
	for _, tt := range []struct {
		depths string
		round  int
		want   int
	}{
		{"104+30+20+10+0", 1, 144},       // a, c: b has 24 bytes less
		{"104+30+34+0+50", 1, 164},       // b, d
		{"104+30+34+0+50", 16, 112 + 80}, // each rounded up
		{"104+30+25+70+0", 32, 128 + 128},
	} {
		log := fmt.Sprintf("verification time 7 usec\nstack depth %s\nprocessed 42 insns (limit 1000000)\n", tt.depths)
		got := costOf(&ebpf.ProgramSpec{Instructions: insns}, read(log), by(tt.round))
		if got.Stack != tt.want || got.Verified != 42 || got.Instructions != len(insns) || len(got.Cubes) != 0 {
			t.Errorf("%s in steps of %d: %+v, want a stack of %d", tt.depths, tt.round, got, tt.want)
		}
	}
}

func TestTheCostOfSeveralProgramsIsTheMost(t *testing.T) {
	one := Cost{10, 200, 300, map[string]Share{"a": {5, 100}, "b": {1, 1}}}
	other := Cost{20, 100, 400, map[string]Share{"a": {4, 110}}}
	want := Cost{20, 200, 400, map[string]Share{"a": {5, 110}, "b": {1, 1}}}
	if got := one.Most(other); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTheStackOfAProgramWithoutSomeFunctions: the kernel has removed one, and does not say which.
func TestTheStackOfAProgramWithoutSomeFunctions(t *testing.T) {
	store := func(at int16) asm.Instruction { return asm.StoreMem(asm.R10, at, asm.R1, asm.DWord) }
	insns, _ := program(
		function("pcn_driver", asm.Call.Label("a"), asm.Call.Label("b"), asm.Return()),
		function("a", store(-16), asm.Call.Label("c"), asm.Return()),
		function("b", store(-48), asm.Return()),
		function("c", store(-8), asm.Mov.Reg(asm.R1, asm.R10), asm.Add.Imm(asm.R1, -40), asm.Return()))
	log := "verification time 7 usec\nstack depth 104+48+200\nprocessed 42 insns (limit 1000000)\n"
	got := costOf(&ebpf.ProgramSpec{Instructions: insns}, read(log), func(bytes int) int { return bytes })
	if want := 104 + 16 + 40; got.Stack != want {
		t.Errorf("%+v, want a stack of %d", got, want)
	}
}
