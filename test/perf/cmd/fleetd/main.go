// SPDX-License-Identifier: Apache-2.0

// Command fleetd is polycubed with the example services, for the benchmark of many instances.
package main

import (
	"os"

	_ "github.com/polycube/polycube/cubes/all" // the services
	_ "github.com/polycube/polycube/examples/cubes/ministate"
	"github.com/polycube/polycube/internal/daemon"
)

func main() {
	os.Exit(daemon.Main(os.Args[1:], os.Stdout, os.Stderr))
}
