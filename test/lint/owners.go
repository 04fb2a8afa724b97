// SPDX-License-Identifier: Apache-2.0

package lint

// State has one owner: if several packages write a field, none of them can guarantee its value, and it must be clear
// which fields a mutex guards.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// sharedFields are types whose fields several packages write, with the reason. Most are values passed from one package
// to the next, which are not shared yet.
var sharedFields = map[string]string{
	"cube.PacketIn":                         "decoded in the daemon and in the SDK, which are two programs",
	"internal/cli/output.Value":             "a value that is built for one answer",
	"internal/datapath/abi.Flood":           "the Go form of a C struct",
	"internal/datapath/framework.Framework": "a trial has a copy of its own",
	"internal/datapath/graph.Graph":         "a sandbox and a trial build graphs of their own",
	"internal/datapath/link.Cube":           "the linker's input, built anew for each link",
	"internal/netdev.Settings":              "a request, built where it is made",
	"internal/rest/message.Error":           "an answer, completed on its way out",
	"internal/rest/resource.Target":         "the description completes a copy",
	"internal/topology/document.Document":   "a parsed document, completed before it is applied",
	"internal/topology/world.Cube":          "2026-11-24: records are copied and changed by transactions",
	"internal/topology/world.Port":          "2026-11-24: records are copied and changed by transactions",
	"internal/topology/world.StoredEntries": "built where a cube is read from",
}

// FieldOwners reports the struct fields that more than one package writes through a pointer. dir is the top of the
// module.
func FieldOwners(dir string) ([]Finding, error) {
	all, err := packages.Load(&packages.Config{Dir: dir, Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes |
		packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps | packages.NeedFiles}, "./...")
	if err != nil {
		return nil, fmt.Errorf("loading the packages: %w", err)
	}
	writers := map[string]map[string]token.Position{}
	for _, p := range all {
		if strings.HasPrefix(short(p.PkgPath), "test/") {
			continue
		}
		for _, e := range p.Errors {
			return nil, fmt.Errorf("loading %s: %w", p.PkgPath, e)
		}
		for _, file := range p.Syntax {
			eachWrite(file, func(e *ast.SelectorExpr) {
				field := writtenField(p.TypesInfo, e)
				if field == "" {
					return
				}
				if writers[field] == nil {
					writers[field] = map[string]token.Position{}
				}
				writers[field][short(p.PkgPath)] = p.Fset.Position(e.Pos())
			})
		}
	}
	return sharedFindings(dir, writers), nil
}

func short(pkg string) string { return strings.TrimPrefix(pkg, Module+"/") }

// eachWrite yields the fields that a file assigns to, element assignments included.
func eachWrite(file *ast.File, yield func(*ast.SelectorExpr)) {
	target := func(e ast.Expr) {
		for {
			switch is := e.(type) {
			case *ast.IndexExpr:
				e = is.X
			case *ast.StarExpr:
				e = is.X
			case *ast.ParenExpr:
				e = is.X
			case *ast.SelectorExpr:
				yield(is)
				return
			default:
				return
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.AssignStmt:
			for _, e := range s.Lhs {
				target(e)
			}
		case *ast.IncDecStmt:
			target(s.X)
		}
		return true
	})
}

// writtenField is PACKAGE.TYPE.FIELD of a field of the module that is reached by a pointer, else "".
func writtenField(info *types.Info, e *ast.SelectorExpr) string {
	s := info.Selections[e]
	if s == nil || s.Kind() != types.FieldVal {
		return ""
	}
	pointer, ok := info.TypeOf(e.X).Underlying().(*types.Pointer)
	if !ok {
		return ""
	}
	named, ok := pointer.Elem().(*types.Named)
	field := s.Obj()
	if !ok || field.Pkg() == nil || !field.Exported() || !strings.HasPrefix(field.Pkg().Path(), Module+"/") {
		return ""
	}
	return short(field.Pkg().Path()) + "." + named.Obj().Name() + "." + field.Name()
}

func sharedFindings(dir string, writers map[string]map[string]token.Position) []Finding {
	var out []Finding
	used := map[string]bool{}
	for field, by := range writers {
		of := field[:strings.LastIndex(field, ".")]
		if len(by) < 2 || strings.HasPrefix(of, "api/") {
			continue
		}
		if sharedFields[of] != "" {
			used[of] = true
			continue
		}
		var names []string
		for name := range by {
			names = append(names, name)
		}
		slices.Sort(names)
		at := by[names[0]]
		file, err := filepath.Rel(dir, at.Filename)
		if err != nil {
			file = at.Filename
		}
		out = append(out, Finding{file, at.Line, fmt.Sprintf("%s is written by %s", field, strings.Join(names, ", ")),
			"let one package write it and give the others a method"})
	}
	for of := range sharedFields {
		if !used[of] {
			out = append(out, Finding{Path: "test/lint/owners.go", What: of + " has one owner for each field by now", Remedy: "take it out of sharedFields"})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Path+a.What, b.Path+b.What) })
	return out
}

// MutexGroups requires a mutex to declare what it guards: by a comment with the word, or by its place at the head of a
// group, with an empty line or its own comment above and the guarded fields below.
func MutexGroups(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(isShippedGo) {
		fset, file, _ := parseGo(name, t[name], parser.ParseComments|parser.SkipObjectResolution)
		if file == nil {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			end := fset.Position(s.Fields.Opening).Line
			for i, f := range s.Fields.List {
				from := fset.Position(f.Pos()).Line
				if isMutex(f.Type) && !guards(f) && (i > 0 && from == end+1 && f.Doc == nil || i == len(s.Fields.List)-1 && f.Doc == nil) {
					out = append(out, Finding{name, from, "a mutex that does not say what it guards",
						"put it above the fields that it guards, with an empty line above, or write \"guards ...\" beside it"})
				}
				end = fset.Position(f.End()).Line
			}
			return true
		})
	}
	return out
}

func isMutex(t ast.Expr) bool {
	s, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "sync" && (s.Sel.Name == "Mutex" || s.Sel.Name == "RWMutex")
}

func guards(f *ast.Field) bool {
	for _, c := range []*ast.CommentGroup{f.Doc, f.Comment} {
		if c != nil && strings.Contains(c.Text(), "guard") {
			return true
		}
	}
	return false
}
