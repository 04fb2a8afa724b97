// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"io"

	"github.com/polycube/polycube/internal/check"
)

// usage is the first part of the help.
const usage = `Usage: polycubed [options]
       polycubed check [--json] [--all] [NETDEV...]   check the machine: missing features, and what is slower without them
       polycubed cleanup [options]            remove everything that a stopped daemon left in the kernel
`

// longJSON accepts -json, as polycubectl spells it, for --json.
func longJSON(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if out[i] = a; a == "-json" {
			out[i] = "--json"
		}
	}
	return out
}

// checkMachine executes polycubed check. The exit status says whether a daemon can run, with the given netdevs.
func checkMachine(ctx context.Context, m check.Machine, o Options, stdout, stderr io.Writer) int {
	report := check.Run(ctx, m, check.Options{Netdevs: o.Netdevs, All: o.All})
	write := report.Table
	if o.JSON {
		write = report.JSON
	}
	if err := write(stdout); err != nil {
		fmt.Fprintf(stderr, "polycubed: writing the report: %v\n", err)
		return exitFailed
	}
	if !report.Good() {
		return exitFailed
	}
	return exitOK
}
