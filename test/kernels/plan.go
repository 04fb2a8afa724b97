// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/polycube/polycube/test/kernels/guest"
)

// Job is one command of a run: a package's tests, or a program of the checkout.
type Job struct {
	// Package is the folder of the package to test, like cubes/nat; empty for a program.
	Package string
	// Tests must pass: a test that does not run counts as a failure. Empty: all except those with a time limit.
	Tests []string
	// Skip are tests that do not run, with the reason.
	Skip map[string]string
	// Program is run if there is no package, in the root of the checkout. Its status decides.
	Program []string
	// Name is the name of a program's job; for a package, its path.
	Name string
	// Env are further variables, like NAME=value.
	Env []string
	// Within is when it is stopped.
	Within time.Duration
}

func (j Job) name() string {
	if j.Package == "" {
		return j.Name
	}
	return j.Package
}

// timed is the name prefix of tests with a time limit: not run where time is emulated.
const timed = "TestTimed"

// step is the job as the machine runs it.
func (j Job) step() guest.Step {
	s := guest.Step{Name: j.name(), Dir: guest.Tree, Args: j.Program, Env: j.Env, Within: j.Within}
	if j.Package == "" {
		return s
	}
	s.Dir = path.Join(guest.Tree, j.Package)
	s.Args = []string{guest.Tree + "/" + binaryOf(j.Package), "-test.v=test2json", "-test.paniconexit0", "-test.parallel=2",
		fmt.Sprintf("-test.timeout=%v", j.Within-time.Minute), "-test.skip=" + exactly(timed+".*", j.Skip)}
	switch {
	case len(j.Tests) == 1: // which may be a part of a test
		s.Args = append(s.Args, "-test.run=^"+strings.ReplaceAll(j.Tests[0], "/", "$/^")+"$")
	case len(j.Tests) > 1:
		s.Args = append(s.Args, "-test.run=^("+strings.Join(j.Tests, "|")+")$")
	}
	return s
}

func exactly(first string, names map[string]string) string {
	all := []string{first}
	for name := range names {
		all = append(all, regexp.QuoteMeta(name))
	}
	return "^(" + strings.Join(all, "|") + ")$"
}

// binaryOf is where the tests of a package are in the tree.
func binaryOf(pkg string) string {
	return ".guest/tests/" + path.Base(pkg) + ".test"
}
