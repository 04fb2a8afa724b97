// SPDX-License-Identifier: Apache-2.0

package lint

// Which package of internal/ may import which other is a table that people read and change deliberately: unplanned
// imports give a package too many dependencies.

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// ImportsTable is the file with the table. A line is a package and the packages that it imports, all below internal/;
// tests are free.
const ImportsTable = "test/lint/imports.txt"

// AllowedImports compares the imports between the packages of internal/ with the table.
func AllowedImports(t Tree) []Finding {
	raw, ok := t[ImportsTable]
	if !ok {
		return nil // a tree without the table is another rule's
	}
	allowed, out := parseImportsTable(raw)
	seen := map[string]bool{}
	eachImport(t, func(name string, line int, imported string) {
		from, ok := strings.CutPrefix(path.Dir(name), "internal/")
		to, inside := strings.CutPrefix(imported, Module+"/internal/")
		if !ok || !inside || isGoTest(name) || from == to {
			return
		}
		seen[from+" "+to] = true
		if _, ok := allowed[from+" "+to]; !ok {
			out = append(out, Finding{name, line, fmt.Sprintf("internal/%s does not import internal/%s", from, to),
				"hand in the data, a function or an interface; if the direction is right, add " + to + " to the line " + from + ": of " + ImportsTable})
		}
	})
	for edge, line := range allowed {
		if !seen[edge] {
			from, to, _ := strings.Cut(edge, " ")
			out = append(out, Finding{ImportsTable, line, fmt.Sprintf("internal/%s no longer imports internal/%s", from, to),
				"take " + to + " out of the line, so that the import does not come back unnoticed"})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// parseImportsTable reads the table into its line numbers by "FROM TO".
func parseImportsTable(raw []byte) (allowed map[string]int, out []Finding) {
	allowed = map[string]int{}
	last := ""
	for i, text := range strings.Split(string(raw), "\n") {
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			continue
		}
		from, rest, ok := strings.Cut(text, ":")
		to := strings.Fields(rest)
		if !ok || from <= last || len(to) == 0 || !slices.IsSorted(to) {
			out = append(out, Finding{ImportsTable, i + 1, "is not a line of the table",
				"write PACKAGE: IMPORT IMPORT, each below internal/, lines and imports sorted"})
		}
		last = from
		for _, one := range to {
			allowed[from+" "+one] = i + 1
		}
	}
	return allowed, out
}
