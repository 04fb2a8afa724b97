// SPDX-License-Identifier: Apache-2.0

package confine

// The system call filter on x86-64: numbers from otherABI on are those of x32.

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	otherABI  = 0x40000000
)

var deniedHere = []uintptr{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_MKNOD, unix.SYS_USELIB, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE,
}
