// SPDX-License-Identifier: Apache-2.0

package lint

// Tests must pass on a machine with other load: expected events may take long, and time limits are measured when
// nothing else runs.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MinPatience is the minimum time that a test waits for an expected event.
const MinPatience = 10 * time.Second

// timedTests is the name prefix of tests that run alone (Makefile).
const timedTests = "TestTimed"

// Patience reports waits in tests that are short or not stretched on slow machines, time limits outside the tests that
// run alone, and ping with several requests, which does not wait for the last reply (test/netns/ping.go).
func Patience(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(waits) {
		fset, file, _ := parseGo(name, t[name], parser.SkipObjectResolution)
		if file == nil {
			continue // the compiler reports it
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && strings.HasPrefix(fn.Name.Name, timedTests) {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if what, remedy := impatient(n); what != "" {
					out = append(out, Finding{name, fset.Position(n.Pos()).Line, what, remedy})
				}
				return true
			})
		}
	}
	return append(out, lossyPings(t)...)
}

// waits reports whether a file contains tests, or functions with which tests wait.
func waits(name string) bool {
	return isGoTest(name) || strings.HasPrefix(name, "test/bpftest/") || strings.HasPrefix(name, "test/netns/")
}

// impatient returns the problem of a node of a test; empty if there is none.
func impatient(n ast.Node) (what, remedy string) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if called(n.Fun) == "Eventually" && len(n.Args) == 3 {
			return wait(n.Args[1])
		}
		return deadline(n)
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) && strings.HasSuffix(strings.ToLower(name.Name), "patience") {
				if what, remedy := wait(n.Values[i]); what != "" {
					return what, remedy
				}
			}
		}
	case *ast.BinaryExpr:
		if n.Op != token.GTR && n.Op != token.GEQ {
			break
		}
		if d, ok := duration(n.Y); ok && measured(n.X) {
			return fmt.Sprintf("wants it within %v", d), "measure it in a test whose name begins with " + timedTests + ", which runs alone"
		}
	}
	return "", ""
}

// wait returns the problem of a time for which a test waits.
func wait(x ast.Expr) (what, remedy string) {
	call, stretched := x.(*ast.CallExpr)
	if stretched = stretched && called(call.Fun) == "Stretch" && len(call.Args) == 1; stretched {
		x = call.Args[0]
	}
	switch d, ok := duration(x); {
	case ok && d < MinPatience:
		return fmt.Sprintf("waits for %v", d), fmt.Sprintf("wait for %v or more: it is reached only when something is broken", MinPatience)
	case ok && !stretched:
		return fmt.Sprintf("waits for %v on slow machines too", d), "use pace.Stretch of test/pace: processors that are emulated take many times longer"
	}
	return "", ""
}

// deadlines are functions with a deadline, and its argument, counted from the end. Times below MinPatience are for
// events that must not happen.
var deadlines = map[string]int{"Recv": 1, "After": 1, "DialTimeout": 1, "WithTimeout": 1}

// deadline returns the problem of the deadline in a call.
func deadline(call *ast.CallExpr) (what, remedy string) {
	from := deadlines[called(call.Fun)]
	if strings.HasPrefix(called(call.Fun), "Set") && strings.HasSuffix(called(call.Fun), "Deadline") && len(call.Args) == 1 {
		if add, ok := call.Args[0].(*ast.CallExpr); ok && called(add.Fun) == "Add" {
			call, from = add, 1
		}
	}
	if from == 0 || len(call.Args) < from {
		return "", ""
	}
	x := call.Args[len(call.Args)-from]
	if d, ok := duration(x); ok && d >= MinPatience {
		return wait(x)
	}
	return "", ""
}

// called returns the last name of the called function.
func called(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// measured reports whether an expression is a measured duration.
func measured(x ast.Expr) bool {
	if call, ok := x.(*ast.CallExpr); ok {
		return called(call.Fun) == "Since"
	}
	return called(x) == "took"
}

// units are the units of durations.
var units = map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
	"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// duration evaluates 5*time.Second and time.Second, and nothing else.
func duration(x ast.Expr) (time.Duration, bool) {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		if of, ok := x.X.(*ast.Ident); ok && of.Name == "time" {
			unit, known := units[x.Sel.Name]
			return unit, known
		}
	case *ast.BinaryExpr:
		number, ok := x.X.(*ast.BasicLit)
		unit, known := duration(x.Y)
		if n, err := strconv.ParseFloat(numberOf(number, ok), 64); err == nil && known && x.Op == token.MUL {
			return time.Duration(n * float64(unit)), true
		}
	}
	return 0, false
}

func numberOf(x *ast.BasicLit, ok bool) string {
	if !ok {
		return ""
	}
	return x.Value
}

var lossyPing = regexp.MustCompile(`\bping\b.*-c[", ]+([2-9]|[1-9][0-9]+)\b.*-W`)

func lossyPings(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(func(n string) bool { return isGoTest(n) || strings.HasSuffix(n, ".sh") }) {
		for i, line := range strings.Split(string(t[name]), "\n") {
			if lossyPing.MatchString(line) {
				out = append(out, Finding{name, i + 1, "has ping wait for the last of several answers with -W, which it does not",
					"use Ping or StartPing of test/netns, or -w and the numbers of the answers (scripts/lab.sh)"})
			}
		}
	}
	return out
}
