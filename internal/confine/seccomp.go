// SPDX-License-Identifier: Apache-2.0

package confine

// System calls that no service needs, refused before the kernel handles them, so that a service cannot exploit a bug
// in one of them. The list has those that change the machine, access other processes or have often been used to escape
// confinement. Those that a program probes for, and can do without, answer as if the kernel did not have them.

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are the system calls that return EPERM; those of one architecture are in deniedHere.
var denied = []uintptr{
	// eBPF, tracing, other processes
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_USERFAULTFD, unix.SYS_LOOKUP_DCOOKIE,
	// namespaces, mounts, file handles
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_MKNODAT,
	// keys
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// the machine
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME,
	unix.SYS_SETDOMAINNAME, unix.SYS_NFSSERVCTL, unix.SYS_PERSONALITY,
	// memory that is not accounted to a process
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
	// shared resources of the machine
	unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_MBIND,
	unix.SYS_SET_MEMPOLICY, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}

// missing are those that return ENOSYS: libraries then use an older one. The flags of clone3 are behind a pointer,
// where a filter cannot see them.
var missing = []uintptr{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// families are the address families that a service can use.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

// newSpaces are the flags of clone that create namespaces.
const newSpaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// Offsets in struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16 // its lower half, on little-endian machines
)

const (
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func answer(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

// filter is the program that decides about each system call. Another ABI of the same processor has other numbers, so
// its calls are refused altogether.
func filter() []unix.SockFilter {
	f := []unix.SockFilter{
		load(dataArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0), answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(dataNumber),
		jump(unix.BPF_JGE, otherABI, 0, 1), answer(absent),
	}
	for _, list := range []struct {
		calls []uintptr
		with  uint32
	}{{denied, refuse}, {deniedHere, refuse}, {missing, absent}} {
		for _, nr := range list.calls {
			f = append(f, jump(unix.BPF_JEQ, uint32(nr), 0, 1), answer(list.with))
		}
	}
	f = append(f, jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3), load(dataArg0), jump(unix.BPF_JSET, newSpaces, 0, 1), answer(refuse))
	// After a clone, the accumulator has flags instead of the number of a call.
	f = append(f, load(dataNumber), jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, uint8(2+2*len(families))), load(dataArg0))
	for _, family := range families {
		f = append(f, jump(unix.BPF_JEQ, family, 0, 1), answer(unix.SECCOMP_RET_ALLOW))
	}
	return append(f, answer(refuse), answer(unix.SECCOMP_RET_ALLOW))
}

// installFilter permanently installs the filter for the calling thread and its children.
func installFilter() error {
	f := filter()
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	if err := unix.PrctlArg5Ptr(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, nil); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("install the seccomp filter: %w", errno)
	}
	return nil
}
