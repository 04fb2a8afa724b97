// SPDX-License-Identifier: Apache-2.0

// Package executable writes programs that a test runs at once.
package executable

import (
	"os"
	"syscall"
)

// Write writes a program that everybody may run. No process is started meanwhile: it would briefly have a copy of the
// descriptor, and the kernel does not run a file that is open for writing (ETXTBSY).
func Write(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, program, 0o600); err != nil {
		return err
	}
	return os.Chmod(path, 0o755) //nolint:gosec // it is a program
}

// CopySelf writes the program that is running, which is the test.
func CopySelf(path string) error {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return Write(path, self)
}
