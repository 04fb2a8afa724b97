// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// What the kernel must have for programs to be accepted at all.

// oldest is the kernel that has all that programs cannot do without (docs/adr/0039-kernel-feature-probes.md).
const oldest = "6.1"

const bpffsRoot = "/sys/fs/bpf"

// newerKernel is the remedy for features that no older kernel has.
const newerKernel = "Linux " + oldest + " or newer"

// hooks are the program types, by hook.
var hooks = map[cube.Hook]ebpf.ProgramType{cube.TC: ebpf.SchedCLS, cube.XDP: ebpf.XDP}

// eachHook calls fn for TC, then for XDP.
func eachHook(fn func(cube.Hook, ebpf.ProgramType)) {
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		fn(h, hooks[h])
	}
}

func upper(h cube.Hook) string { return strings.ToUpper(h.String()) }

// wanted are capabilities, by what does not work without them.
var wanted = []struct {
	bit  uint
	name string
}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}}

func privileges(m Machine) []Finding {
	const what = "privileges"
	has, err := m.Capabilities()
	if err != nil {
		return one(what, Unknown, err.Error(), "")
	}
	admin := has&(1<<unix.CAP_SYS_ADMIN) != 0
	var lacks []string
	for _, w := range wanted {
		if has&(1<<w.bit) == 0 && (!admin || w.bit == unix.CAP_NET_ADMIN) {
			lacks = append(lacks, w.name)
		}
	}
	switch {
	case len(lacks) > 0:
		return one(what, Missing, "without "+strings.Join(lacks, ", "), "run it as root")
	case !admin:
		return one(what, Note, "without CAP_SYS_ADMIN: no cube can have a namespace", "")
	}
	return one(what, OK, "all required capabilities", "")
}

func kernelVersion(m Machine) []Finding {
	const what = "kernel"
	text, err := m.Release()
	if err != nil {
		return one(what, Unknown, err.Error(), "")
	}
	if older(text, oldest) {
		return one(what, Note, "Linux "+text+", older than "+oldest+": works only if the distribution backported the features checked below", "")
	}
	return one(what, OK, "Linux "+text, "")
}

// older compares versions by their first two numbers.
func older(version, than string) bool {
	var a, b [2]int
	_, _ = fmt.Sscanf(version, "%d.%d", &a[0], &a[1]) // what is no number is 0
	_, _ = fmt.Sscanf(than, "%d.%d", &b[0], &b[1])
	return slices.Compare(a[:], b[:]) < 0
}

func kernelTypes(m Machine) []Finding {
	const what = "BTF"
	if _, err := m.KernelEnum("bpf_attach_type", "BPF_XDP"); err != nil {
		return one(what, Missing, "cannot read the kernel's BTF: "+err.Error(), "a kernel built with CONFIG_DEBUG_INFO_BTF=y")
	}
	return one(what, OK, "the kernel has BTF", "")
}

// probe is the result of probing features: absent features by name, or an error that says nothing about the kernel.
type probe struct {
	absent []string
	err    error
}

func (p *probe) add(name string, err error) {
	switch {
	case errors.Is(err, ebpf.ErrNotSupported):
		p.absent = append(p.absent, name)
	case err != nil && p.err == nil:
		p.err = fmt.Errorf("%s: %w", name, err)
	}
}

// finding is present if nothing is absent.
func (p *probe) finding(what, present string) []Finding {
	switch {
	case len(p.absent) > 0:
		return one(what, Missing, "the kernel has no "+strings.Join(p.absent, ", ")+", which is required to load programs", newerKernel)
	case errors.Is(p.err, unix.EPERM):
		return one(what, Unknown, "no permission to query the kernel", "run it as root")
	case p.err != nil:
		return one(what, Unknown, p.err.Error(), "")
	}
	return one(what, OK, present, "")
}

func programTypes(m Machine) []Finding {
	var p probe
	eachHook(func(h cube.Hook, t ebpf.ProgramType) { p.add(upper(h), m.ProgramType(t)) })
	return p.finding("program types", "TC and XDP")
}

// uses are the kernel features that objects use.
type uses struct {
	helpers map[asm.BuiltinFunc]bool
	maps    map[ebpf.MapType]bool
}

func usesOf(objects [][]byte) (uses, error) {
	u := uses{map[asm.BuiltinFunc]bool{}, map[ebpf.MapType]bool{}}
	for _, object := range objects {
		spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
		if err != nil {
			return u, fmt.Errorf("read a built-in program: %w", err)
		}
		for _, p := range spec.Programs {
			for _, i := range p.Instructions {
				if i.IsBuiltinCall() {
					u.helpers[asm.BuiltinFunc(i.Constant)] = true
				}
			}
		}
		for _, s := range spec.Maps {
			u.maps[s.Type] = true
		}
	}
	return u, nil
}

func mapTypes(m Machine) []Finding {
	const what = "map types"
	types := map[ebpf.MapType]bool{}
	for h := range hooks {
		u, err := usesOf(m.Objects(h))
		if err != nil {
			return one(what, Unknown, err.Error(), "")
		}
		maps.Copy(types, u.maps)
	}
	var p probe
	for _, t := range slices.Sorted(maps.Keys(types)) {
		p.add(t.String(), m.MapType(t))
	}
	return p.finding(what, fmt.Sprintf("all %d that programs use", len(types)))
}

func helpersOf(h cube.Hook) string { return upper(h) + " helpers" }

func helpers(m Machine) (out []Finding) {
	eachHook(func(h cube.Hook, t ebpf.ProgramType) {
		u, err := usesOf(m.Objects(h))
		if err != nil {
			out = append(out, one(helpersOf(h), Unknown, err.Error(), "")...)
			return
		}
		var p probe
		for _, f := range slices.Sorted(maps.Keys(u.helpers)) {
			p.add(helperName(f), m.Helper(t, f))
		}
		out = append(out, p.finding(helpersOf(h), fmt.Sprintf("all %d that programs use", len(u.helpers)))...)
	})
	return out
}

// helperName is the name in C: FnMapLookupElem is bpf_map_lookup_elem.
func helperName(f asm.BuiltinFunc) string {
	var b strings.Builder
	b.WriteString("bpf")
	for _, r := range strings.TrimPrefix(f.String(), "Fn") {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func bpffs(m Machine) []Finding {
	const what = "BPF file system"
	switch magic, err := m.FileSystem(bpffsRoot); {
	case errors.Is(err, fs.ErrNotExist):
		return one(what, Missing, "there is no "+bpffsRoot, "a kernel built with CONFIG_BPF_SYSCALL=y, and /sys mounted")
	case err != nil:
		return one(what, Unknown, err.Error(), "")
	case magic != unix.BPF_FS_MAGIC:
		return one(what, Note, "none is mounted at "+bpffsRoot+": the daemon mounts one", "")
	}
	return one(what, OK, "mounted at "+bpffsRoot, "")
}

func tun(m Machine) []Finding {
	const what = "TAP devices"
	if len(m.Glob("/dev/net/tun")) == 0 {
		return one(what, Missing, "there is no /dev/net/tun", "modprobe tun")
	}
	return one(what, OK, "/dev/net/tun", "")
}
