// SPDX-License-Identifier: Apache-2.0

// Package perf measures the data plane and the daemon compared with the kernel's own forwarding, in one run, and
// compares the results with the promises.
package perf

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/lint/reference"
	"github.com/polycube/polycube/test/perf/report"
)

// Config of a run.
type Config struct {
	// Group chooses one of Groups; empty is all parts that are in none.
	Group string
	// Rounds is how often each thing is measured, all things of a part in a new random order each time; 0 is the
	// part's own default.
	Rounds int
	// Quick measures less of everything: for a quick look, not for figures to keep.
	Quick bool
	// Root is the directory of the repository, where bin/ contains the daemon and the CLI.
	Root string
	// Progress gets a line for each step.
	Progress io.Writer
}

// Run is a run of the benchmarks and its results.
type Run struct {
	Config
	Sections []Section
	Checks   []report.Check
	// Costs and Weights of helpers are for their reference.
	Costs, Weights reference.Costs
}

// bin is the directory of the programs as installed.
func (r *Run) bin() string { return filepath.Join(r.Root, "bin") }

// Section is the results of one part.
type Section struct {
	Title  string
	Text   string
	Tables []*report.Table
}

// Part is a benchmark that can be run by itself.
type Part struct {
	Name string
	do   func(context.Context, *Run) error
}

// Parts lists the benchmarks in the order in which they run.
func Parts() []Part {
	return []Part{
		{"chain", chain},
		{"bridge", bridge},
		{"router", router},
		{"nat", nat},
		{"pbforwarder", pbforwarder},
		{"tcpchain", tcpChain},
		{"memory", memory},
		{"floods", floods},
		{"reload", reload},
		{"size", size},
		{"slowpath", slowPath},
		{"daemon", daemon},
		{"fleet", fleet},
		{"api", api},
		{"helpers", helpers},
		{"oldkernel", oldKernel},
	}
}

// Groups are parts that are measured apart from the others, and have a section of their own in the document.
func Groups() map[string][]Part {
	return map[string][]Part{"balancers": balancerParts(), "capture": captureParts(), "evnf": evnfParts(), "filters": filterParts(), "mgw": mgwParts()}
}

// GroupNames lists the names of all groups.
func GroupNames() []string { return slices.Sorted(maps.Keys(Groups())) }

// parts are those of the group of the run.
func (r *Run) parts() ([]Part, error) {
	if r.Group == "" {
		return Parts(), nil
	}
	parts, ok := Groups()[r.Group]
	if !ok {
		return nil, fmt.Errorf("group of benchmarks %q: %w (there are %v)", r.Group, cube.ErrNotFound, GroupNames())
	}
	return parts, nil
}

// PartNames lists the names of all parts.
func PartNames() []string {
	names := partNames(Parts())
	for _, group := range GroupNames() {
		names = append(names, partNames(Groups()[group])...)
	}
	return names
}

func partNames(parts []Part) (names []string) {
	for _, p := range parts {
		names = append(names, p.Name)
	}
	return names
}

// Do runs the named parts of the run's group, all if there are none.
func (r *Run) Do(ctx context.Context, names []string) error {
	parts, err := r.parts()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(partNames(parts), name) {
			return fmt.Errorf("benchmark %q: %w (there are %v)", name, cube.ErrNotFound, partNames(parts))
		}
	}
	for _, p := range parts {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		start := time.Now()
		r.progress("%s: begins", p.Name)
		if err := p.do(ctx, r); err != nil {
			return fmt.Errorf("benchmark %s: %w", p.Name, err)
		}
		r.progress("%s: done in %s", p.Name, time.Since(start).Round(time.Second))
	}
	return nil
}

func (r *Run) progress(format string, args ...any) {
	fmt.Fprintf(r.Progress, "# "+format+"\n", args...)
}

// rounds is the number of rounds of a part.
func (r *Run) rounds(full, quick int) int {
	switch {
	case r.Rounds > 0:
		return r.Rounds
	case r.Quick:
		return quick
	}
	return full
}

// add appends a section and prints its tables.
func (r *Run) add(s Section, checks ...report.Check) {
	r.Sections = append(r.Sections, s)
	r.Checks = append(r.Checks, checks...)
	for _, t := range s.Tables {
		fmt.Fprintf(r.Progress, "\n%s\n", t.Markdown())
	}
	for _, c := range checks {
		fmt.Fprintf(r.Progress, "%s  %s: %s (promised %s)\n", c.Verdict(), c.What, c.Measured, c.Promised)
	}
}

// shuffle puts the things to measure in a new order, so that none always follows the same other one.
func shuffle[T any](s []T) {
	rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] }) //nolint:gosec // an order, not a secret
}

// ifindex is the interface index of a netdev in the namespace of the calling thread.
func ifindex(name string) (uint32, error) {
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return 0, fmt.Errorf("netdev %s: %w", name, err)
	}
	return uint32(dev.Index), nil
}
