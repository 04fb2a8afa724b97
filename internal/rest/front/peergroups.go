// SPDX-License-Identifier: Apache-2.0

package front

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerGroups reads the supplementary groups of a Unix socket's peer. golang.org/x/sys defines the option but has no
// function for it. The kernel requires a large enough buffer, and returns the size if it is too small.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:min(int(size/4), len(groups))], nil
		case errors.Is(errno, unix.ERANGE) && int(size/4) > len(groups):
			groups = make([]uint32, size/4)
		default:
			return nil, fmt.Errorf("SO_PEERGROUPS: %w", errno)
		}
	}
}
