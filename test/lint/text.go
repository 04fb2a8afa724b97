// SPDX-License-Identifier: Apache-2.0

package lint

// Rules about words: licences, unfinished marks, paths of one machine, sleeps in
// tests and the texts of errors.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	apache = "Apache-2.0"
	kernel = "(GPL-2.0-only OR BSD-2-Clause)"
	// The name of the tag is split in two, so that licence scanners that read this file only find its own licence.
	spdx = "SPDX-License-" + "Identifier: "
)

// Licence requires the SPDX line first, or second after a #! line, with the licence for the kind of file.
func Licence(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(func(n string) bool { return licenceLine(n) != "" }) {
		first, rest, _ := strings.Cut(string(t[name]), "\n")
		if strings.HasPrefix(first, "#!") {
			first, _, _ = strings.Cut(rest, "\n")
		}
		if want := licenceLine(name); strings.TrimRight(first, " \r") != want {
			out = append(out, Finding{name, 1, "the licence line is missing or another", "begin the file with: " + want})
		}
	}
	return out
}

// licenceLine is the SPDX line of a kind of file; empty for data and documents.
func licenceLine(name string) string {
	base := path.Base(name)
	switch path.Ext(name) {
	case ".go", ".rs":
		return "// " + spdx + apache
	case ".c", ".h":
		if strings.HasPrefix(name, "internal/yang/") {
			return "// " + spdx + apache
		}
		return "// " + spdx + kernel
	case ".yang":
		// The modules of the IETF are kept as published.
		if strings.HasPrefix(base, "ietf-") || strings.HasPrefix(base, "iana-") || strings.Contains(name, "/testdata/") {
			return ""
		}
		return "// " + spdx + apache
	case ".sh", ".py", ".mk", ".service", ".toml":
		return "# " + spdx + apache
	case ".yml", ".yaml":
		if strings.Contains(name, "/testdata/") {
			return ""
		}
		return "# " + spdx + apache
	}
	switch {
	case base == "Makefile", base == "Dockerfile", base == ".clang-format", strings.HasPrefix(name, ".ci/"):
		return "# " + spdx + apache
	}
	return ""
}

// Sleeps reports time.Sleep in tests, whatever name the package is imported by.
func Sleeps(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(isGoTest) {
		fset, file, bad := parseGo(name, t[name], 0)
		if file == nil {
			out = append(out, bad)
			continue
		}
		local := importName(file, "time")
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && local != "" && pkg.Name == local {
				out = append(out, Finding{name, fset.Position(sel.Pos()).Line, "sleeps",
					"poll the condition with a deadline (netns.Eventually), or wait for the event itself"})
			}
			return true
		})
	}
	return out
}

// importName is the name by which a file calls a package; empty when it does not import it.
func importName(file *ast.File, pkg string) string {
	for _, spec := range file.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err != nil || imported != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(pkg)
	}
	return ""
}

var emptyWords = regexp.MustCompile(`(?i)\b(failed|unable) to\b`)

// ErrorTexts reports strings in Go code that say that something failed, which an error implies, instead of what was
// being done.
func ErrorTexts(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(func(n string) bool { return isGo(n) && !isGoTest(n) && layer(n) != "test" }) {
		fset, file, _ := parseGo(name, t[name], 0)
		if file == nil {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if ok && lit.Kind == token.STRING && emptyWords.MatchString(lit.Value) {
				out = append(out, Finding{name, fset.Position(lit.Pos()).Line, "the text says " + lit.Value,
					`say what was being done and wrap the cause: fmt.Errorf("open journal: %w", err)`})
			}
			return true
		})
	}
	return out
}

// Marks reports promises in sources.
func Marks(t Tree) []Finding {
	source := func(n string) bool { return licenceLine(n) != "" }
	return grep(t, source, regexp.MustCompile(`\b(TO`+`DO|FIX`+`ME|XX`+`X)\b`), "is left unfinished",
		"do it, or open an issue and take the mark out")
}

// MachinePaths reports absolute paths that exist on one machine only.
func MachinePaths(t Tree) []Finding {
	all := func(string) bool { return true }
	return grep(t, all, regexp.MustCompile(`(^|[^\w.$}*-])/(work|root)/[\w.]`+`|/tmp/bash`+`_jobs`),
		"holds a path of one machine", "use a path relative to the repository, or a temporary folder made by the test")
}

func grep(t Tree, keep func(string) bool, pattern *regexp.Regexp, what, remedy string) []Finding {
	var out []Finding
	for _, name := range t.Paths(keep) {
		for i, line := range strings.Split(string(t[name]), "\n") {
			if found := pattern.FindString(line); found != "" {
				out = append(out, Finding{name, i + 1, what + ": " + strings.TrimSpace(found), remedy})
			}
		}
	}
	return out
}

// Openings requires a comment, other than the licence, before the declarations of a Go file and before the first code
// of a C or Rust file: a reader learns first why the file exists.
func Openings(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(func(n string) bool { return isGo(n) && !isGoTest(n) || isC(n) || isRust(n) }) {
		if !opens(name, t[name]) {
			out = append(out, Finding{name, 1, "does not say why it exists", "begin it with a comment that does"})
		}
	}
	return out
}

func opens(name string, src []byte) bool {
	if isGo(name) {
		fset, file, _ := parseGo(name, src, parser.ParseComments)
		if file == nil {
			return true // GoFunctionLength and the compiler report it
		}
		first := slices.IndexFunc(file.Decls, func(d ast.Decl) bool {
			g, ok := d.(*ast.GenDecl)
			return !ok || g.Tok != token.IMPORT
		})
		return slices.ContainsFunc(file.Comments, func(c *ast.CommentGroup) bool {
			return strings.TrimSpace(c.Text()) != "" && (fset.Position(c.Pos()).Line > 1 || len(c.List) > 1) &&
				(first < 0 || c.Pos() < file.Decls[first].Pos())
		})
	}
	for _, line := range strings.Split(string(src), "\n")[1:] {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "//") || strings.HasPrefix(text, "/*") {
			return true
		}
		if text != "" && !strings.HasPrefix(text, "#") {
			return false
		}
	}
	return false
}
