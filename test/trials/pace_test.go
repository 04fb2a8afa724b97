// SPDX-License-Identifier: Apache-2.0

package trials

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Budgets of time are for a machine whose kernel takes a microsecond for each instruction that it verifies.
const (
	referenceVerified = 20_000
	referenceTime     = referenceVerified * time.Microsecond
)

// reference has the kernel verify a program of 20,000 instructions, that reads, calculates and has branches which meet
// again, and returns how long it takes.
func reference(t *testing.T) time.Duration {
	t.Helper()
	insns := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R7, 0)}
	for i := range referenceVerified * 2 / 15 {
		insns = append(insns,
			asm.LoadMem(asm.R0, asm.R6, 0, asm.Word),
			asm.Add.Reg(asm.R7, asm.R0),
			asm.Instruction{OpCode: asm.JGT.Op(asm.ImmSource), Dst: asm.R7, Constant: int64(i), Offset: 1},
			asm.Xor.Imm(asm.R7, int32(i)))
	}
	insns = append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())
	began := time.Now()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: insns, License: "GPL"})
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	if err := prog.Close(); err != nil {
		t.Fatal(err)
	}
	return took
}

// slower is how many times longer than that of the budgets' machine this one's kernel takes, at least once.
func slower(took time.Duration) float64 { return max(1, float64(took)/float64(referenceTime)) }
