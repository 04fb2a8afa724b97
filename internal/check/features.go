// SPDX-License-Identifier: Apache-2.0

package check

// Features that older kernels lack and programs can do without. Each is probed separately, because distributions
// backport features.

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/kernel"
)

// feature is one of them.
type feature struct {
	what string
	has  func(Machine) (bool, error)
	// present and absent describe the consequence.
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

// probed is a feature for which the data plane has a fallback.
func probed(has func(kernel.Features) bool) func(Machine) (bool, error) {
	return func(m Machine) (bool, error) {
		f, err := m.Features()
		return has(f), err
	}
}

var wishes = []feature{
	{"tcx", kernelValue("bpf_attach_type", "BPF_TCX_INGRESS"), "TC programs are attached by links",
		"TC programs are attached as clsact filters: each packet takes slightly longer", Slower, "6.6"},
	{"NULL tests", probed(func(f kernel.Features) bool { return f.NonNullArgs }), "no cost at run time: the verifier knows which pointers are never NULL",
		"one NULL check at each call of a cube's program", Slower, "6.8"},
	{"loops", probed(func(f kernel.Features) bool { return f.LoopsByFallThrough }), "the verifier accepts loops as compiled",
		"each loop gets an extra jump for the verifier", Note, "6.7"},
	{"constants", probed(func(f kernel.Features) bool { return f.StackByAnyRegister }), "the verifier tracks constants on the stack",
		"the verifier may confuse ingress ports of a cube and the values in md, so the linker hides them from it", Note, "6.8"},
	{"counters", kernelFunction("bpf_jit_supports_percpu_insn"), "per-CPU entries are looked up without a call",
		"each counted packet needs a call for its per-CPU entry", Slower, "6.10"},
	{"checksums", probed(func(f kernel.Features) bool { return f.SkbOfContext }), "TC programs see the checksum state directly",
		"TC programs that rewrite packets call a helper for the checksum state", Slower, "6.2"},
	{"connections", probed(func(f kernel.Features) bool { return f.ConnectionLookup }), "programs look up the connections of the host",
		"programs cannot look up the connections of the host: efw leaves all packets to a firewall that tracks connections", Note, "6.0, with CONFIG_NF_CONNTRACK=y,"},
	{"XDP jumbo frames", probed(func(f kernel.Features) bool { return f.RedirectFrags }), "frames in several buffers can be redirected",
		"frames in several buffers cannot be redirected: a netdev with an MTU above 3456 cannot be the peer of an XDP_DRV port", Note, "6.3"},
	{"XDP drivers", kernelValue("netdev_xdp_act", "NETDEV_XDP_ACT_BASIC"), "the kernel reports the XDP features of netdevs",
		"the kernel does not report the XDP features of netdevs: one that cannot run a program is refused when it is connected", Note, "6.3"},
}

func wished(m Machine) (out []Finding) {
	for _, f := range wishes {
		has, err := f.has(m)
		switch {
		case errors.Is(err, unix.EPERM):
			out = append(out, Finding{f.what, Unknown, "no permission to query the kernel", "run it as root"})
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
