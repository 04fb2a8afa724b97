// SPDX-License-Identifier: Apache-2.0

package lint

// Each rule is run on a tree that breaks it and on one that does not.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const goHead = "// " + spdx + apache + "\n\npackage p\n\n"

func goFile(body string) []byte { return []byte(goHead + body) }

// function is a Go function of n lines.
func function(n int) string { return "func F() {\n" + strings.Repeat("\t_ = 1\n", n-2) + "}\n" }

func cFunctionOf(n int) string {
	return "static int f(int a,\n\t     int b)\n{\n" + strings.Repeat("\ta += b;\n", n-4) + "}\n"
}

// exported is n names that other packages can use.
func exported(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "var A%d, b%d int\n", i, i)
	}
	return b.String()
}

// methods is n methods of a type.
func methods(of string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "func (r %s) m%d() {}\n", of, i)
	}
	return b.String()
}

// places are findings as "path:line".
func places(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%s:%d", f.Path, f.Line))
	}
	slices.Sort(out)
	return out
}

var ruleTests = []struct {
	name string
	rule func(Tree) []Finding
	tree Tree
	want []string
}{
	{"a file at the limit passes, one line more does not", FileLength, Tree{
		"a/ok.go": []byte(strings.Repeat("\n", 500)), "a/long.go": []byte(strings.Repeat("\n", 501)),
		"a/long.bpf.c": []byte(strings.Repeat("\n", 500) + "x"), "a/long.rs": []byte(strings.Repeat("\n", 501)), "a/long.md": []byte(strings.Repeat("\n", 900)),
		"cmd/x/main.go": []byte(strings.Repeat("\n", 101)), "cmd/x/main_test.go": []byte(strings.Repeat("\n", 300)),
		"Makefile": []byte(strings.Repeat("\n", 151)),
	}, []string{"Makefile:0", "a/long.bpf.c:0", "a/long.go:0", "a/long.rs:0", "cmd/x/main.go:0"}},
	{"a Go function at the limit passes, one line more does not, tests are free", GoFunctionLength, Tree{
		"a.go": goFile(function(60)), "b.go": goFile(function(61)), "b_test.go": goFile(function(90)),
		"broken.go": []byte("package"),
	}, []string{"b.go:5", "broken.go:0"}},
	{"a C function at the limit passes, one line more does not", CFunctionLength, Tree{
		"a.c": []byte(cFunctionOf(80)), "b.h": []byte("#pragma once\n\n" + cFunctionOf(81)),
		"struct.c": []byte("struct s {\n" + strings.Repeat("\tint a;\n", 200) + "};\n"),
		"table.c":  []byte("static int t[] = {\n" + strings.Repeat("\t1,\n", 200) + "};\n"),
	}, []string{"b.h:3"}},
	{"the first cube fits in its budget", HelloBudget, Tree{
		"cubes/helloworld/helloworld.go":      []byte(strings.Repeat("\n", 100)),
		"cubes/helloworld/helloworld.bpf.c":   []byte(strings.Repeat("\n", 100)),
		"cubes/helloworld/helloworld.yang":    []byte(strings.Repeat("\n", 51)),
		"cubes/helloworld/helloworld_test.go": []byte(strings.Repeat("\n", 400)),
	}, []string{"cubes/helloworld:0"}},
	{"imports against the layers", ImportDirection, Tree{
		"cube/a.go":            goFile(`import _ "` + Module + `/internal/x"`),
		"cube/b.go":            goFile(`import _ "` + Module + `/cubes/nat"`),
		"cubes/nat/a.go":       goFile(`import _ "` + Module + `/internal/x"`),
		"cubes/nat/b.go":       goFile(`import _ "` + Module + `/cubes/router"`),
		"cubes/nat/ok.go":      goFile(`import _ "` + Module + `/cube"`),
		"cubes/nat/part.go":    goFile(`import _ "` + Module + `/fdb"`),
		"fdb/a.go":             goFile(`import _ "` + Module + `/cubes/bridge"`),
		"fdb/b.go":             goFile(`import _ "` + Module + `/internal/x"`),
		"fdb/ok.go":            goFile(`import _ "` + Module + `/inet"`),
		"cubes/nat/c_test.go":  goFile(`import _ "` + Module + `/test/bpftest"`),
		"cubes/all/all.go":     goFile(`import _ "` + Module + `/cubes/router"`),
		"internal/x/a.go":      goFile(`import _ "` + Module + `/cubes/all"`),
		"internal/x/b.go":      goFile(`import _ "` + Module + `/test/netns"`),
		"internal/x/ok.go":     goFile(`import _ "` + Module + `/cube"`),
		"internal/x/a_test.go": goFile(`import _ "` + Module + `/cubes/nat"`),
		"internal/y/c.go":      goFile(`import _ "` + Module + `/cmd/polycubed"`),
		"cmd/polycubed/ok.go":  goFile(`import _ "` + Module + `/cubes/all"`),
	}, []string{"cube/a.go:5", "cube/b.go:5", "cubes/nat/a.go:5", "cubes/nat/b.go:5",
		"fdb/a.go:5", "fdb/b.go:5", "internal/x/a.go:5", "internal/x/b.go:5", "internal/y/c.go:5"}},
	{"imports that are not in the table, and lines of it that are not true", AllowedImports, Tree{
		ImportsTable:           []byte("# Why.\na: b\nb: c d\na: c\nd: c b\n"),
		"internal/a/ok.go":     goFile(`import _ "` + Module + `/internal/b"`),
		"internal/a/c.go":      goFile(`import _ "` + Module + `/internal/c"`),
		"internal/a/e.go":      goFile(`import _ "` + Module + `/internal/e"`),
		"internal/a/e_test.go": goFile(`import _ "` + Module + `/internal/e"`),
		"internal/b/c.go":      goFile(`import _ "` + Module + `/internal/c"`),
		"internal/d/b.go":      goFile("import (\n\t_ \"" + Module + "/internal/b\"\n\t_ \"" + Module + "/internal/c\"\n)"),
		"cmd/x/main.go":        goFile(`import _ "` + Module + `/internal/b"`),
	}, []string{"internal/a/e.go:5", "test/lint/imports.txt:3", "test/lint/imports.txt:4", "test/lint/imports.txt:5"}},
	{"names with words that nobody searches for", PlainNames, Tree{
		"internal/a/undress.go":  goFile("func bringBack() {}\n\nfunc address(heard int) int { return heard + heard }\n"),
		"internal/a/dressing.go": goFile("func f(brings int) {}\n"),
	}, []string{"internal/a/undress.go:0", "internal/a/undress.go:5", "internal/a/undress.go:7"}},
	{"descriptions that read as a translation", PlainDescriptions, Tree{
		"yang/a.yang": []byte("module a {\n  description \"Sessions that there are.\";\n}\n"), "yang/b.yang": []byte("module b {\n  description \"Number of active sessions.\";\n}\n"),
		"internal/x/testdata/c.yang": []byte("whoever\n"),
	}, []string{"yang/a.yang:2"}},
	{"errors that read as a translation", PlainTexts, Tree{
		"internal/a/a.go":      goFile("// nobody is a comment.\nconst (\n\tx = \"an object is wanted\"\n\ty = \"expected an object, besides \\n\"\n\tz = \"expected an object\"\n)\n"),
		"internal/a/a_test.go": goFile("const w = \"the table was made anew\"\n"),
	}, []string{"internal/a/a.go:7", "internal/a/a.go:8"}},
	{"a mutex says what it guards, or stands above it", MutexGroups, Tree{
		"internal/a/a.go": goFile("import \"sync\"\n\ntype A struct {\n\tx int\n\tmu sync.Mutex\n\ty int\n}\n"),
		"internal/b/b.go": goFile("import \"sync\"\n\ntype A struct {\n\tx int\n\n\tmu sync.Mutex\n\ty int\n}\n\ntype B struct {\n\tmu sync.RWMutex\n\ty int\n}\n\ntype C struct {\n\tx int\n\tmu sync.Mutex // guards x\n}\n"),
	}, []string{"internal/a/a.go:9"}},
	{"packages with too many lines or names, tests are free", PackageSize, Tree{
		"internal/ok/a.go": goFile(strings.Repeat("\n", 3000)), "internal/ok/b.go": goFile(strings.Repeat("\n", 2990)),
		"internal/long/a.go": goFile(strings.Repeat("\n", 3000)), "internal/long/b.go": goFile(strings.Repeat("\n", 2996)),
		"internal/ok/a_test.go": goFile(strings.Repeat("\n", 9000)), "test/x/a.go": goFile(strings.Repeat("\n", 9000)),
		"internal/many/a.go": goFile(exported(30)), "internal/many/b.go": goFile("type T struct{ F, G int }\n\nfunc (T) M() {}\n" + exported(30)),
		"internal/just/a.go": goFile(exported(60)), "cube/a.go": goFile(""),
	}, []string{"cube:0", "internal/long:0", "internal/many:0"}},
	{"types with many methods, that are listed without need", MethodCount, Tree{
		"internal/a/a.go": goFile(methods("*t", 20)), "internal/a/b.go": goFile(methods("t", 20)),
		"internal/b/a.go": goFile(methods("*t[K]", 20)), "internal/b/b.go": goFile(methods("t[K]", 21)),
		"internal/a/a_test.go": goFile(methods("t", 50)), "internal/yang/a.go": goFile(methods("*Tree", 3)),
	}, []string{"internal/b.t:0", "internal/yang.Tree:0"}},
	{"cgo outside its package", Cgo, Tree{
		"internal/yang/a.go": goFile(`import "C"`), "internal/cli/a.go": goFile(`import "C"`),
	}, []string{"internal/cli/a.go:5"}},
	{"licence lines", Licence, Tree{
		"ok.go": goFile(""), "none.go": []byte("package p\n"),
		"kernel.bpf.c": []byte("// " + spdx + kernel + "\n"), "apache.bpf.c": []byte("// " + spdx + apache + "\n"),
		"internal/yang/glue.c": []byte("// " + spdx + apache + "\n"),
		"ok.sh":                []byte("#!/bin/sh\n# " + spdx + apache + "\n"), "no.sh": []byte("#!/bin/sh\n\n# " + spdx + apache + "\n"),
		"Makefile": []byte("all:\n"), "a.yang": []byte("module a {}\n"), "ietf-x.yang": []byte("module x {}\n"),
		"README.md": []byte("# x\n"), "a/testdata/in.yaml": []byte("a: 1\n"),
		"a/main.rs": []byte("// " + spdx + apache + "\n"), "b/main.rs": []byte("fn main() {}\n"), "Cargo.toml": []byte("[package]\n"), "Cargo.lock": []byte("[[package]]\n"),
	}, []string{"Cargo.toml:1", "Makefile:1", "a.yang:1", "apache.bpf.c:1", "b/main.rs:1", "no.sh:1", "none.go:1"}},
	{"files that open without a reason", Openings, Tree{
		"a.go": goFile("func f() {}\n"), "after.go": goFile("func f() {} // why\n"), "one_test.go": goFile(""),
		"before.go": []byte("// " + spdx + apache + "\n\n// Why.\npackage p\n\nimport \"fmt\"\n"),
		"below.go":  goFile("// Why.\n\nimport \"fmt\"\n"), "directive.go": []byte("// x\n\n//go:build linux\n\npackage p\n"),
		"a.c": []byte("// x\n#include <a.h>\nint a; // a\n"), "b.h": []byte("// x\n\n/* Why. */\n#pragma once\n"),
		"c.h": []byte("// x\n#pragma once\n// Why.\n"), "d.h": []byte("// x\n"),
		"a.rs": []byte("// x\n\nuse a::b;\n//! Why.\n"), "b.rs": []byte("// x\n\n//! Why.\n\nuse a::b;\n"),
	}, []string{"a.c:1", "a.go:1", "a.rs:1", "after.go:1", "d.h:1", "directive.go:1"}},
	{"sleeps in tests, by any name", Sleeps, Tree{
		"a_test.go": goFile("import \"time\"\n\nfunc f() { time.Sleep(1) }\n"),
		"b_test.go": goFile("import clock \"time\"\n\nfunc f() { clock.Sleep(1) }\n"),
		"c_test.go": goFile("var s = \"time.Sleep(1)\" // time.Sleep\n"),
		"d_test.go": goFile("type t struct{}\n\nfunc (t) Sleep() {}\n\nfunc f(time t) { time.Sleep() }\n"),
		"e.go":      goFile("import \"time\"\n\nfunc f() { time.Sleep(1) }\n"),
	}, []string{"a_test.go:7", "b_test.go:7"}},
	{"short waits in tests, and limits in seconds beside other tests", Patience, Tree{
		"a_test.go": goFile("const patience = 9 * time.Second\nvar longPatience = pace.Stretch(time.Minute)\nvar short = time.Second\n"),
		"b_test.go": goFile("func TestB() {\n\tnetns.Eventually(t, 5*time.Second, f)\n\tnetns.Eventually(t, pace.Stretch(15*time.Second), f)\n\tEventually(t, patience, f)\n}\n"),
		"c_test.go": goFile("func TestC() {\n\t_ = took > 3*time.Second\n\t_ = took < 3*time.Second\n\t_ = time.Since(a) >= time.Minute\n\t_ = time.Since(a) > within\n}\n"),
		"d_test.go": goFile("func TestTimedD() {\n\t_ = took > 3*time.Second\n}\n"),
		"e_test.go": goFile("var a = []string{\"pi" + "ng\", \"-c\", \"30\", \"-i\", \"1\", \"-W\", \"5\"}\nvar b = \"ping -c 1 -W 5\"\n"),
		"f.sh":      []byte("pi" + "ng -n -q -c 3 -W 5 a\nping -c 3 -w 5 a\nping -c 1 -W 5 a\n"),
		"g.go":      goFile("const patience = time.Second\n"),
		"h_test.go": goFile("const patience = time.Minute\n\nfunc TestH() {\n\tEventually(t, 15*time.Second, f)\n\tEventually(t, pace.Stretch(time.Second), f)\n" +
			"\tw.Recv(f, 20*time.Second)\n\tw.Recv(f, time.Second)\n\tc.SetDeadline(time.Now().Add(time.Minute))\n\t<-time.After(pace.Stretch(time.Minute))\n}\n"),
		"test/netns/lab.go": goFile("func f() {\n\t<-time.After(time.Minute)\n}\n"),
	}, []string{"a_test.go:5", "b_test.go:6", "c_test.go:6", "c_test.go:8", "e_test.go:5", "f.sh:1", "h_test.go:10", "h_test.go:12", "h_test.go:5", "h_test.go:8", "h_test.go:9", "test/netns/lab.go:6"}},
	{"exit statuses without a name", Exits, Tree{
		"cmd/x/main.go":          goFile("func main() { os.Exit(1) }\n"),
		"cmd/y/main.go":          goFile("func main() { os.Exit(int(cli.Run())) }\n"),
		"internal/cli/exit.go":   goFile("const ExitOK Exit = 0\n\nvar m = map[string]Exit{\"a\": 1}\n\nfunc f() { os.Exit(3) }\n"),
		"internal/cli/a.go":      goFile("const e Exit = 5\n\nvar m = map[string]Exit{\"a\": 1, \"b\": ExitOK}\n\nfunc f() Exit {\n\t_ = func() int { return 7 }\n\treturn 9\n}\n"),
		"internal/cli/b.go":      goFile("var e = &exitError{code: 4}\n\nvar f = Exit(6)\n\nvar g = other{count: 4, code: ExitOK}\n\nfunc h() int { return 8 }\n"),
		"internal/cli/a_test.go": goFile("var e = Exit(6)\n"), "scripts/x/main.go": goFile("func main() { os.Exit(1) }\n"),
		"internal/daemon/m.go": goFile("func f() int { return 1 }\n\nfunc g() { os.Exit(64) }\n"),
	}, []string{"cmd/x/main.go:5", "internal/cli/a.go:11", "internal/cli/a.go:5", "internal/cli/a.go:7", "internal/cli/b.go:5", "internal/cli/b.go:7", "internal/cli/exit.go:9", "internal/daemon/m.go:7"}},
	{"errors that only say that they are one", ErrorTexts, Tree{
		"a.go": goFile("var a = \"Failed to open\"\n"), "b.go": goFile("var b = \"open journal\" // failed to\n"),
		"a_test.go": goFile("var a = \"failed to open\"\n"),
	}, []string{"a.go:5"}},
	{"unfinished marks", Marks, Tree{
		"a.go": goFile("// TO" + "DO: later\n"), "b.c": []byte("/* FIX" + "ME */\n"), "ok.sh": []byte("mktemp -d x.XXXXXX\n"),
		"a.md": []byte("no TO" + "DO\n"),
	}, []string{"a.go:5", "b.c:1"}},
	{"paths of one machine", MachinePaths, Tree{
		"a.md": []byte("see\n/wo" + "rk/main\n"), "b.sh": []byte("cd \"/ro" + "ot/x\"\n"),
		"c.go": []byte("a/wo" + "rk/b $HOME/wo" + "rk/x .cache/ro" + "ot/y\n"), "d.sh": []byte("ls /tmp/bash" + "_jobs\n"),
	}, []string{"a.md:2", "b.sh:1", "d.sh:1"}},
	{"tracked products of the build", Generated, Tree{
		"cubes/a/a.tc.o": nil, "bin/polycubed": nil, ".cache/bin/x": nil, "a_bpfel.go": nil, "a.go": nil, "cubes/bin/a.go": nil,
	}, []string{".cache/bin/x:0", "a_bpfel.go:0", "bin/polycubed:0", "cubes/a/a.tc.o:0"}},
	{"files that a cube lacks", CubeFiles, Tree{
		"cubes/nat/nat.go": nil, "cubes/nat/nat.yang": nil, "cubes/nat/nat.bpf.c": nil, "cubes/nat/testdata/x_test.go": nil,
		"cubes/ok/README.md": nil, "cubes/ok/ok.yang": nil, "cubes/ok/ok.bpf.c": nil, "cubes/ok/ok.go": nil, "cubes/ok/a_test.go": nil,
		"cubes/all/all.go": nil, "cubes/README.md": nil,
	}, []string{"cubes/nat:0", "cubes/nat:0"}},
	{"READMEs without examples that can be run", Examples, Tree{
		"cubes/a/README.md": []byte("# a\n"), "cubes/b/README.md": []byte("```console\n# b\n```\n"),
		"cubes/c/README.md": []byte("```console\n$ c\n```\n"), "cubes/d/d.go": nil,
	}, []string{"cubes/a/README.md:0", "cubes/b/README.md:0"}},
	{"quotations that their file does not have", Quotes, Tree{
		"a/x.c": []byte("int a;\n\nint b;\nint c;\n"),
		"doc.md": []byte("```c a/x.c\nint a;\n...\nint c;\n```\n" + // 1: true
			"```c a/x.c\nint c;\n...\nint a;\n```\n" + // 6: the reverse
			"```c a/x.c\nint d;\n```\n" + // 11: not there
			"```c a/gone.c\nint a;\n```\n" + // 14: no such file
			"```c\nint d;\n```\n" + // no quotation
			"```c file=a/new.c\nint d;\n```\n"), // a file to be made
	}, []string{"doc.md:11", "doc.md:14", "doc.md:6"}},
	{"helpers without a comment, and a reference of yesterday", Helpers, Tree{
		"bpf/include/pcn/a.h": []byte("/* About. */\n#ifndef A_H\n#define A_H\n\n/* Adds. */\nPCN_INLINE int pcn_a(int a)\n{\n\treturn a;\n}\n\n" +
			"PCN_INLINE int pcn_b(int a)\n{\n\treturn a;\n}\n\n/* Internal: x. */\n#define PCN_X 1\n#endif\n"),
		"docs/reference/helpers.md": []byte("# Helpers\n"),
	}, []string{"bpf/include/pcn/a.h:11", "docs/reference/helpers.md:0"}},
	{"links that lead nowhere", Links, Tree{
		"README.md": []byte("# Top\n## Two words, `code`\n[a](docs/a.md) [b](docs) [c](#two-words-code) [d](https://x.y/z)\n" +
			"[e](docs/none.md) ![f](none.png \"t\")\n```\n[g](none)\n```\n`[h](none)`\n[i](#none) [j](docs/a.md#none)\n\n[ref]: gone.md\n"),
		"docs/a.md": []byte("# A\n[up](../README.md#top) [x](/README.md) [root](..)\n"),
	}, []string{"README.md:11", "README.md:4", "README.md:4", "README.md:9", "README.md:9", "docs/a.md:2"}},
}

func TestEachRuleFindsWhatBreaksIt(t *testing.T) {
	for _, tt := range ruleTests {
		t.Run(tt.name, func(t *testing.T) {
			findings := tt.rule(tt.tree)
			if got := places(findings); !slices.Equal(got, tt.want) {
				t.Errorf("findings at\n got %q\nwant %q", got, tt.want)
			}
			for _, f := range findings {
				if f.What == "" || f.Remedy == "" {
					t.Errorf("%v says not what is wrong, or not what to do", f)
				}
			}
		})
	}
}

func TestEveryRuleIsShownToFail(t *testing.T) {
	if len(ruleTests) < len(Rules()) {
		t.Errorf("%d rules, %d trees that break one", len(Rules()), len(ruleTests))
	}
	for _, rule := range Rules() {
		broken := func(i int) bool { return len(rule.Check(ruleTests[i].tree)) > 0 }
		if !slices.ContainsFunc(indices(len(ruleTests)), broken) {
			t.Errorf("no tree breaks the rule %q", rule.Name)
		}
	}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestFunctionsOfCSourcesAreFound(t *testing.T) {
	tests := []struct {
		name, src string
		want      []cFunction
	}{
		{"a head over two lines", "int a;\n\nstatic int f(int a,\n\t     int b)\n{\n\treturn a;\n}\n", []cFunction{{"f", 3, 5}}},
		{"a section macro before the head", "SEC(\"xdp\")\nint prog(struct xdp_md *ctx)\n{\n\treturn 2;\n}\n", []cFunction{{"prog", 1, 5}}},
		{"braces in strings, characters and comments", "int f(void)\n{\n\tputs(\"}{\"); /* } */ // }\n\treturn '{';\n}\n", []cFunction{{"f", 1, 5}}},
		{"a macro with a body is no function", "#define M(x) \\\n\tdo { x; } \\\n\twhile (0)\nint f(void) { return 1; }\n", []cFunction{{"f", 4, 1}}},
		{"types and tables are no functions", "struct s {\n\tint a;\n};\nenum { A, B };\nint t[] = { F(1), 2 };\n", nil},
		{"two branches that open one brace", "#ifdef A\nint f(int a)\n{\n#else\nint f(void)\n{\n#endif\n\treturn 1;\n}\nint g(void)\n{\n}\n",
			[]cFunction{{"f", 2, 8}, {"g", 10, 3}}},
		{"an attribute after the arguments", "int f(void) __attribute__((noinline))\n{\n}\n", []cFunction{{"f", 1, 3}}},
		{"a packed type is no function", "struct __attribute__((packed)) s {\n\tint a;\n};\n", nil},
		{"a file that stops in a comment", "int f(void)\n{\n}\n/* ", []cFunction{{"f", 1, 3}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := cFunctions([]byte(tt.src)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzCFunctions(f *testing.F) {
	f.Add([]byte("int f(void)\n{\n\treturn '{';\n}\n"))
	f.Add([]byte("#define A \\\n\"'"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if got := blankC(string(src)); len(got) != len(src) {
			t.Errorf("%d bytes became %d: offsets moved", len(src), len(got))
		}
		for _, fn := range cFunctions(src) {
			if fn.lines < 1 || fn.line < 1 || fn.line > lines(src) {
				t.Errorf("%+v is not inside %d lines", fn, lines(src))
			}
		}
	})
}

func TestFindingsAreInTheFormEditorsJumpTo(t *testing.T) {
	f := Finding{"a.go", 3, "sleeps", "poll"}
	if got, want := f.String(), "a.go:3: sleeps; remedy: poll"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.Line = 0
	if got, want := f.String(), "a.go: sleeps; remedy: poll"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
