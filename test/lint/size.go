// SPDX-License-Identifier: Apache-2.0

package lint

// Sizes: a file has one concern and a function fits on a screen.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// Limits in lines.
const (
	MaxFile       = 500
	MaxMain       = 100
	MaxMakefile   = 150
	MaxGoFunction = 60
	MaxCFunction  = 80
	MaxHello      = 250
)

// FileLength checks source files, command mains and the Makefile against their limits.
func FileLength(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(func(string) bool { return true }) {
		limit := fileLimit(name)
		if n := lines(t[name]); limit > 0 && n > limit {
			out = append(out, Finding{Path: name, What: fmt.Sprintf("%d lines, the limit is %d", n, limit),
				Remedy: "split it by concern; a main only parses options and calls internal/"})
		}
	}
	return out
}

func fileLimit(name string) int {
	switch {
	case name == "Makefile":
		return MaxMakefile
	case isProtocol(name):
		return 0
	case strings.HasPrefix(name, "cmd/") && isGo(name) && !isGoTest(name):
		return MaxMain
	case isGo(name), isC(name), isRust(name):
		return MaxFile
	}
	return 0
}

// isProtocol reports the Go code of the service protocol, which scripts/proto.sh generates; it is tracked for programs
// that import it (docs/adr/0025).
func isProtocol(name string) bool {
	return strings.HasPrefix(name, "api/") && strings.HasSuffix(name, ".pb.go")
}

// GoFunctionLength checks Go functions outside tests against their limit.
func GoFunctionLength(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(func(n string) bool { return isGo(n) && !isGoTest(n) }) {
		fset, file, bad := parseGo(name, t[name], 0)
		if file == nil {
			out = append(out, bad)
			continue
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			first, last := fset.Position(fn.Pos()).Line, fset.Position(fn.End()).Line
			if n := last - first + 1; n > MaxGoFunction {
				out = append(out, Finding{name, first,
					fmt.Sprintf("function %s has %d lines, the limit is %d", fn.Name.Name, n, MaxGoFunction),
					"give its steps names as functions of their own"})
			}
		}
	}
	return out
}

// CFunctionLength checks C functions against their limit.
func CFunctionLength(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(isC) {
		for _, fn := range cFunctions(t[name]) {
			if fn.lines > MaxCFunction {
				out = append(out, Finding{name, fn.line,
					fmt.Sprintf("function %s has %d lines, the limit is %d", fn.name, fn.lines, MaxCFunction),
					"move steps into static __always_inline functions"})
			}
		}
	}
	return out
}

// HelloBudget keeps the first example for newcomers, model + C + Go, within a few screens.
func HelloBudget(t Tree) []Finding {
	const dir = "cubes/helloworld"
	total := 0
	for _, name := range t.Paths(func(n string) bool { return path.Dir(n) == dir && !isGoTest(n) }) {
		if isGo(name) || isC(name) || path.Ext(name) == ".yang" {
			total += lines(t[name])
		}
	}
	if total <= MaxHello {
		return nil
	}
	return []Finding{{Path: dir, What: fmt.Sprintf("model, C and Go have %d lines, the limit is %d", total, MaxHello),
		Remedy: "move what every cube needs into the framework"}}
}

// parseGo returns a nil file and a finding if the source does not parse.
func parseGo(name string, src []byte, mode parser.Mode) (*token.FileSet, *ast.File, Finding) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, mode|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, Finding{Path: name, What: "does not parse: " + err.Error(), Remedy: "mend the syntax"}
	}
	return fset, file, Finding{}
}
