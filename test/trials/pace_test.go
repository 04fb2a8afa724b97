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
	"golang.org/x/sys/unix"
)

// Budgets of time are for a machine whose kernel takes a microsecond for each instruction that it verifies, and 10 ms to make
// the objects of makeObjects. Machines differ in both, and not in the same way: one of a day in November 2026 verified as fast as
// others, and took three times as long for a cube whose programs were there already.
const (
	referenceVerified = 20_000
	referenceTime     = referenceVerified * time.Microsecond
	referenceObjects  = 10 * time.Millisecond
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
	return onEachProcessor(t, func() error { return loadOnce(insns) })
}

func loadOnce(insns asm.Instructions) error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: insns, License: "GPL"})
	if err != nil {
		return err
	}
	return prog.Close()
}

// makeObjects has the kernel make maps and small programs, and remove them, on each processor at a time, and returns how long
// that takes: it finds, clears and maps memory, and tells all processors of code that comes and goes.
func makeObjects(t *testing.T) time.Duration {
	t.Helper()
	return onEachProcessor(t, func() error {
		for range 20 {
			m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4096, MaxEntries: 256, Flags: unix.BPF_F_MMAPABLE})
			if err != nil {
				return err
			}
			err = loadOnce(asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Imm(asm.R0, 0), asm.Return()})
			if err = errors.Join(err, m.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// onEachProcessor runs something as many times at once as there are processors, and returns how long that takes.
func onEachProcessor(t *testing.T, run func() error) time.Duration {
	t.Helper()
	began := time.Now()
	errs := make([]error, runtime.NumCPU())
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = run() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// slower is how many times longer than that of the budgets' machine this one's kernel takes to verify, or to make objects, at least
// once.
func slower(verified, made time.Duration) float64 {
	return max(1, float64(verified)/float64(referenceTime), float64(made)/float64(referenceObjects))
}

// lately is the median of the last three durations; false if there are fewer.
func lately(all []time.Duration) (time.Duration, bool) {
	if len(all) < 3 {
		return 0, false
	}
	return slices.Sorted(slices.Values(all[len(all)-3:]))[1], true
}
