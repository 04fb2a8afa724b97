// SPDX-License-Identifier: Apache-2.0

// Reruns failed tests, alone and twice.

package rerun

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// Times is how often a suspect has to pass alone.
	Times = 2
	// MostSuspects is the maximum number of failures in one run: more have a common cause, and are not a
	// coincidence.
	MostSuspects = 10
	// shown is the number of lines of a log in the output.
	shown = 40
)

// Report is the file, below Dir, with the lines of the flaky tests of the last run.
const Report = "flaky.txt"

// Again reruns the failed tests of the named runs, each alone and twice, with the seeds that it printed. It returns 0
// if all of them pass, and writes a line for each to Report and its log to Kept. It returns 1 if one fails again, or
// cannot be rerun (a package that does not build, a run that did not end, too many failures).
func Again(dir string, names []string, out io.Writer) (int, error) {
	all, err := failures(dir, names)
	if err != nil {
		return 1, err
	}
	var report strings.Builder
	exit := 0
	for _, s := range all {
		path, err := s.keep(dir)
		if err != nil {
			return 1, err
		}
		fmt.Fprintf(out, "\nrerun: %s failed (%s, %s); again, alone\n", s.Name(), seedText(s.Seeds), path)
		fmt.Fprint(out, indent(lastLines(s.log, shown)))
		passed, err := s.passesAlone(out)
		if err != nil {
			return 1, err
		}
		if passed {
			fmt.Fprintf(&report, "FLAKY %s, %s, %s\n", s.Name(), seedText(s.Seeds), path)
		} else {
			fmt.Fprintf(out, "rerun: %s fails alone as well\n", s.Name())
			exit = 1
		}
	}
	fmt.Fprint(out, "\n", report.String())
	return exit, os.WriteFile(filepath.Join(dir, Report), []byte(report.String()), 0o644)
}

// failures collects the suspects of the runs, and refuses those that cannot be distinguished from a broken build or
// machine.
func failures(dir string, names []string) ([]suspect, error) {
	module, err := module()
	if err != nil {
		return nil, err
	}
	var all []suspect
	for _, name := range names {
		run, record, err := read(dir, name)
		switch {
		case err != nil:
			return nil, err
		case run.Exit == running:
			return nil, fmt.Errorf("%s: the run did not come to its end", name)
		case run.Exit == 0:
			continue
		}
		found, unbuilt := record.suspects(module, run)
		if len(unbuilt) > 0 {
			return nil, fmt.Errorf("%s: does not build: %s", name, strings.Join(unbuilt, ", "))
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: go test ended with %d, and no test failed: nothing to run again", name, run.Exit)
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no test failed: what failed is something else")
	}
	if len(all) > MostSuspects {
		return nil, fmt.Errorf("%d failures are no coincidence: none is run again", len(all))
	}
	return all, nil
}

// passesAlone runs a suspect Times times, and with each of its seeds at least once, until it fails.
func (s suspect) passesAlone(out io.Writer) (bool, error) {
	for i := range max(Times, len(s.Seeds)) {
		var variables []string
		if len(s.Seeds) > 0 {
			variables = []string{"POLYCUBE_SEED=" + s.Seeds[i%len(s.Seeds)]}
		}
		record, exit, err := s.alone().execute(io.Discard, out, variables...)
		if err != nil {
			return false, err
		}
		if exit != 0 || !s.passedIn(record) {
			return false, nil
		}
	}
	return true, nil
}

// alone is the `go test` of a suspect.
func (s suspect) alone() Run {
	flags := append(append([]string{}, s.Flags...), "-count=1", "-p=1")
	if s.Test != "" {
		flags = append(flags, "-run=^"+s.Test+"$")
	}
	return Run{Flags: flags, Packages: []string{"./" + s.Package}}
}

// passedIn reports whether the suspect really ran, and passed: a test that skips proves nothing.
func (s suspect) passedIn(r *Record) bool {
	if len(r.Packages) != 1 || r.Packages[0].Result != "pass" {
		return false
	}
	if s.Test == "" {
		return true
	}
	t := r.Packages[0].byName[s.Test]
	return t != nil && t.Result == "pass"
}

func indent(text string) string {
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}
