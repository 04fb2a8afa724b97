// SPDX-License-Identifier: Apache-2.0

package lint

// Exit statuses have names: two meanings of one number are detected where the names are, and nowhere else.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// exitHome is where the exit statuses of polycubectl are, of type exitType.
const (
	exitHome = "internal/cli/exit.go"
	exitType = "Exit"
)

// Exits reports exit statuses without a name in the programs: numbers passed to os.Exit, and numbers of the type of
// polycubectl's statuses.
func Exits(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(ends) {
		fset, file, _ := parseGo(name, t[name], parser.SkipObjectResolution)
		if file == nil {
			continue // the compiler reports it
		}
		numbers := numbersForOS
		if strings.HasPrefix(name, "internal/cli/") && name != exitHome {
			numbers = numbersForExit
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, number := range numbers(n) {
				out = append(out, Finding{name, fset.Position(number.Pos()).Line, "the exit status " + number.Value + " has no name",
					"name it beside the others, in " + exitHome + " for polycubectl"})
			}
			return true
		})
	}
	return out
}

// ends reports the files in which programs exit.
func ends(name string) bool {
	for _, dir := range []string{"cmd/", "internal/cli/", "internal/daemon/"} {
		if strings.HasPrefix(name, dir) && isGo(name) && !isGoTest(name) {
			return true
		}
	}
	return false
}

// numbersForOS are the arguments of os.Exit.
func numbersForOS(n ast.Node) []*ast.BasicLit {
	call, ok := n.(*ast.CallExpr)
	if !ok || called(call.Fun) != "Exit" {
		return nil
	}
	return numbersAmong(call.Args...)
}

// numbersForExit are also those that become exit statuses: converted, declared, returned, in a map or in a field.
func numbersForExit(n ast.Node) []*ast.BasicLit {
	switch n := n.(type) {
	case *ast.ValueSpec:
		if isExit(n.Type) {
			return numbersAmong(n.Values...)
		}
	case *ast.FuncDecl:
		if n.Type.Results != nil && len(n.Type.Results.List) == 1 && isExit(n.Type.Results.List[0].Type) && n.Body != nil {
			return returned(n.Body)
		}
	case *ast.CompositeLit:
		if m, ok := n.Type.(*ast.MapType); ok && isExit(m.Value) {
			return valuesAmong(n.Elts, func(string) bool { return true })
		}
		return valuesAmong(n.Elts, func(field string) bool { return field == "code" })
	}
	return numbersForOS(n)
}

func isExit(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == exitType
}

// returned are the numbers that a function returns.
func returned(body *ast.BlockStmt) []*ast.BasicLit {
	var out []*ast.BasicLit
	ast.Inspect(body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok {
			out = append(out, numbersAmong(r.Results...)...)
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return out
}

// valuesAmong are the numbers of the keys that a function expects.
func valuesAmong(elements []ast.Expr, wanted func(key string) bool) []*ast.BasicLit {
	var out []*ast.BasicLit
	for _, e := range elements {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key := ""
		if id, ok := pair.Key.(*ast.Ident); ok {
			key = id.Name
		}
		if wanted(key) {
			out = append(out, numbersAmong(pair.Value)...)
		}
	}
	return out
}

func numbersAmong(list ...ast.Expr) []*ast.BasicLit {
	var out []*ast.BasicLit
	for _, e := range list {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.INT {
			out = append(out, lit)
		}
	}
	return out
}
