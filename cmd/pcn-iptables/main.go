// SPDX-License-Identifier: Apache-2.0

// Command pcn-iptables is iptables for the cube of that name; the name by which it is called says which of the programs of
// iptables it is, or that it is ipset or packetcapture.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/polycube/polycube/internal/cli"
)

func main() {
	name := filepath.Base(os.Args[0])
	if strings.HasSuffix(name, "packetcapture") {
		os.Exit(cli.PacketCapture(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	run := cli.Iptables
	if strings.HasSuffix(name, "ipset") {
		run = cli.Ipset
	}
	os.Exit(run(os.Args[0], os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
