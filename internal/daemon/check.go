// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/foreign"
	"github.com/polycube/polycube/internal/check"
)

// usage is the first part of the help.
const usage = `Usage: polycubed [options]
       polycubed check [--json] [--all] [NETDEV...]   check the machine: missing features, and what is slower without them
       polycubed check-service [--all] NAME.yang NAME.tc.o NAME.xdp.o   check whether a daemon here would accept a service
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

// checkService executes polycubed check-service. The exit status says whether a daemon would accept the service.
func checkService(ctx context.Context, m check.Machine, o Options, stdout, stderr io.Writer) int {
	f, err := serviceFiles(o.CheckService)
	if err != nil {
		fmt.Fprintf(stderr, "polycubed: %v\n", err)
		return exitUsage
	}
	report := check.Service(ctx, m, f, o.All)
	if err := report.ServiceTable(stdout); err != nil {
		fmt.Fprintf(stderr, "polycubed: writing the report: %v\n", err)
		return exitFailed
	}
	if !report.Runs() {
		return exitFailed
	}
	return exitOK
}

// serviceFiles reads the files of a service.
func serviceFiles(names []string) (check.Foreign, error) {
	f := check.Foreign{Objects: map[cube.Hook][]byte{}, Allowed: foreign.Check}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return f, fmt.Errorf("read a file of the service: %w", err)
		}
		switch {
		case strings.HasSuffix(name, ".yang") && f.Model == "":
			f.Model = string(data)
		case strings.HasSuffix(name, ".tc.o") && f.Objects[cube.TC] == nil:
			f.Objects[cube.TC] = data
		case strings.HasSuffix(name, ".xdp.o") && f.Objects[cube.XDP] == nil:
			f.Objects[cube.XDP] = data
		default:
			return f, fmt.Errorf("%s: a service has one model NAME.yang, and one file NAME.tc.o and NAME.xdp.o each", name)
		}
	}
	if f.Model == "" || len(f.Objects) == 0 {
		return f, fmt.Errorf("%s: the model NAME.yang and at least one of NAME.tc.o and NAME.xdp.o are needed", strings.Join(names, " "))
	}
	return f, nil
}
