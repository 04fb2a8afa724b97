// SPDX-License-Identifier: Apache-2.0

package cube_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// programTime runs a program that returns the clock of a helper.
func programTime(t *testing.T, helper asm.BuiltinFunc) time.Duration {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: asm.Instructions{
		helper.Call(),
		asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
		asm.StoreImm(asm.RFP, -12, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -12),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -8),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, 0), asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
		t.Fatal(err)
	}
	var at uint64
	if err := m.Lookup(uint32(0), &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at)
}

// TestTheClocksOfPrograms: Go code reads the same clocks.
func TestTheClocksOfPrograms(t *testing.T) {
	netns.NeedRoot(t)
	for _, clock := range []struct {
		name   string
		read   func() (uint64, error)
		helper asm.BuiltinFunc
	}{{"exact", cube.Time, asm.FnKtimeGetNs}, {"coarse", cube.TimeCoarse, asm.FnKtimeGetCoarseNs}} {
		before, err := clock.read()
		if err != nil {
			t.Fatal(err)
		}
		at := programTime(t, clock.helper)
		after, err := clock.read()
		if err != nil {
			t.Fatal(err)
		}
		if at < time.Duration(before) || at > time.Duration(after) {
			t.Errorf("%s: a program reads %v between %v and %v", clock.name, at, time.Duration(before), time.Duration(after))
		}
	}
}

// TestTheClocksOfProgramsInATimeNamespace: they are the machine's, too, rather than a container's, whose clock differs
// by an hour.
func TestTheClocksOfProgramsInATimeNamespace(t *testing.T) {
	netns.NeedRoot(t)
	if _, err := os.Stat("/proc/self/ns/time"); err != nil {
		t.Skipf("needs time namespaces: %v", err)
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{100_000, -int64(time.Duration(now)/time.Second) + 1} {
		cmd := exec.Command("unshare", "--time", "--fork", "--monotonic", fmt.Sprint(offset), os.Args[0], "-test.run=^TestTheClocksOfPrograms$", "-test.v")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%d s away: %v\n%s", offset, err, out)
		}
	}
}
