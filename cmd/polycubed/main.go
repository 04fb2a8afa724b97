// SPDX-License-Identifier: Apache-2.0

// Command polycubed is the Polycube daemon. It is a shell around internal/daemon, so
// that everything it does can be tested without starting a process.
package main

import (
	"os"

	"github.com/polycube/polycube/internal/daemon"
)

func main() {
	os.Exit(daemon.Main(os.Args[1:], os.Stdout, os.Stderr))
}
