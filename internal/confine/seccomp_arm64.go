// SPDX-License-Identifier: Apache-2.0

package confine

// The system call filter on arm64, which has one ABI with one set of numbers.

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	otherABI  = 0x40000000
)

var deniedHere []uintptr
