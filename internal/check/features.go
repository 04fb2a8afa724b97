// SPDX-License-Identifier: Apache-2.0

package check

// What older kernels lack and programs can do without. Each is asked for by itself, since distributions port features back.

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// feature is one of them.
type feature struct {
	what string
	has  func(Machine) (bool, error)
	// present and absent say what it comes to.
	present, absent string
	grade           Grade
	since           string
}

func kernelValue(enum, value string) func(Machine) (bool, error) {
	return func(m Machine) (bool, error) { return m.KernelEnum(enum, value) }
}

func kernelFunction(name string) func(Machine) (bool, error) {
	return func(m Machine) (bool, error) { return m.KernelFunction(name) }
}

var wishes = []feature{
	{"tcx", kernelValue("bpf_attach_type", "BPF_TCX_INGRESS"), "TC programs are attached by links",
		"TC programs are attached as filters of clsact: each packet takes a little longer", Slower, "6.6"},
	{"NULL tests", func(m Machine) (bool, error) { return m.NonNull() }, "none at run time: the verifier is told which pointers are never NULL",
		"one at each call of a cube's program", Slower, "6.8"},
	{"counters", kernelFunction("bpf_jit_supports_percpu_insn"), "per-CPU entries are found without a call",
		"each packet counted takes a call for its per-CPU entry", Slower, "6.10"},
	{"checksums", kernelFunction("bpf_cast_to_kern_ctx"), "TC programs see how far the kernel has computed them",
		"TC programs that rewrite packets cannot see how far the kernel has computed them: each rewrite takes two calls", Slower, "6.2"},
	{"XDP jumbo frames", kernelValue("netdev_xdp_act", "NETDEV_XDP_ACT_NDO_XMIT_SG"), "frames in several buffers can be redirected",
		"frames in several buffers cannot be redirected: XDP ports take netdevs whose MTU fits one buffer, about 3400", Note, "6.3"},
	{"XDP drivers", kernelValue("netdev_xdp_act", "NETDEV_XDP_ACT_BASIC"), "the kernel tells what they can do",
		"the kernel does not tell what they can do: a netdev that cannot run a program is refused when it is connected", Note, "6.3"},
}

func wished(m Machine) (out []Finding) {
	for _, f := range wishes {
		has, err := f.has(m)
		switch {
		case errors.Is(err, unix.EPERM):
			out = append(out, Finding{f.what, Unknown, "this process may not ask the kernel", "run it as root"})
		case err != nil:
			out = append(out, Finding{f.what, Unknown, err.Error(), ""})
		case !has:
			out = append(out, Finding{f.what, f.grade, f.absent, "Linux " + f.since + " or newer"})
		default:
			out = append(out, Finding{f.what, OK, f.present, ""})
		}
	}
	return out
}

// nonNull loads a function that reads by an argument which is tagged as never NULL.
func nonNull() (bool, error) {
	if err := features.HaveProgramType(ebpf.SchedCLS); err != nil {
		return false, err // it says nothing about the verifier
	}
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	state := &btf.Struct{Name: "state", Size: 4, Members: []btf.Member{{Name: "n", Type: number}}}
	context := btf.FuncParam{Name: "ctx", Type: &btf.Pointer{Target: &btf.Fwd{Name: "__sk_buff"}}}
	entry := &btf.Func{Name: "probe", Linkage: btf.GlobalFunc, Type: &btf.FuncProto{Return: number, Params: []btf.FuncParam{context}}}
	read := &btf.Func{Name: "read", Linkage: btf.GlobalFunc, ParamTags: [][]string{{"arg:nonnull"}},
		Type: &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "s", Type: &btf.Pointer{Target: state}}}}}
	p, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R2, 0), entry).WithSymbol("probe"),
		asm.StoreMem(asm.R10, -8, asm.R2, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R10),
		asm.Add.Imm(asm.R1, -8),
		asm.Call.Label("read"),
		asm.Return(),
		btf.WithFuncMetadata(asm.LoadMem(asm.R0, asm.R1, 0, asm.Word), read).WithSymbol("read"),
		asm.Return(),
	}}, ebpf.ProgramOptions{LogDisabled: true})
	switch {
	case err == nil:
		return true, p.Close()
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL), errors.Is(err, ebpf.ErrNotSupported):
		return false, nil
	}
	return false, err
}
