// SPDX-License-Identifier: Apache-2.0

// Package grace waits for programs.
package grace

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Wait returns when every program that was running when it was called has ended. Programs run under RCU, and membarrier(2)
// waits for a grace period: some milliseconds.
func Wait() error {
	const global = 1 // MEMBARRIER_CMD_GLOBAL of <linux/membarrier.h>
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return fmt.Errorf("membarrier: %w", errno)
	}
	return nil
}
