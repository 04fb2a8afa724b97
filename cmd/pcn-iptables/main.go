// SPDX-License-Identifier: Apache-2.0

// Command pcn-iptables is iptables for the cube of that name; the name by which it is called says which of the programs of
// iptables it is.
package main

import (
	"os"

	"github.com/polycube/polycube/internal/cli"
)

func main() {
	os.Exit(cli.Iptables(os.Args[0], os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
