// SPDX-License-Identifier: Apache-2.0

// Command polycubed is the Polycube daemon. It is a thin wrapper around internal/daemon, so that everything can be
// tested without starting a process, and it decides which services are built in.
package main

import (
	"os"

	_ "github.com/polycube/polycube/cubes/all" // the services
	"github.com/polycube/polycube/internal/daemon"
)

func main() {
	os.Exit(daemon.Main(os.Args[1:], os.Stdout, os.Stderr))
}
