// SPDX-License-Identifier: Apache-2.0

// Package kernel probes the running kernel for optional features, which programs use if available. It probes the
// feature itself, never the version: distributions backport features.
package kernel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Features are those for which the data plane has a fallback.
type Features struct {
	// NonNullArgs: the verifier supports the tag arg:nonnull for an argument of a global function (Linux 6.8).
	// Otherwise the linker adds a NULL check at the start of the function.
	NonNullArgs bool
	// LoopsByFallThrough: the verifier supports a loop whose last instruction falls through into its head (Linux 6.7).
	// Otherwise the linker adds a jump between the two.
	LoopsByFallThrough bool
	// SkbOfContext: TC programs get the skb of their context with the function bpf_cast_to_kern_ctx (Linux 6.2).
	// Otherwise a helper reads its members.
	SkbOfContext bool
	// RedirectFrags: XDP redirects frames in several buffers (Linux 6.3). Otherwise the kernel silently drops them, so
	// MTUs that need them are refused.
	RedirectFrags bool
	// StackByAnyRegister: the verifier tracks stack reads by registers other than r10 (Linux 6.8). Otherwise it may
	// assume that a constant on one path is the same on all paths, and remove the code for the others. So the linker
	// hides the constants that cubes read through their pointer to the metadata.
	StackByAnyRegister bool
	// SmallFrames: a function of a program counts for a multiple of 16 bytes of stack, possibly none (Linux 6.8). Otherwise
	// it counts for a multiple of 32, at least one.
	SmallFrames bool
	// ConnectionLookup: programs look up the kernel's connections, if tracking is built into it (Linux 6.0). Otherwise cubes
	// leave packets that may have one to the stack.
	ConnectionLookup bool
}

// Frame returns the number of bytes for which a function with some bytes of stack counts.
func (f Features) Frame(bytes int) int {
	if f.SmallFrames {
		return (bytes + 15) &^ 15
	}
	return (max(bytes, 1) + 31) &^ 31
}

// All has every feature.
var All = Features{NonNullArgs: true, LoopsByFallThrough: true, SkbOfContext: true, RedirectFrags: true, StackByAnyRegister: true, SmallFrames: true, ConnectionLookup: true}

// Probe probes the running kernel. It needs the privileges for loading a program.
func Probe() (Features, error) {
	nonNull, err := accepts(nonNullProbe)
	if err != nil {
		return Features{}, fmt.Errorf("probe the kernel for arg:nonnull: %w", err)
	}
	loops, err := accepts(loopProbe)
	if err != nil {
		return Features{}, fmt.Errorf("probe the kernel for loops: %w", err)
	}
	stack, err := keepsBothPaths()
	if err != nil {
		return Features{}, fmt.Errorf("probe the kernel for constants on the stack: %w", err)
	}
	frames, err := accepts(frameProbe)
	if err != nil {
		return Features{}, fmt.Errorf("probe the kernel for the size of frames: %w", err)
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return Features{}, fmt.Errorf("probe the kernel: its types: %w", err)
	}
	f := Features{NonNullArgs: nonNull, LoopsByFallThrough: loops, StackByAnyRegister: stack, SmallFrames: frames,
		RedirectFrags: hasEnumerator(spec, "netdev_xdp_act", "NETDEV_XDP_ACT_NDO_XMIT_SG")}
	var fn *btf.Func
	f.SkbOfContext = spec.TypeByName("bpf_cast_to_kern_ctx", &fn) == nil
	f.ConnectionLookup = true
	for _, name := range []string{"bpf_skb_ct_lookup", "bpf_xdp_ct_lookup", "bpf_ct_change_timeout", "bpf_ct_release"} {
		f.ConnectionLookup = f.ConnectionLookup && spec.TypeByName(name, &fn) == nil
	}
	return f, nil
}

// accepts loads a program that needs a feature. If the kernel refuses it, the same program without the feature is
// loaded: if that is also refused, the feature is not the reason.
func accepts(program func(needs bool) *ebpf.ProgramSpec) (bool, error) {
	with := load(program(true))
	if with == nil {
		return true, nil
	}
	if err := load(program(false)); err != nil {
		return false, errors.Join(with, err)
	}
	return false, nil
}

func load(spec *ebpf.ProgramSpec) error {
	prog, err := ebpf.NewProgramWithOptions(spec, ebpf.ProgramOptions{LogDisabled: true})
	if err != nil {
		return err
	}
	return prog.Close()
}

// nonNullProbe is int f(struct __sk_buff *, struct pcn_probe *), which reads its second argument if required, and a
// caller.
func nonNullProbe(needs bool) *ebpf.ProgramSpec {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	ctx := &btf.Pointer{Target: &btf.Struct{Name: "__sk_buff", Size: 4, Members: []btf.Member{{Name: "len", Type: integer}}}}
	arg := &btf.Struct{Name: "pcn_probe", Size: 4, Members: []btf.Member{{Name: "value", Type: integer}}}
	main := &btf.Func{Name: "pcn_probe_main", Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
		Return: integer, Params: []btf.FuncParam{{Name: "ctx", Type: ctx}},
	}}
	reads := &btf.Func{Name: "pcn_probe_read", Linkage: btf.GlobalFunc, ParamTags: [][]string{nil, {NonNullTag}}, Type: &btf.FuncProto{
		Return: integer, Params: []btf.FuncParam{{Name: "ctx", Type: ctx}, {Name: "arg", Type: &btf.Pointer{Target: arg}}},
	}}
	insns := asm.Instructions{
		btf.WithFuncMetadata(asm.StoreImm(asm.R10, -8, 0, asm.Word), main).WithSymbol("pcn_probe_main"),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -8),
		asm.Call.Label("pcn_probe_read"),
		asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0), reads).WithSymbol("pcn_probe_read"),
	}
	if needs {
		insns = append(insns, asm.LoadMem(asm.R0, asm.R2, 0, asm.Word))
	}
	return probe(append(insns, asm.Return()))
}

// loopProbe counts to 4 in a loop that is entered at its head, below its body, which falls through into the head if
// required, and otherwise jumps there.
func loopProbe(needs bool) *ebpf.ProgramSpec {
	insns := asm.Instructions{
		asm.Mov.Imm(asm.R0, 0),
		asm.Ja.Label("head"),
		asm.Add.Imm(asm.R0, 1).WithSymbol("body"),
	}
	if !needs {
		insns = append(insns, asm.Ja.Label("head"))
	}
	return probe(append(insns, asm.JLT.Imm(asm.R0, 4, "body").WithSymbol("head"), asm.Return()))
}

// frameProbe is a function with 496 bytes of stack that, if required, calls one with none: of 512, both fit only if they
// count for what they use.
func frameProbe(needs bool) *ebpf.ProgramSpec {
	main := []asm.Instruction{asm.StoreImm(asm.R10, -496, 0, asm.Word), asm.Mov.Imm(asm.R0, 0), asm.Return()}
	if !needs {
		return probe(main)
	}
	function := func(name string, body ...asm.Instruction) asm.Instructions {
		typ := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}
		body[0] = btf.WithFuncMetadata(body[0], &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: typ}).WithSymbol(name)
		return body
	}
	return probe(append(function("pcn_probe_main", main[0], asm.Call.Label("pcn_probe_called"), main[1], main[2]),
		function("pcn_probe_called", main[1], main[2])...))
}

// testStateFreq is BPF_F_TEST_STATE_FREQ: the verifier compares states wherever possible, not only where that seems
// useful.
const testStateFreq = 1 << 3

// keepsBothPaths runs a program that writes 1 to the stack for a short packet and the length for a long one, reads
// that through another register, and returns whether it is not 1. For a long packet that is true, unless the verifier
// has removed the code.
func keepsBothPaths() (bool, error) {
	spec := probe(asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), // skb->len
		asm.Mov.Reg(asm.R6, asm.R10),
		asm.Add.Imm(asm.R6, -8),
		asm.JGT.Imm(asm.R2, 100, "long"),
		asm.StoreImm(asm.R10, -8, 1, asm.Half),
		asm.Ja.Label("both"),
		asm.StoreMem(asm.R10, -8, asm.R2, asm.Half).WithSymbol("long"),
		asm.LoadMem(asm.R3, asm.R6, 0, asm.Half).WithSymbol("both"),
		asm.Mov.Imm(asm.R0, 0),
		asm.JEq.Imm(asm.R3, 1, "end"),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return().WithSymbol("end"),
	})
	spec.Flags = testStateFreq
	prog, err := ebpf.NewProgramWithOptions(spec, ebpf.ProgramOptions{LogDisabled: true})
	if err != nil {
		return false, err
	}
	kept, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 200)})
	return kept == 1, errors.Join(err, prog.Close())
}

func probe(insns asm.Instructions) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Name: "pcn_probe", Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: insns}
}

// NonNullTag marks an argument of a global function that is never NULL.
const NonNullTag = "arg:nonnull"

// hasEnumerator reports whether an enum of the kernel has a value. The flag for devices that accept frames in several
// buffers was added in the kernel version in which XDP redirects them.
func hasEnumerator(spec *btf.Spec, enum, value string) bool {
	var e *btf.Enum
	if err := spec.TypeByName(enum, &e); err != nil {
		return false
	}
	return slices.ContainsFunc(e.Values, func(v btf.EnumValue) bool { return v.Name == value })
}
