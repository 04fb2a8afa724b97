// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/test/kernels/guest"
)

// said is the output of a test binary that runs with -test.v=test2json.
const said = "\x16=== RUN   TestA\n\x16=== ATTR  TestA verified 12\n\x16--- PASS: TestA (0.10s)\n" +
	"\x16=== RUN   TestB\n    b_test.go:1: not so\n\x16--- FAIL: TestB (0.00s)\n" +
	"\x16=== RUN   TestC\n    c_test.go:1: needs a lake\n\x16--- SKIP: TestC (0.00s)\n" +
	"\x16=== RUN   TestD\n"

// heard passes frames to a judge, and returns the failures that it finds.
func heard(t *testing.T, jobs []Job, frames ...guest.Frame) (*judge, string) {
	t.Helper()
	j := newJudge(jobs, func(*Outcome) {})
	for _, f := range frames {
		if err := j.take(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.endConverter(); err != nil {
		t.Fatal(err)
	}
	return j, strings.Join(j.faults(), "\n")
}

func TestEachWayToFailIsAFault(t *testing.T) {
	out := func(text string) guest.Frame {
		return guest.Frame{Kind: guest.Output, Step: "p", Data: []byte(text)}
	}
	begin, end := guest.Frame{Kind: guest.Begin, Step: "p"}, guest.Frame{Kind: guest.End, Step: "p"}
	failed := guest.Frame{Kind: guest.End, Step: "p", Code: 1}
	pass := "\x16=== RUN   TestA\n\x16--- PASS: TestA (0.10s)\n\x16PASS\n"
	tests := []Job{{Package: "p", Tests: []string{"TestA"}}}
	for name, c := range map[string]struct {
		jobs   []Job
		frames []guest.Frame
		want   []string // parts of the faults; none when empty
	}{
		"all is well":         {tests, []guest.Frame{begin, out(pass), end}, nil},
		"a program":           {[]Job{{Name: "p"}}, []guest.Frame{begin, out("hello\n"), end}, nil},
		"a program fails":     {[]Job{{Name: "p"}}, []guest.Frame{begin, out("oh no\n"), failed}, []string{"p: exit status 1", "oh no"}},
		"it never began":      {tests, nil, []string{"did not run to its end", "TestA: wanted, and there is no such test"}},
		"it never ended":      {tests, []guest.Frame{begin, out(pass)}, []string{"did not run to its end"}},
		"a test is missing":   {tests, []guest.Frame{begin, out("\x16PASS\n"), end}, []string{"TestA: wanted, and there is no such test"}},
		"tests of all kinds":  {[]Job{{Package: "p"}}, []guest.Frame{begin, out(said), failed}, []string{"TestB: failed", "not so", "TestD: began and did not end"}},
		"one that may skip":   {[]Job{{Package: "p"}}, []guest.Frame{begin, out("\x16=== RUN   TestC\n\x16--- SKIP: TestC (0.00s)\n\x16PASS\n"), end}, nil},
		"one that may not":    {[]Job{{Package: "p", Tests: []string{"TestC"}}}, []guest.Frame{begin, out(said), failed}, []string{"TestC: wanted, and skipped: ", "needs a lake"}},
		"killed":              {tests, []guest.Frame{begin, out(pass), {Kind: guest.End, Step: "p", Code: -1, Text: "killed after 1m"}}, []string{"p: killed after 1m"}},
		"a panic outside any": {tests, []guest.Frame{begin, out(pass + "panic: at the end\n"), failed}, []string{"p: exit status 1", "panic: at the end"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := heard(t, c.jobs, c.frames...)
			for _, part := range c.want {
				if !strings.Contains(faults, part) {
					t.Errorf("%q is not in\n%s", part, faults)
				}
			}
			if len(c.want) == 0 && faults != "" {
				t.Errorf("it finds\n%s", faults)
			}
		})
	}
}

func TestFactsAndFailuresAreHeardAtOnce(t *testing.T) {
	var failures []string
	j := newJudge([]Job{{Package: "p"}}, func(o *Outcome) { failures = append(failures, o.Test) })
	for _, f := range []guest.Frame{{Kind: guest.Begin, Step: "p"}, {Kind: guest.Output, Step: "p", Data: []byte(said)}, {Kind: guest.End, Step: "p", Code: 1}} {
		if err := j.take(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if len(failures) != 1 || failures[0] != "TestB" {
		t.Errorf("failures heard: %v", failures)
	}
	if got := j.tests["p"]["TestA"]; got.Facts["verified"] != "12" || got.Result != passed {
		t.Errorf("%+v", got)
	}
	if got := j.progress(); got != "p TestD; 1 passed, 1 failed, 1 skipped" {
		t.Errorf("progress: %s", got)
	}
}
