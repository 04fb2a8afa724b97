// SPDX-License-Identifier: Apache-2.0

package check

// What older kernels lack and programs can do without. Each is asked for by itself, since distributions port features back.

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/kernel"
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

// probed is one of those that the data plane has a way around.
func probed(has func(kernel.Features) bool) func(Machine) (bool, error) {
	return func(m Machine) (bool, error) {
		f, err := m.Features()
		return has(f), err
	}
}

var wishes = []feature{
	{"tcx", kernelValue("bpf_attach_type", "BPF_TCX_INGRESS"), "TC programs are attached by links",
		"TC programs are attached as filters of clsact: each packet takes a little longer", Slower, "6.6"},
	{"NULL tests", probed(func(f kernel.Features) bool { return f.NonNullArgs }), "none at run time: the verifier is told which pointers are never NULL",
		"one at each call of a cube's program", Slower, "6.8"},
	{"loops", probed(func(f kernel.Features) bool { return f.LoopsByFallThrough }), "the verifier follows them as the compiler makes them",
		"each gets a jump more, for the verifier to follow it", Note, "6.7"},
	{"constants", probed(func(f kernel.Features) bool { return f.StackByAnyRegister }), "the verifier follows them wherever a program keeps them",
		"the verifier may mix up the ports by which packets enter a cube, and what its programs leave in md, so the linker hides them from it", Note, "6.8"},
	{"counters", kernelFunction("bpf_jit_supports_percpu_insn"), "per-CPU entries are found without a call",
		"each packet counted takes a call for its per-CPU entry", Slower, "6.10"},
	{"checksums", probed(func(f kernel.Features) bool { return f.SkbOfContext }), "TC programs see how far the kernel has computed them",
		"TC programs that rewrite packets ask a helper how far the kernel has computed them", Slower, "6.2"},
	{"XDP jumbo frames", probed(func(f kernel.Features) bool { return f.RedirectFrags }), "frames in several buffers can be redirected",
		"frames in several buffers cannot be redirected: a netdev with an MTU above 3456 is no peer for a port at XDP_DRV", Note, "6.3"},
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
