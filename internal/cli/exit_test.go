// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// declared are the exit statuses that exit.go names.
func declared(t *testing.T) map[string]Exit {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Exit{}
	for _, d := range file.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			c := spec.(*ast.ValueSpec)
			n, err := strconv.Atoi(c.Values[0].(*ast.BasicLit).Value)
			if id, ok := c.Type.(*ast.Ident); err != nil || !ok || id.Name != "Exit" {
				t.Fatalf("%s is no exit status with a number: %v", c.Names[0].Name, err)
			}
			out[c.Names[0].Name] = Exit(n)
		}
	}
	return out
}

// TestEachExitStatusHasOneMeaning: a name, a number and a sentence belong together, in the program, its help and the guide.
func TestEachExitStatusHasOneMeaning(t *testing.T) {
	names, texts := map[Exit]string{}, map[string]Exit{}
	all := declared(t)
	for name, e := range all {
		if other := names[e]; other != "" {
			t.Errorf("%d is %s and %s", e, name, other)
		}
		names[e] = name
	}
	last := Exit(-1)
	for _, e := range exits {
		if names[e.exit] == "" || e.exit <= last {
			t.Errorf("%d is explained, and has the name %q, behind %d", e.exit, names[e.exit], last)
		}
		if other, twice := texts[e.meaning]; twice || e.meaning == "" {
			t.Errorf("%d means %q, as %d does", e.exit, e.meaning, other)
		}
		texts[e.meaning], last = e.exit, e.exit
	}
	if len(exits) != len(all) || len(all) == 0 {
		t.Errorf("%d exit statuses have a name, %d are explained", len(all), len(exits))
	}
	for name, want := range map[string]Exit{"ExitOK": 0, "ExitContact": 1, "ExitServer": 2, "ExitUsage": 64} {
		if all[name] != want {
			t.Errorf("%s is %d; scripts know it as %d", name, all[name], want)
		}
	}
	if !strings.HasSuffix(usage(), "Exit status:\n"+exitTable()) {
		t.Errorf("help ends with another table than\n%s", exitTable())
	}
	var want []string
	for _, e := range exits {
		want = append(want, fmt.Sprint(int(e.exit), " ", e.meaning))
	}
	for file, form := range map[string]struct{ title, row string }{
		"../../docs/guide/cli.md":    {"\n## Exit status\n", `(?m)^\| (\d+) \| (.*) \|$`},
		"../../deploy/polycubectl.1": {"\n.Sh EXIT STATUS\n", `(?m)^\.It (\d+)\n(.*)$`},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(text), form.title)
		var rows []string
		for _, row := range regexp.MustCompile(form.row).FindAllStringSubmatch(section, -1) {
			rows = append(rows, row[1]+" "+row[2])
		}
		if got := strings.Join(rows, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("%s says\n%s\nwant\n%s", file, got, strings.Join(want, "\n"))
		}
	}
}

// TestErrorsHaveTheirExitStatus, wrapped or among others.
func TestErrorsHaveTheirExitStatus(t *testing.T) {
	full := errors.New("no space left on device")
	for _, c := range []struct {
		err  error
		want Exit
		says string
	}{
		{nil, ExitOK, ""},
		{errors.New("nobody is there"), ExitContact, "polycubectl: nobody is there\n"},
		{fmt.Errorf("step: %w", &serverError{"ports p1: no"}), ExitServer, "ports p1: no\n"},
		{&redirectError{"elsewhere"}, ExitServer, "polycubectl: elsewhere\n"},
		{&exitError{code: ExitChanged}, ExitChanged, ""},
		{&exitError{code: ExitDeclined, message: "nothing was changed"}, ExitDeclined, "polycubectl: nothing was changed\n"},
		{&usageError{message: "x", usage: "x Y"}, ExitUsage, "polycubectl: x\nUsage: polycubectl x Y\n"},
		{writeError("write f", nil), ExitOK, ""},
		{errors.Join(errors.New("the stream ended"), writeError("write f", full)), ExitOutput, "polycubectl: the stream ended\\nwrite f: no space left on device\n"},
	} {
		var said strings.Builder
		s := newSession(nil, io.Discard, &said, os.Getenv)
		if got := s.conclude(c.err); got != c.want || said.String() != c.says {
			t.Errorf("%v: exit %d, %q, want %d, %q", c.err, got, said.String(), c.want, c.says)
		}
	}
}

// TestHowTheCommandEndedMattersMore than that the response was lost, too.
func TestHowTheCommandEndedMattersMore(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	defer full.Close()
	d := newDaemon(t, "unix", reply(http.StatusOK, `{"revision":6,"changed":true,"difference":{"added":[{"name":"br1"}]}}`))
	var said strings.Builder
	code := Run(words("rollback 3 --yes --detailed-exitcode"), nil, full, &said, d.getenv)
	if code != ExitChanged || !strings.Contains(said.String(), "write the output: ") {
		t.Errorf("exit %d, %q, want %d and a complaint", code, said.String(), ExitChanged)
	}
}
