// SPDX-License-Identifier: Apache-2.0

// Suspects: failed parts of a run, small enough to be rerun alone, and their kept logs.

package rerun

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// suspect is a test that failed, or a package that failed as a whole.
type suspect struct {
	Package string   // from the top of the module
	Test    string   // empty for the package
	Seeds   []string // those printed by failed tests
	Flags   []string // of its `go test`
	log     string
}

// Name is the name in reports, and in TESTS= of `make flaky`.
func (s suspect) Name() string {
	if s.Test == "" {
		return s.Package
	}
	return s.Package + "." + s.Test
}

var seedPrinted = regexp.MustCompile(`\bPOLYCUBE_SEED=([0-9]+(?:/[0-9]+)?)`)

// seedsIn are the seeds in a log, each once, in their order.
func seedsIn(log string) []string {
	var seeds []string
	for _, m := range seedPrinted.FindAllStringSubmatch(log, -1) {
		if !slices.Contains(seeds, m[1]) {
			seeds = append(seeds, m[1])
		}
	}
	return seeds
}

// seedText is the seeds as a report has them.
func seedText(seeds []string) string {
	if len(seeds) == 0 {
		return "no seed"
	}
	return "POLYCUBE_SEED=" + strings.Join(seeds, ",")
}

// suspects lists the failed parts of a run. A package is a suspect as a whole if it failed without a failed test, if
// its tests did not finish, so that some never ran, and if there was output outside its tests, such as leak reports.
// Unfinished tests of a package are separate suspects if their seed is known.
func (r *Record) suspects(module string, run Run) (found []suspect, unbuilt []string) {
	for _, p := range r.Packages {
		if p.Result == "pass" || p.Result == "skip" {
			continue
		}
		name := short(module, p.Path)
		if !p.Built {
			unbuilt = append(unbuilt, name)
			continue
		}
		whole := !p.Whole || p.aside() != ""
		failed := 0
		for _, t := range p.Tests {
			if strings.Contains(t.Name, "/") || t.Result == "pass" || t.Result == "skip" {
				continue
			}
			log := p.TestText(t.Name)
			seeds := seedsIn(log)
			if t.Result == "fail" {
				failed++
			}
			if t.Result == "fail" && !whole || len(seeds) > 0 {
				found = append(found, suspect{name, t.Name, seeds, run.Flags, log + p.aside()})
			}
		}
		if whole || failed == 0 {
			found = append(found, suspect{name, "", nil, run.Flags, p.Text()})
		}
	}
	return found, unbuilt
}

// The head of a kept log, which `make flaky` reads.
const (
	headPackage = "package: "
	headTest    = "test: "
	headSeed    = "seed: "
	headFlag    = "flag: "
)

// keep writes a suspect's log and returns the path.
func (s suspect) keep(dir string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n", headPackage, s.Package)
	if s.Test != "" {
		fmt.Fprintf(&b, "%s%s\n", headTest, s.Test)
	}
	for _, seed := range s.Seeds {
		fmt.Fprintf(&b, "%s%s\n", headSeed, seed)
	}
	for _, flag := range s.Flags {
		fmt.Fprintf(&b, "%s%s\n", headFlag, flag)
	}
	b.WriteString("\n" + s.log)
	path := filepath.Join(dir, Kept, logName(s.Name()))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(b.String()), 0o644)
}

// kept reads the suspects of the kept logs.
func kept(dir string) ([]suspect, error) {
	paths, err := filepath.Glob(filepath.Join(dir, Kept, "*.log"))
	if err != nil {
		return nil, err
	}
	var all []suspect
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var s suspect
		head, log, _ := strings.Cut(string(text), "\n\n")
		s.log = log
		for line := range strings.Lines(head + "\n") {
			line = strings.TrimSuffix(line, "\n")
			if value, ok := strings.CutPrefix(line, headPackage); ok {
				s.Package = value
			} else if value, ok := strings.CutPrefix(line, headTest); ok {
				s.Test = value
			} else if value, ok := strings.CutPrefix(line, headSeed); ok {
				s.Seeds = append(s.Seeds, value)
			} else if value, ok := strings.CutPrefix(line, headFlag); ok {
				s.Flags = append(s.Flags, value)
			}
		}
		if s.Package == "" {
			return nil, fmt.Errorf("%s: names no package: it is no log of a flaky test", path)
		}
		all = append(all, s)
	}
	return all, nil
}

// lastLines is the end of a log.
func lastLines(log string, n int) string {
	lines := strings.SplitAfter(log, "\n")
	if len(lines) <= n {
		return log
	}
	return "...\n" + strings.Join(lines[len(lines)-n:], "")
}
