// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

func TestConstantsAreSetByName(t *testing.T) {
	type pair struct {
		A uint16
		B uint16
	}
	o := &Object{
		rodata: bytes.Repeat([]byte{0xee}, 32),
		variables: map[string]variable{
			"flag": {0, 1, nil}, "port": {2, 2, nil}, "limit": {4, 4, nil}, "mac": {8, 8, nil}, "pair": {16, 4, nil},
		},
	}
	tests := []struct {
		name  string
		value any
		at    int
		want  []byte
		err   error
	}{
		{"flag", true, 0, []byte{1}, nil},
		{"port", uint16(0x0102), 2, []byte{2, 1}, nil},
		{"limit", uint32(5), 4, []byte{5, 0, 0, 0}, nil},
		{"limit", 6, 4, []byte{6, 0, 0, 0}, nil},
		{"limit", uint(7), 4, []byte{7, 0, 0, 0}, nil},
		{"limit", int32(-1), 4, []byte{255, 255, 255, 255}, nil},
		{"mac", uint64(1) << 56, 8, []byte{0, 0, 0, 0, 0, 0, 0, 1}, nil},
		{"pair", pair{1, 2}, 16, []byte{1, 0, 2, 0}, nil},
		{"pair", [2]uint16{3, 4}, 16, []byte{3, 0, 4, 0}, nil},
		{"flag", uint32(1), 0, nil, cube.ErrInvalid},
		{"mac", uint32(1), 0, nil, cube.ErrInvalid},
		{"limit", uint64(1), 0, nil, cube.ErrInvalid},
		{"nothing", true, 0, nil, cube.ErrNotFound},
	}
	for _, test := range tests {
		data, err := o.Constants(map[string]any{test.name: test.value})
		if !errors.Is(err, test.err) {
			t.Errorf("%s = %v: %v, want %v", test.name, test.value, err, test.err)
		}
		if test.err != nil {
			if err != nil && !strings.Contains(err.Error(), "constant "+test.name) {
				t.Errorf("%s = %v: the error does not say which constant: %v", test.name, test.value, err)
			}
			continue
		}
		want := bytes.Repeat([]byte{0xee}, 32)
		copy(want[test.at:], test.want)
		if !bytes.Equal(data, want) {
			t.Errorf("%s = %v: % x, want % x", test.name, test.value, data, want)
		}
	}
	if !bytes.Equal(o.rodata, bytes.Repeat([]byte{0xee}, 32)) {
		t.Errorf("the object's own constants were changed: % x", o.rodata)
	}
	for _, bad := range []any{"text", []string{"a"}, map[string]int{}} {
		if _, err := o.Constants(map[string]any{"limit": bad}); err == nil {
			t.Errorf("%T was accepted as a constant", bad)
		}
	}
	if !o.HasConstant("mac") || o.HasConstant("nothing") {
		t.Error("HasConstant is wrong")
	}
}

func TestReasonsGetLabels(t *testing.T) {
	enum := func(name string, values ...btf.EnumValue) *ebpf.VariableSpec {
		return &ebpf.VariableSpec{Type: &btf.Var{Name: "pcn_reasons", Type: &btf.Volatile{
			Type: &btf.Const{Type: &btf.Enum{Name: name, Size: 4, Values: values}},
		}}}
	}
	long := make([]btf.EnumValue, 33)
	for i := range long {
		long[i] = btf.EnumValue{Name: "R", Value: uint64(32 + i)}
	}
	tests := []struct {
		name string
		v    *ebpf.VariableSpec
		want []string
		ok   bool
	}{
		{"the cube's prefix goes", enum("bridge_reason", btf.EnumValue{Name: "BRIDGE_SAME_PORT", Value: 32},
			btf.EnumValue{Name: "BRIDGE_NO_VLAN", Value: 33}), []string{"same-port", "no-vlan"}, true},
		{"without prefix", enum("reason", btf.EnumValue{Name: "LATE", Value: 32}), []string{"late"}, true},
		{"none", enum("x_reason"), []string{}, true},
		{"the last one", enum("x", long[:32]...), slices.Repeat([]string{"r"}, 32), true},
		{"one too many", enum("x", long...), nil, false},
		{"a gap", enum("r", btf.EnumValue{Name: "A", Value: 32}, btf.EnumValue{Name: "B", Value: 34}), nil, false},
		{"the framework's values", enum("r", btf.EnumValue{Name: "A", Value: 4}), nil, false},
		{"not an enum", &ebpf.VariableSpec{Type: &btf.Var{Type: &btf.Int{Size: 4}}}, nil, false},
	}
	for _, test := range tests {
		got, err := reasonLabels(test.v)
		if test.ok != (err == nil) || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		}
		if !test.ok && !errors.Is(err, ErrObject) {
			t.Errorf("%s: %v, want ErrObject", test.name, err)
		}
	}
}

func TestMeasureFindsTheFrameAndItsNarrowSlots(t *testing.T) {
	tests := []struct {
		name   string
		insns  []asm.Instruction
		frame  int
		narrow []int16
		reason string
	}{
		{"no frame", nil, 0, nil, ""},
		{"whole slots", []asm.Instruction{wide(-8), wide(-24)}, 24, nil, ""},
		{"parts of slots", []asm.Instruction{
			asm.StoreImm(asm.R10, -1, 0, asm.Byte), asm.StoreImm(asm.R10, -8, 0, asm.Word),
			asm.StoreImm(asm.R10, -20, 0, asm.Word), asm.StoreImm(asm.R10, -18, 0, asm.Half),
		}, 20, []int16{-24, -8}, ""},
		{"a load below all stores", []asm.Instruction{asm.LoadMem(asm.R1, asm.R10, -40, asm.DWord)}, 40, nil, ""},
		{"an address below all stores", []asm.Instruction{
			wide(-8), asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, -64),
		}, 64, nil, ""},
		{"a copy of r10 alone", []asm.Instruction{asm.Mov.Reg(asm.R2, asm.R10)}, 0, nil, ""},
		{"storing r10 elsewhere", []asm.Instruction{asm.StoreMem(asm.R2, 0, asm.R10, asm.DWord)}, 0, nil, "stores"},
		{"adding r10", []asm.Instruction{asm.Add.Reg(asm.R2, asm.R10)}, 0, nil, "does arithmetic"},
		{"comparing with r10", []asm.Instruction{to(asm.JEq.Reg(asm.R2, asm.R10, ""), 0)}, 0, nil, "does arithmetic"},
		{"a 32-bit copy of r10", []asm.Instruction{asm.Mov.Reg32(asm.R2, asm.R10)}, 0, nil, "does arithmetic"},
	}
	for _, test := range tests {
		f := body("f", append(test.insns, asm.Return())...)
		slices.Sort(f.narrow)
		if f.Frame != test.frame || !slices.Equal(f.narrow, test.narrow) {
			t.Errorf("%s: frame %d, narrow %v; want %d, %v", test.name, f.Frame, f.narrow, test.frame, test.narrow)
		}
		if test.reason == "" && f.notInlinable != "" || !strings.Contains(f.notInlinable, test.reason) {
			t.Errorf("%s: not inlinable because %q, want %q", test.name, f.notInlinable, test.reason)
		}
	}
}

func TestObjectsWithoutTypesAreRefused(t *testing.T) {
	o := &Object{Functions: map[string]*Function{}}
	if err := o.addFunctions(asm.Instructions{nop(), asm.Return()}); !errors.Is(err, ErrObject) {
		t.Errorf("%v, want ErrObject", err)
	}
}
