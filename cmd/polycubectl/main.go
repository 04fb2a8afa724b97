// SPDX-License-Identifier: Apache-2.0

// Command polycubectl is the command line of Polycube.
package main

import (
	"os"

	"github.com/polycube/polycube/internal/cli"
)

func main() {
	os.Exit(int(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)))
}
