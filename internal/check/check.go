// SPDX-License-Identifier: Apache-2.0

// Package check examines the kernel and the machine before a daemon starts: what is missing, and what will be slower,
// each with a remedy. It changes nothing.
package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Grade is the severity of a finding.
type Grade string

// Grades, the mildest first.
const (
	// OK needs no action.
	OK Grade = "ok"
	// Note is worth knowing, but not a problem.
	Note Grade = "note"
	// Unknown could not be checked.
	Unknown Grade = "unknown"
	// Slower works, but costs time that a remedy would save.
	Slower Grade = "slower"
	// Unfit is a netdev that cannot be the peer of a port.
	Unfit Grade = "unfit"
	// Refused keeps the daemon from accepting a service.
	Refused Grade = "refused"
	// Missing keeps the daemon from working.
	Missing Grade = "missing"
)

// Finding is the result of one check.
type Finding struct {
	// What was checked, in a few words.
	What  string `json:"what"`
	Grade Grade  `json:"grade"`
	// Found is the current state.
	Found string `json:"found"`
	// Remedy is what to do, empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Report has all findings, in the order of the checks.
type Report []Finding

// Runs reports whether nothing is missing or refused.
func (r Report) Runs() bool { return r.count(Missing)+r.count(Refused) == 0 }

// Good reports whether a daemon can run, with all given netdevs.
func (r Report) Good() bool { return r.Runs() && r.count(Unfit) == 0 }

func (r Report) count(g Grade) (n int) {
	for _, f := range r {
		if f.Grade == g {
			n++
		}
	}
	return n
}

// Options select optional checks.
type Options struct {
	// Netdevs are checked as peers of ports.
	Netdevs []string
	// All loads the programs with every pair of values of their constants, which takes up to a minute.
	All bool
}

// Run runs all checks on a machine. When ctx ends, it returns the findings so far.
func Run(ctx context.Context, m Machine, o Options) Report {
	var r Report
	for _, check := range []func(Machine) []Finding{
		privileges, kernelVersion, kernelTypes, programTypes, mapTypes, helpers,
		func(m Machine) []Finding { return services(ctx, m, o.All, r) }, wished, bpffs, tun, jit, hardening, statistics, gracePeriods, mitigations, clock, processors, memory, files, groups, routing, tools, library,
	} {
		r = append(r, check(m)...)
	}
	for _, name := range o.Netdevs {
		r = append(r, netdevFindings(m, name)...)
	}
	return r
}

// one is the result of a check with one finding.
func one(what string, g Grade, found, remedy string) []Finding {
	return []Finding{{what, g, found, remedy}}
}

// JSON writes the report as JSON.
func (r Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"runs": r.Runs(), "findings": r})
}

// Table writes the report on a machine for people: one line for each finding, its remedy below it, and a summary.
func (r Report) Table(w io.Writer) error {
	return r.table(w, ofMachine)
}

// ServiceTable is Table for the report on a service.
func (r Report) ServiceTable(w io.Writer) error {
	return r.table(w, ofService)
}

// verdicts begin a summary: nothing is missing, something is, something could not be checked.
type verdicts struct{ good, bad, open string }

var (
	ofMachine = verdicts{"polycubed can run here", "polycubed cannot run here", "polycubed might run here"}
	ofService = verdicts{"polycubed accepts the service", "polycubed refuses the service", "polycubed may accept the service"}
)

func (r Report) table(w io.Writer, v verdicts) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range r {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Grade, f.What, f.Found)
		if f.Remedy != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", f.Remedy)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\n" + r.summary(v) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) summary(v verdicts) string {
	var parts []string
	for _, p := range []struct {
		g    Grade
		text string
	}{{Missing, "missing"}, {Refused, "refused"}, {Unknown, "could not be checked"}, {Unfit, "cannot be the peer of a port"}, {Slower, "slower than possible"}} {
		if n := r.count(p.g); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p.text))
		}
	}
	head := v.good
	switch {
	case !r.Runs():
		head = v.bad
	case r.count(Unknown) > 0:
		head = v.open
	}
	return strings.TrimSuffix(head+": "+strings.Join(parts, ", "), ": ")
}
