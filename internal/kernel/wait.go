// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// WaitForPrograms returns when every eBPF program that was running when it was called has ended: they run under RCU,
// and membarrier(2) waits for a grace period.
func WaitForPrograms() error {
	const global = 1 // MEMBARRIER_CMD_GLOBAL of <linux/membarrier.h>
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return fmt.Errorf("membarrier: %w", errno)
	}
	return nil
}
