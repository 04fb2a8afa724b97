// SPDX-License-Identifier: Apache-2.0

// Command polycubed is the Polycube daemon. It is a shell around internal/daemon, so
// that everything it does can be tested without starting a process, and it decides which
// services ship.
package main

import (
	"os"

	_ "github.com/polycube/polycube/cubes/all" // the services
	"github.com/polycube/polycube/internal/daemon"
)

func main() {
	os.Exit(daemon.Main(os.Args[1:], os.Stdout, os.Stderr))
}
