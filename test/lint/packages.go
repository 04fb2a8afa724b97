// SPDX-License-Identifier: Apache-2.0

package lint

// Packages and types stay small enough for one person to know: a package has one subject, and each mutable field one
// owner (the package's documentation says which).

import (
	"fmt"
	"go/ast"
	"go/parser"
	"path"
	"slices"
	"strings"
)

// Limits of a package, without its tests, and of a type.
const (
	MaxPackage  = 6000
	MaxExported = 60
	MaxMethods  = 40
)

// largePackage is a package that is above a limit, and the limits that it keeps until it is split; 0 is the usual one.
type largePackage struct {
	lines, exported int
	// since is when it was listed, why is what prevents a split.
	since, why string
}

// largePackages are those that are not split yet. A limit here may only be lowered.
var largePackages = map[string]largePackage{
	"cube": {exported: 70, since: "2026-11-25", why: "the contract is one package on purpose: a cube imports it alone"},
}

// largeType is a type with many methods, and how many it keeps to.
type largeType struct {
	methods    int
	since, why string
}

// largeTypes are types with more methods than usual: cohesive ones, whose methods use the same fields, and those that
// are not split yet. A limit here may only be lowered.
var largeTypes = map[string]largeType{
	"cubes/bridge/stp.port":         {44, "2026-11-24", "cohesive: the state machines of one port, over its variables as the standard names them"},
	"neigh.Table":                   {45, "2026-11-24", "cohesive: one table of neighbours under one lock"},
	"internal/topology/read.Reader": {41, "2026-11-24", "cohesive: all read the snapshot and change nothing"},
	"internal/topology/unit.Unit":   {50, "2026-11-24", "cohesive: one living cube, its turn and what waits for it"},
	"internal/yang.Node":            {63, "2026-11-24", "cohesive: what one node of a model says"},
	"internal/yang.Tree":            {48, "2026-11-24", "cohesive: one data tree and its changes"},
}

// PackageSize checks packages against their limits in lines and in exported names.
func PackageSize(t Tree) []Finding {
	type size struct{ lines, exported int }
	sizes := map[string]*size{}
	for _, name := range t.Paths(isShippedGo) {
		s := sizes[path.Dir(name)]
		if s == nil {
			s = &size{}
			sizes[path.Dir(name)] = s
		}
		s.lines += lines(t[name])
		if _, file, _ := parseGo(name, t[name], parser.SkipObjectResolution); file != nil {
			s.exported += exportedNames(file)
		}
	}
	var out []Finding
	for dir, s := range sizes {
		l, listed := largePackages[dir]
		lines, exported := max(MaxPackage, l.lines), max(MaxExported, l.exported)
		if listed && s.lines <= MaxPackage && s.exported <= MaxExported {
			out = append(out, Finding{Path: dir, What: "is not large any more", Remedy: "take it out of largePackages in test/lint/packages.go"})
		}
		if s.lines > lines {
			out = append(out, Finding{Path: dir, What: fmt.Sprintf("%d lines without tests, the limit is %d", s.lines, lines),
				Remedy: "split it by who owns the state, not by length: what has fields of its own becomes a package"})
		}
		if s.exported > exported {
			out = append(out, Finding{Path: dir, What: fmt.Sprintf("%d exported names, the limit is %d", s.exported, exported),
				Remedy: "make what only the package uses unexported, or split it by subject"})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// isShippedGo reports which files the limits apply to: those of the daemon, the command line, the contract, the cubes
// and the packages that cubes share.
func isShippedGo(name string) bool {
	first := layer(path.Dir(name))
	return isGo(name) && !isGoTest(name) &&
		(slices.Contains([]string{"internal", "cube", "cubes", "cmd", "sdk"}, first) || slices.Contains(parts, first))
}

// exportedNames counts the names that other packages can use, methods and fields left out.
func exportedNames(file *ast.File) int {
	n := 0
	count := func(names ...*ast.Ident) {
		for _, id := range names {
			if id.IsExported() {
				n++
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					count(s.Name)
				case *ast.ValueSpec:
					count(s.Names...)
				}
			}
		}
	}
	return n
}

// MethodCount requires a type with many methods to be listed, with the reason.
func MethodCount(t Tree) []Finding {
	methods := map[string]int{}
	for _, name := range t.Paths(isShippedGo) {
		_, file, _ := parseGo(name, t[name], parser.SkipObjectResolution)
		if file == nil {
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[path.Dir(name)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	var out []Finding
	for of, n := range methods {
		l, listed := largeTypes[of]
		if listed && n <= MaxMethods {
			out = append(out, Finding{Path: of, What: "has few methods by now", Remedy: "take it out of largeTypes in test/lint/packages.go"})
		}
		if limit := max(MaxMethods, l.methods); n > limit {
			out = append(out, Finding{Path: of, What: fmt.Sprintf("%d methods, the limit is %d", n, limit),
				Remedy: "give fields that only some of the methods use, and these methods, to a type of their own; list a cohesive one in largeTypes"})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// receiver is the name of a method's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
