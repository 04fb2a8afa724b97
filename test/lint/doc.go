// SPDX-License-Identifier: Apache-2.0

// Package lint contains the house rules that no linter knows, as functions from a tree of files to findings. The test
// of the package runs them on the repository; each rule is also run on a tree that breaks it, so that a rule which can
// no longer fail is noticed.
package lint

import (
	"bytes"
	"fmt"
	"path"
	"sort"
	"strings"
)

// Module is the import path of the repository's Go module.
const Module = "github.com/polycube/polycube"

// Finding is one place where a rule is broken.
type Finding struct {
	Path   string // slash separated, from the top of the repository
	Line   int    // 1 is the first; 0 when the finding is about the whole file
	What   string // the problem
	Remedy string // the remedy
}

// String returns the finding in the form that editors jump to.
func (f Finding) String() string {
	place := f.Path
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return fmt.Sprintf("%s: %s; remedy: %s", place, f.What, f.Remedy)
}

// Tree is the tracked files by path, slash separated, from the top of the repository.
type Tree map[string][]byte

// Paths lists the files that keep accepts, sorted.
func (t Tree) Paths(keep func(name string) bool) []string {
	var paths []string
	for name := range t {
		if keep(name) {
			paths = append(paths, name)
		}
	}
	sort.Strings(paths)
	return paths
}

// HasDir reports whether a folder contains a tracked file.
func (t Tree) HasDir(dir string) bool {
	for name := range t {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// Rule is one house rule.
type Rule struct {
	Name  string // reads as the name of a test
	Check func(Tree) []Finding
}

// Rules are all house rules.
func Rules() []Rule {
	return []Rule{
		{"files are short", FileLength},
		{"Go functions are short", GoFunctionLength},
		{"C functions are short", CFunctionLength},
		{"the smallest cube is small", HelloBudget},
		{"imports point one way", ImportDirection},
		{"packages import what they may", AllowedImports},
		{"packages are small", PackageSize},
		{"mutexes say what they guard", MutexGroups},
		{"names are words of the field", PlainNames},
		{"descriptions of models are plain English", PlainDescriptions},
		{"errors and help are plain English", PlainTexts},
		{"types with many methods are known", MethodCount},
		{"cgo is in two packages", Cgo},
		{"each file names its licence", Licence},
		{"files say why they exist", Openings},
		{"tests do not sleep", Sleeps},
		{"tests are patient", Patience},
		{"errors say what was being done", ErrorTexts},
		{"exit statuses have names", Exits},
		{"nothing is left unfinished", Marks},
		{"no path of one machine is in a file", MachinePaths},
		{"nothing that is built is tracked", Generated},
		{"cubes have their files", CubeFiles},
		{"READMEs of cubes have examples", Examples},
		{"links in Markdown resolve", Links},
		{"quotations in Markdown are true", Quotes},
		{"helpers for programs are documented", Helpers},
	}
}

func isGo(name string) bool       { return path.Ext(name) == ".go" }
func isGoTest(name string) bool   { return strings.HasSuffix(name, "_test.go") }
func isC(name string) bool        { return path.Ext(name) == ".c" || path.Ext(name) == ".h" }
func isRust(name string) bool     { return path.Ext(name) == ".rs" }
func isMarkdown(name string) bool { return path.Ext(name) == ".md" }

// lines counts as an editor does: a last line without a newline is one.
func lines(data []byte) int {
	n := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}

func lineAt(data []byte, offset int) int {
	return 1 + bytes.Count(data[:offset], []byte("\n"))
}
