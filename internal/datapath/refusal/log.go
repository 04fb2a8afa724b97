// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// The log is requested here and not by the library, which makes its buffer as large as the log: possibly a gigabyte, in
// a daemon that runs on small machines. The library also does not return the log of some errors.

// Levels of the log, and how large it may become.
const (
	levelSteps, levelReason = 1 | 4, 4 // each step, with its figures; the reason alone
	logStart                = 256 << 10
	logMost                 = 16 << 20
)

// asking loads a program with a log and returns the contents of the buffer, the size of the whole log, 0 if the kernel
// does not report it (before 6.4), and the kernel's error.
type asking func(level, size uint32) (log string, whole uint32, err error)

// logOf returns the log of a refused program, or its end, or at least its reason. Since Linux 6.4 a buffer that is too
// small contains the end of the log, which is the relevant part. Before, it contains the beginning, so it grows up to a
// limit, beyond which only the reason is requested; at once if the verifier takes seconds.
func logOf(ask asking, heavy bool) string {
	for size := uint32(logStart); size <= logMost; size *= 4 {
		log, whole, err := ask(levelSteps, size)
		if !errors.Is(err, unix.ENOSPC) || whole > 0 {
			return log
		}
		if heavy {
			break
		}
	}
	log, _, _ := ask(levelReason, logStart) // the error is known
	return log
}

// assembled is a program in the kernel's form.
type assembled struct {
	attr  loadAttr
	types *btf.Handle
	// Targets of pointers in attr.
	code, functions, lines []byte
	license                []byte
}

// loadAttr is the part for BPF_PROG_LOAD of union bpf_attr, up to Linux 6.4.
type loadAttr struct {
	progType, insnCount         uint32
	insns, license              uint64
	logLevel, logSize           uint32
	logBuf                      uint64
	kernVersion, flags          uint32
	name                        [16]byte
	ifindex, expectedAttachType uint32
	btfFD, funcInfoSize         uint32
	funcInfo                    uint64
	funcInfoCount, lineInfoSize uint32
	lineInfo                    uint64
	lineInfoCount, attachBTFID  uint32
	attachProgFD, coreReloCount uint32
	fdArray, coreRelos          uint64
	coreReloSize, logTrueSize   uint32
}

const progLoad = 5 // BPF_PROG_LOAD

// assemble prepares a program like a normal load.
func assemble(spec *ebpf.ProgramSpec) (*assembled, error) {
	insns := append(asm.Instructions{}, spec.Instructions...)
	var types btf.Builder
	if err := relocate(insns, &types); err != nil {
		return nil, err
	}
	a := &assembled{license: append([]byte(spec.License), 0)}
	var err error
	if a.functions, a.lines, err = btf.MarshalExtInfos(insns, &types); err != nil {
		return nil, fmt.Errorf("types of the functions: %w", err)
	}
	if a.types, err = btf.NewHandle(&types); err != nil {
		return nil, fmt.Errorf("types of the functions: %w", err)
	}
	var code bytes.Buffer
	if err := insns.Marshal(&code, byteOrder()); err != nil {
		return nil, errors.Join(fmt.Errorf("assembling: %w", err), a.types.Close())
	}
	a.code = code.Bytes()
	a.attr = loadAttr{
		progType: uint32(spec.Type), insnCount: uint32(len(a.code) / asm.InstructionSize), insns: address(a.code),
		license: address(a.license), flags: spec.Flags, expectedAttachType: uint32(spec.AttachType), btfFD: uint32(a.types.FD()),
		funcInfoSize: btf.FuncInfoSize, funcInfo: address(a.functions), funcInfoCount: uint32(len(a.functions)) / btf.FuncInfoSize,
		lineInfoSize: btf.LineInfoSize, lineInfo: address(a.lines), lineInfoCount: uint32(len(a.lines)) / btf.LineInfoSize,
	}
	copy(a.attr.name[:15], spec.Name)
	return a, nil
}

func (a *assembled) close() { _ = a.types.Close() }

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// noFunction is the number of a helper that no kernel has.
const noFunction = 0xdedc0de

// relocate applies relocations to the kernel's types and functions.
func relocate(insns asm.Instructions, types *btf.Builder) error {
	var fields []*btf.CORERelocation
	var users []*asm.Instruction
	for i := range insns {
		if f := btf.CORERelocationMetadata(&insns[i]); f != nil {
			fields, users = append(fields, f), append(users, &insns[i])
		}
	}
	var kernel *btf.Spec
	for i := range insns {
		if len(fields) == 0 && !insns[i].IsKfuncCall() {
			continue
		}
		if kernel == nil {
			var err error
			if kernel, err = btf.LoadKernelSpec(); err != nil {
				return fmt.Errorf("types of the kernel: %w", err)
			}
		}
		if insns[i].IsKfuncCall() {
			var f *btf.Func
			err := kernel.TypeByName(insns[i].Reference(), &f)
			if errors.Is(err, btf.ErrNotFound) {
				// Not the reason why the program was refused, which is known by now: it is omitted, and
				// never called.
				none, err := asm.BuiltinFuncForPlatform("linux", noFunction)
				if err != nil {
					return fmt.Errorf("kernel function %s: %w", insns[i].Reference(), err)
				}
				insns[i] = asm.Instruction{OpCode: insns[i].OpCode, Constant: int64(none), Metadata: insns[i].Metadata}
				continue
			}
			if err != nil {
				return fmt.Errorf("kernel function %s: %w", insns[i].Reference(), err)
			}
			id, err := kernel.TypeID(f)
			if err != nil {
				return fmt.Errorf("kernel function %s: %w", f.Name, err)
			}
			insns[i].Constant, insns[i].Offset = int64(id), 0
		}
	}
	if len(fields) == 0 {
		return nil
	}
	fixes, err := btf.CORERelocate(fields, []*btf.Spec{kernel}, byteOrder(), types.Add)
	for i := 0; i < len(fixes) && err == nil; i++ {
		err = fixes[i].Apply(users[i])
	}
	if err != nil {
		return fmt.Errorf("members of the kernel's types: %w", err)
	}
	return nil
}

// load is an asking. The kernel runs no program that it accepts: it is closed at once.
func (a *assembled) load(level, size uint32) (string, uint32, error) {
	attr, buffer := a.attr, make([]byte, size)
	attr.logLevel, attr.logSize, attr.logBuf, attr.logTrueSize = level, size, address(buffer), 0
	for range 10 {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, progLoad, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		runtime.KeepAlive(a)
		runtime.KeepAlive(buffer)
		if errno == unix.EAGAIN || errno == unix.EINTR {
			continue
		}
		log, _, _ := bytes.Cut(buffer, []byte{0})
		if errno != 0 {
			return string(log), attr.logTrueSize, errno
		}
		return string(log), attr.logTrueSize, unix.Close(int(fd))
	}
	return "", 0, unix.EAGAIN
}

// byteOrder is the machine's; the library does not know binary.NativeEndian.
func byteOrder() binary.ByteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}
