// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// to makes a jump over n instruction slots, as a compiler does: without a label.
func to(ins asm.Instruction, n int16) asm.Instruction {
	out := ins.WithReference("")
	out.Offset = n
	return out
}

// bodies are programs with what must survive a move into the driver's frame. Each adds up what
// it did in r0 and may write to the 64 bytes at r2.
var bodies = map[string]*Function{
	"a jump over a wide load": body("f",
		asm.Mov.Imm(asm.R0, 1),
		to(asm.JEq.Imm(asm.R0, 1, ""), 3),
		asm.LoadImm(asm.R3, 0x1_0000_0001, asm.DWord),
		asm.Add.Imm(asm.R0, 100),
		asm.Add.Imm(asm.R0, 10),
		asm.Return()),
	"a jump to the first instruction": body("f",
		asm.LoadMem(asm.R3, asm.R2, 0, asm.Word),
		asm.Add.Imm(asm.R3, 1),
		asm.StoreMem(asm.R2, 0, asm.R3, asm.Word),
		to(asm.JLT.Imm(asm.R3, 4, ""), -4),
		asm.Mov.Reg(asm.R0, asm.R3),
		asm.Return()),
	"jumps to one place from two": body("f",
		asm.LoadMem(asm.R3, asm.R2, 0, asm.Word),
		asm.Mov.Imm(asm.R0, 5),
		to(asm.JEq.Imm(asm.R3, 9, ""), 3),
		to(asm.JEq.Imm32(asm.R3, 0, ""), 2),
		asm.Mov.Imm(asm.R0, 6),
		asm.Return(),
		asm.Add.Imm(asm.R0, 70),
		asm.Return()),
	"a long jump": body("f",
		asm.Mov.Imm(asm.R0, 1),
		asm.Instruction{OpCode: asm.LongJump("").OpCode, Constant: 2},
		asm.Mov.Imm(asm.R0, 2),
		asm.Return(),
		asm.Add.Imm(asm.R0, 4),
		asm.Return()),
	"locals of all sizes": body("f",
		asm.Mov.Imm(asm.R3, 0x11),
		asm.StoreMem(asm.R10, -1, asm.R3, asm.Byte),
		asm.StoreMem(asm.R10, -4, asm.R3, asm.Half),
		asm.StoreMem(asm.R10, -12, asm.R3, asm.Word),
		asm.StoreMem(asm.R10, -24, asm.R3, asm.DWord),
		asm.LoadMem(asm.R0, asm.R10, -1, asm.Byte),
		asm.LoadMem(asm.R4, asm.R10, -4, asm.Half),
		asm.Add.Reg(asm.R0, asm.R4),
		asm.LoadMem(asm.R4, asm.R10, -12, asm.Word),
		asm.Add.Reg(asm.R0, asm.R4),
		asm.LoadMem(asm.R4, asm.R10, -24, asm.DWord),
		asm.Add.Reg(asm.R0, asm.R4),
		asm.Return()),
	"a local through its address": body("f",
		asm.Mov.Reg(asm.R6, asm.R10),
		asm.Add.Imm(asm.R6, -16),
		asm.Mov.Imm(asm.R3, 0x2222),
		asm.StoreMem(asm.R6, 8, asm.R3, asm.DWord),
		asm.LoadMem(asm.R0, asm.R10, -8, asm.DWord),
		asm.StoreMem(asm.R2, 40, asm.R0, asm.Half),
		asm.Return()),
	"two exits": body("f",
		asm.LoadMem(asm.R3, asm.R2, 0, asm.Byte),
		asm.Mov.Imm(asm.R0, 1),
		to(asm.JEq.Imm(asm.R3, 0, ""), 1),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 2),
		asm.Return()),
	"a call": body("f",
		asm.Mov.Reg(asm.R6, asm.R2),
		asm.FnGetPrandomU32.Call(),
		asm.StoreMem(asm.R6, 8, asm.R0, asm.Word),
		asm.Return()),
}

// alone runs a body as a function, inlined runs it in a driver's frame. Both return r0 and what
// the 64 bytes hold then.
func alone(t *testing.T, f *Function, first byte) (uint64, []byte) {
	t.Helper()
	return runBody(t, f.Body, first, false)
}

func inlined(t *testing.T, f *Function, first byte) (uint64, []byte) {
	t.Helper()
	g := newGenerator(linking{c: &Component{}, core: &Core{}})
	b := &block{label: "in.1"}
	b.store(asm.R10, offMD, asm.R2, asm.DWord)
	s := place{site{cube: &Cube{ID: 1, Name: "c", Object: &Object{}}}, 0}
	if err := g.inline(b, s, f, "in.1.done"); err != nil {
		t.Fatal(err)
	}
	blocks := []*block{b, labelled("in.1.done", asm.Return())}
	for _, where := range []string{"wire.1.0", "stack.1", "drop.1", "flood.1.0", "up.in.1", "badverdict.1", "namespace.1"} {
		blocks = append(blocks, labelled(where, asm.Return())) // threaded returns go there
	}
	insns, err := layout(blocks)
	if err != nil {
		t.Fatal(err)
	}
	return runBody(t, insns, first, true)
}

func runBody(t *testing.T, insns asm.Instructions, first byte, inDriver bool) (uint64, []byte) {
	t.Helper()
	data := make([]byte, 64)
	data[0] = first
	m := &vm{helper: func(*vm, asm.BuiltinFunc) (uint64, error) { return 0x4711, nil }}
	m.frame()
	at := m.memory("md", data)
	m.r[2] = address(at, 0)
	frame := m.regions[0].data
	r0, err := m.function(insns, 0)
	if err != nil {
		t.Fatalf("%v\n%v", err, insns)
	}
	if inDriver {
		own := frame[frameRegionSize-frameSize:]
		junk := bytes.Repeat([]byte{0xa5}, frameSize)
		copy(junk[frameSize+offMD:], own[frameSize+offMD:frameSize+offMD+8]) // what the test stored there
		if !bytes.Equal(own, junk) {
			t.Errorf("the body wrote into the driver's frame: % x", own)
		}
	}
	return r0, data
}

func TestInlinedBodiesDoWhatTheyDidAlone(t *testing.T) {
	for name, f := range bodies {
		t.Run(name, func(t *testing.T) {
			for first := range byte(4) {
				want, wantData := alone(t, f, first)
				got, gotData := inlined(t, f, first)
				if got != want || !bytes.Equal(gotData, wantData) {
					t.Errorf("with %d: r0 %#x and % x, alone %#x and % x", first, got, gotData, want, wantData)
				}
			}
		})
	}
}

// wide stores 8 bytes on the stack, which asm.StoreImm cannot.
func wide(off int16) asm.Instruction {
	return asm.Instruction{OpCode: asm.StoreImmOp(asm.DWord), Dst: asm.R10, Offset: off}
}

func TestWhatCannotBeInlinedIsRefusedWithAReason(t *testing.T) {
	b := &block{label: "in.1"}
	g := newGenerator(linking{c: &Component{}, core: &Core{}})
	s := place{site{cube: &Cube{ID: 1, Name: "c", Object: &Object{}}}, 0}
	tests := []struct {
		f    *Function
		want string
	}{
		{body("f", asm.StoreMem(asm.R2, 0, asm.R10, asm.DWord), asm.Return()), "stores its frame pointer"},
		{body("f", asm.Sub.Reg(asm.R3, asm.R10), asm.Return()), "does arithmetic on its frame pointer"},
		{body("f", wide(-432), asm.Return()), "stack of 432 bytes"},
		{body("f", asm.Mov.Reg(asm.R1, asm.R10), asm.Add.Imm(asm.R1, -432), asm.Return()), "stack of 432 bytes"},
	}
	for _, test := range tests {
		err := g.inline(b, s, test.f, "done")
		if !errors.Is(err, ErrNotInlinable) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want ErrNotInlinable: %s", test.f.Body, err, test.want)
		}
	}
	fits := body("f", wide(-(stackLimit - frameSize)), asm.Return())
	if err := g.inline(b, s, fits, "done"); err != nil {
		t.Errorf("a body that fills the frame to the last byte: %v", err)
	}
}

func TestNarrowSlotsAreZeroedBeforeTheBody(t *testing.T) {
	f := body("f",
		asm.Mov.Imm(asm.R3, 1),
		asm.StoreMem(asm.R10, -2, asm.R3, asm.Half),
		asm.LoadMem(asm.R0, asm.R10, -8, asm.DWord), // its own two bytes, and what was there
		asm.Return())
	if got, _ := inlined(t, f, 0); got != 1<<48 {
		t.Errorf("the rest of the slot holds %#x", got)
	}
}

func TestInliningDropsTheMarksOfAFunctionAndKeepsTheSource(t *testing.T) {
	ins := btf.WithFuncMetadata(nop().WithSymbol("f"), &btf.Func{Name: "f"}).WithSource(asm.Comment("a line"))
	out := strip(ins)
	if btf.FuncMetadata(&out) != nil || out.Symbol() != "f" || out.Source() == nil {
		t.Errorf("%v: function %v, source %v", out, btf.FuncMetadata(&out), out.Source())
	}
	plain := nop().WithSource(asm.Comment("x"))
	if out := strip(plain); out.Source() == nil {
		t.Error("an ordinary instruction lost its source")
	}
}

// bindings is a cube with a map and two sections of constants.
func bindings() (*generator, site, *table, *table) {
	fdb, rodata := &table{name: "fdb"}, &table{name: "rodata"}
	c := &Cube{
		ID: 0x123, Name: "c", Rodata: 0x1000, Maps: map[string]asm.FDer{"fdb": fdb},
		Object: &Object{
			sections:  map[string]uint32{".rodata": 0, ".rodata.str": 0x40},
			Functions: map[string]*Function{Ingress: {}, Egress: {}},
		},
	}
	return newGenerator(linking{c: &Component{}, core: &Core{Rodata: rodata}}), entrance(c, cube.Egress), fdb, rodata
}

func TestMapsAndConstantsAreThoseOfTheInstance(t *testing.T) {
	g, s, fdb, rodata := bindings()
	tests := []struct {
		name string
		ins  asm.Instruction
		want *table
		off  uint32
	}{
		{"a map", asm.LoadMapPtr(asm.R1, 0).WithReference("fdb"), fdb, 0},
		{"a constant", asm.LoadMapValue(asm.R1, 0, 8).WithReference(".rodata"), rodata, 0x1008},
		{"one of another section", asm.LoadMapValue(asm.R1, 0, 8).WithReference(".rodata.str"), rodata, 0x1048},
	}
	for _, test := range tests {
		out, err := g.bind(s, test.ins)
		if err != nil || len(out) != 1 {
			t.Fatalf("%s: %v, %v", test.name, out, err)
		}
		if out[0].Map() != test.want || uint32(uint64(out[0].Constant)>>32) != test.off {
			t.Errorf("%s: bound to %v at %#x, want %v at %#x", test.name, out[0].Map(), uint64(out[0].Constant)>>32, test.want, test.off)
		}
	}
	if _, err := g.bind(s, asm.LoadMapPtr(asm.R1, 0).WithReference("other")); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a map that the cube does not have: %v, want ErrNotFound", err)
	}
	if _, err := g.bind(s, asm.LoadMapPtr(asm.R1, 0)); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a map without name: %v, want ErrNotFound", err)
	}
}

func TestCallsToTheFrameworkSayWhoCalls(t *testing.T) {
	g, s, _, _ := bindings()
	for name, want := range map[string]asm.Register{"pcn_core_copy": asm.R4, "pcn_core_log": asm.R3, "pcn_core_notify": asm.R3, "pcn_core_mirror": asm.R4} {
		out, err := g.bind(s, asm.Call.Label(name).WithSymbol("here"))
		if err != nil || len(out) != 2 {
			t.Fatalf("%s: %v, %v", name, out, err)
		}
		if out[0].Dst != want || out[0].Constant != 0x1_0123 || out[0].OpCode.ALUOp() != asm.Mov {
			t.Errorf("%s: %v, want the cube and its direction in %v", name, out[0], want)
		}
		if out[0].Symbol() != "here" || out[1].Symbol() != "" {
			t.Errorf("%s: a jump to the call passes by the caller's identity: %v", name, out)
		}
		if out[1].Reference() != name+"_for" {
			t.Errorf("%s: calls %s", name, out[1].Reference())
		}
	}
	out, err := g.bind(s, asm.Call.Label("helper"))
	if err != nil || len(out) != 1 || out[0].Reference() != "c291o_helper" {
		t.Errorf("a static function: %v, %v; want the instance's own copy", out, err)
	}
}

func TestCopiesOfAFunctionHaveNamesAndTypesOfTheirOwn(t *testing.T) {
	g, s, _, _ := bindings()
	f := bodies["a jump to the first instruction"]
	out, err := g.function(s, s.symbol(f.Name), f.Body, btf.StaticFunc)
	if err != nil {
		t.Fatal(err)
	}
	fn := btf.FuncMetadata(&out[0])
	if fn.Name != "c291o_f" || out[0].Symbol() != "c291o_f" || fn.Linkage != btf.StaticFunc {
		t.Errorf("function %s (%v), symbol %s", fn.Name, fn.Linkage, out[0].Symbol())
	}
	if was := btf.FuncMetadata(&f.Body[0]); was.Name != "f" || f.Body[0].Symbol() != "f" {
		t.Errorf("the original is called %s now", was.Name)
	}
	got, _ := runBody(t, out, 0, false)
	if want, _ := alone(t, f, 0); got != want {
		t.Errorf("the copy returns %d, the original %d", got, want)
	}
}
