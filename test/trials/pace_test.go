// SPDX-License-Identifier: Apache-2.0

package trials

import (
	"errors"
	"runtime"
	"slices"
	"sync"
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

// reference has the kernel verify a program of 20,000 instructions on each processor at a time, as the programs of a cube
// are, and returns how long it takes. They read, calculate, and have branches which meet again.
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
	errs := make([]error, runtime.NumCPU())
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: insns, License: "GPL"})
			if err == nil {
				err = prog.Close()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// slower is how many times longer than that of the budgets' machine this one's kernel takes, at least once.
func slower(took time.Duration) float64 { return max(1, float64(took)/float64(referenceTime)) }

// lately is the median of the last three durations; false if there are fewer.
func lately(all []time.Duration) (time.Duration, bool) {
	if len(all) < 3 {
		return 0, false
	}
	return slices.Sorted(slices.Values(all[len(all)-3:]))[1], true
}
