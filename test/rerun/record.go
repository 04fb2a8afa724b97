// SPDX-License-Identifier: Apache-2.0

// The output of `go test -json`, by package and test, and as the text that `go test` prints without -json.

package rerun

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Event is a line of `go test -json`, as documented by `go doc test2json`.
type Event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string // of a build, as "path" or "path [path.test]"
	FailedBuild string // the ImportPath that prevented a package from being tested
}

// Test is a test, or a subtest.
type Test struct {
	Name   string
	Result string // "pass", "fail", "skip", or empty while it runs

	headline string // "--- FAIL: TestX (0.00s)"
	lines    []string
}

// Package is the tests of one package.
type Package struct {
	Path   string
	Result string // as that of a test
	Built  bool
	Whole  bool // the tests finished: no panic, no timeout, no exit between them
	Tests  []*Test

	byName map[string]*Test
	lines  []string // output that belongs to no test
	all    []string // every line, for -v
}

// Record is all packages of a run.
type Record struct {
	Packages []*Package
	Verbose  bool // Text is that of `go test -v`

	byPath map[string]*Package
	builds map[string][]string // the compiler's output, by import path
}

// Scan reads a run into an empty record. Lines that are no events go to other, and each package to ended when its last line is read.
func (r *Record) Scan(in io.Reader, other io.Writer, ended func(*Package)) error {
	r.byPath, r.builds = map[string]*Package{}, map[string][]string{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e Event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(other, "%s", line)
			} else if p := r.add(e); p != nil && p.Result != "" && ended != nil {
				ended(p)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// add adds an event and returns its package, nil if it has none.
func (r *Record) add(e Event) *Package {
	if e.Package == "" {
		if e.Action == "build-output" {
			r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
		}
		return nil
	}
	p := r.byPath[e.Package]
	if p == nil {
		p = &Package{Path: e.Package, Built: true, byName: map[string]*Test{}}
		r.byPath[e.Package] = p
		r.Packages = append(r.Packages, p)
	}
	if e.FailedBuild != "" {
		p.Built = false
		p.lines = append(slices.Clone(r.builds[e.FailedBuild]), p.lines...)
		if r.Verbose {
			p.all = append(slices.Clone(r.builds[e.FailedBuild]), p.all...)
		}
	}
	if r.Verbose && e.Action == "output" {
		p.all = append(p.all, e.Output)
	}
	if e.Test != "" {
		p.test(e.Test).add(e)
	} else {
		p.add(e)
	}
	return p
}

func (p *Package) test(name string) *Test {
	t := p.byName[name]
	if t == nil {
		t = &Test{Name: name}
		p.byName[name] = t
		p.Tests = append(p.Tests, t)
	}
	return t
}

func (p *Package) add(e Event) {
	switch e.Action {
	case "pass", "fail", "skip":
		p.Result = e.Action
	case "output":
		p.lines = append(p.lines, e.Output)
		if e.Output == "PASS\n" || e.Output == "FAIL\n" {
			p.Whole = true
		}
	}
}

func (t *Test) add(e Event) {
	switch e.Action {
	case "run":
		t.Result = "" // with -count=2 it runs again
	case "pass", "fail", "skip":
		if t.Result = e.Action; t.Result != "fail" {
			t.lines = nil
		}
	case "output":
		switch text := strings.TrimLeft(e.Output, " "); {
		case isFrame(text):
		case strings.HasPrefix(text, "--- FAIL: "+t.Name+" "):
			t.headline = text
		case strings.HasPrefix(text, "--- PASS: "+t.Name+" "), strings.HasPrefix(text, "--- SKIP: "+t.Name+" "):
		default:
			t.lines = append(t.lines, e.Output)
		}
	}
}

// isFrame reports the lines that name the test of the next lines.
func isFrame(line string) bool {
	for _, frame := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(line, frame) {
			return true
		}
	}
	return false
}

// Text returns the output of `go test` for a package: for one that passed, its closing line only.
func (p *Package) Text() string {
	if p.all != nil {
		return strings.Join(p.all, "")
	}
	if p.Result == "pass" || p.Result == "skip" {
		for _, line := range slices.Backward(p.lines) {
			if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "? ") {
				return line
			}
		}
		return ""
	}
	var b strings.Builder
	for _, t := range p.Tests {
		if strings.Contains(t.Name, "/") {
			continue
		}
		b.WriteString(p.TestText(t.Name))
	}
	b.WriteString(strings.Join(p.lines, ""))
	return b.String()
}

// TestText returns the output of a test and its subtests that failed or did not end.
func (p *Package) TestText(name string) string {
	var b strings.Builder
	for _, t := range p.Tests {
		if t.Name != name && !strings.HasPrefix(t.Name, name+"/") || t.Result == "pass" || t.Result == "skip" {
			continue
		}
		deeper := strings.Repeat("    ", strings.Count(t.Name, "/"))
		if t.headline != "" {
			b.WriteString(deeper + t.headline)
		}
		for _, line := range t.lines {
			if strings.HasPrefix(line, "    ") { // by t.Log
				line = deeper + line
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

// aside returns the output of a failed package outside its tests, without the lines that each such package has.
func (p *Package) aside() string {
	var b strings.Builder
	for _, line := range p.lines {
		if line != "FAIL\n" && line != "PASS\n" && !strings.HasPrefix(line, "FAIL\t") && !strings.HasPrefix(line, "exit status ") {
			b.WriteString(line)
		}
	}
	return b.String()
}
