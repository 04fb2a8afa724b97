// SPDX-License-Identifier: Apache-2.0

package confine

// What the filter of system calls has to know about arm64, which has one ABI with one set of numbers.

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	otherABI  = 0x40000000
)

var deniedHere []uintptr
