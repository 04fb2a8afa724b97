// SPDX-License-Identifier: Apache-2.0

package check

// The interface of checks to the machine, so that tests can simulate any machine.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/internal/netdev"
)

// Machine is the kernel and the host, or a simulated one.
type Machine struct {
	// Capabilities is the effective set of this process, one bit for each.
	Capabilities func() (uint64, error)
	// Release is the kernel release, such as 6.8.0-31-generic.
	Release func() (string, error)
	// Text is the trimmed content of a small file, such as one in /proc/sys.
	Text func(path string) (string, error)
	// Glob lists the files that match a pattern.
	Glob func(pattern string) []string
	// FileSystem is the magic number of the file system of a path.
	FileSystem func(path string) (int64, error)
	// KernelEnum reports whether an enumeration of the kernel has a value, according to BTF.
	KernelEnum func(enum, value string) (bool, error)
	// ProgramType, MapType and Helper return ebpf.ErrNotSupported for what the kernel does not have.
	ProgramType func(ebpf.ProgramType) error
	MapType     func(ebpf.MapType) error
	Helper      func(ebpf.ProgramType, asm.BuiltinFunc) error
	// KernelFunction reports whether the kernel has a function, according to BTF.
	KernelFunction func(name string) (bool, error)
	// Features are those for which the data plane has a fallback.
	Features func() (kernel.Features, error)
	// Services are those of the daemon, and Try loads the programs of one on trial.
	Services func() ([]datapath.Trial, error)
	Try      func(context.Context, datapath.Trial) (datapath.TrialReport, error)
	// Compiled reports whether a loaded program is JIT-compiled.
	Compiled func() (bool, error)
	// Objects are the compiled programs of the framework and of all services.
	Objects func(cube.Hook) [][]byte
	// FileLimit is the maximum number of descriptors of this process.
	FileLimit func() (uint64, error)
	// Program looks for a program in PATH.
	Program func(name string) (string, error)
	CPUs    func() int
	Netdev  func(name string) (netdev.Facts, error)
}

// This is the machine of this process.
func This() Machine {
	return Machine{
		Capabilities: capabilities,
		Release:      release,
		Text: func(path string) (string, error) {
			text, err := os.ReadFile(path)
			return strings.TrimSpace(string(text)), err
		},
		Glob: func(pattern string) []string {
			names, _ := filepath.Glob(pattern) // the patterns are ours
			return names
		},
		FileSystem: func(path string) (int64, error) {
			var st unix.Statfs_t
			err := unix.Statfs(path, &st)
			return int64(uint32(st.Type)), err
		},
		KernelEnum: kernelEnum, KernelFunction: kernelFunctionThere, Features: sync.OnceValues(kernel.Probe),
		ProgramType: features.HaveProgramType,
		MapType:     features.HaveMapType,
		Helper:      features.HaveProgramHelper,
		Services:    builtIn,
		Try:         datapath.Try,
		Compiled:    compiled,
		Objects:     objects,
		FileLimit: func() (uint64, error) {
			var lim unix.Rlimit
			err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim)
			return lim.Max, err
		},
		Program: exec.LookPath,
		CPUs:    runtime.NumCPU,
		Netdev:  netdev.FactsOf,
	}
}

func capabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32, err
}

func release() (string, error) {
	var name unix.Utsname
	err := unix.Uname(&name)
	return unix.ByteSliceToString(name.Release[:]), err
}

func kernelEnum(enum, value string) (bool, error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return false, err
	}
	var e *btf.Enum
	err = kernel.TypeByName(enum, &e)
	if errors.Is(err, btf.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("enum %s: %w", enum, err)
	}
	for _, v := range e.Values {
		if v.Name == value {
			return true, nil
		}
	}
	return false, nil
}

func kernelFunctionThere(name string) (bool, error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return false, err
	}
	var f *btf.Func
	switch err := kernel.TypeByName(name, &f); {
	case errors.Is(err, btf.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("function %s: %w", name, err)
	}
	return true, nil
}

// compiled reads the size of a program's machine code.
func compiled() (bool, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		return false, err
	}
	defer func() { _ = p.Close() }() // the program was only queried
	info, err := p.Info()
	if err != nil {
		return false, err
	}
	size, err := info.JitedSize()
	return size > 0, err
}

// objects are read from the embedded files, so that a newly used helper is checked automatically.
func objects(h cube.Hook) (out [][]byte) {
	suffix := "." + strings.ToLower(h.String()) + ".o"
	names, err := fs.Glob(core.Objects, "*"+suffix)
	for _, name := range names {
		object, readErr := core.Objects.ReadFile(name)
		err = errors.Join(err, readErr)
		out = append(out, object)
	}
	if err != nil {
		panic(err) // they are embedded
	}
	for _, s := range cube.Services() {
		if object := s.Objects[h]; object != nil {
			out = append(out, object)
		}
	}
	return out
}
