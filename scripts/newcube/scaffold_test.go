// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/test/lint"
)

// kinds are the folders of templates of cubes.
var kinds = []string{"standard", "transparent", "vnf-proactive", "vnf-reactive", "vnf-offloading"}

// repository creates a directory that contains the list of cubes and one cube.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	list, err := os.ReadFile("../../" + listing)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"cubes/all", "cubes/helloworld"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, listing), list, 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

// tree reads all files under a directory.
func tree(t *testing.T, root string) lint.Tree {
	t.Helper()
	out := lint.Tree{}
	err := filepath.WalkDir(root, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err == nil {
			out[filepath.ToSlash(rel)], err = os.ReadFile(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNamesThatWillNotDoChangeNothing(t *testing.T) {
	for _, tt := range []struct{ name, says string }{
		{"", "needs a name"},
		{"x", "2 to 24 lower-case letters"},
		{strings.Repeat("x", 25), "2 to 24 lower-case letters"},
		{"Firewall", "2 to 24 lower-case letters"},
		{"5gcore", "begin with a letter"},
		{"load-balancer", "2 to 24 lower-case letters"},
		{"../firewall", "2 to 24 lower-case letters"},
		{"fire wall", "2 to 24 lower-case letters"},
		{"select", "is reserved by"},
		{"topology", "is reserved by"},
		{"pcn", "is reserved by"},
		{"helloworld", "already exists"},
	} {
		for _, kind := range kinds {
			root := repository(t)
			before := tree(t, root)
			files, err := scaffold(root, tt.name, kind)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q: files %v and error %v, want an error that says %q", tt.name, files, err, tt.says)
			}
			if !reflect.DeepEqual(tree(t, root), before) {
				t.Errorf("%q: the tree changed", tt.name)
			}
		}
	}
}

func TestWordsOfTheCommandLineAreNoNames(t *testing.T) {
	for _, word := range commands.Reserved() {
		if err := checkName(t.TempDir(), word); !errors.Is(err, errName) {
			t.Errorf("%s: %v, want %v: it is no name", word, err, errName)
		}
	}
}

func TestWhatCannotBeListedIsNotWritten(t *testing.T) {
	root := repository(t)
	if err := os.WriteFile(filepath.Join(root, listing), []byte("package all\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	if _, err := scaffold(root, "firewall", "standard"); err == nil || !strings.Contains(err.Error(), "imports no cube") {
		t.Errorf("a list without cubes: %v", err)
	}
	if !reflect.DeepEqual(tree(t, root), before) {
		t.Error("the tree changed")
	}
}

func TestScaffoldsKeepTheHouseRules(t *testing.T) {
	for _, name := range []string{"ab", "fencing", "zz9", strings.Repeat("w", nameLimit)} {
		for _, kind := range kinds {
			root := repository(t)
			written, err := scaffold(root, name, kind)
			if err != nil {
				t.Fatal(err)
			}
			files := tree(t, root)
			for _, rule := range lint.Rules() {
				for _, f := range rule.Check(files) {
					t.Errorf("%s, %s: %v", name, kind, f)
				}
			}
			for _, file := range written {
				if strings.Contains(string(files[file]), "[[.") {
					t.Errorf("%s holds a placeholder", file)
				}
			}
			checkFormat(t, filepath.Join(root, "cubes", name, name+".bpf.c"))
			if line := `cubes/` + name + `"`; strings.Count(string(files[listing]), line) != 1 {
				t.Errorf("%s is not listed once in\n%s", line, files[listing])
			}
		}
	}
}

// checkFormat runs clang-format with the repository's style.
func checkFormat(t *testing.T, file string) {
	t.Helper()
	if _, err := exec.LookPath("clang-format"); err != nil {
		return
	}
	if out, err := exec.Command("clang-format", "--style=file:../../.clang-format", "--dry-run", "--Werror", file).CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestAWorkingModeIsOneOfThree(t *testing.T) {
	for _, mode := range append(slices.Clone(modes), "none") {
		if of, err := kind(true, mode); err != nil || !slices.Contains(kinds, of) {
			t.Errorf("%s: %q, %v", mode, of, err)
		}
	}
	for _, mode := range []string{"", "active", "PROACTIVE", "../standard"} {
		if of, err := kind(false, mode); err == nil || !strings.Contains(err.Error(), "MODE=proactive, MODE=reactive, MODE=offloading") {
			t.Errorf("%q: %q, %v", mode, of, err)
		}
	}
}

// TestHybridFunctionsAreShort: model, program and control plane together.
func TestHybridFunctionsAreShort(t *testing.T) {
	for _, mode := range modes {
		files, err := render("trafficfunction", "vnf-"+mode)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for name, text := range files {
			if !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".md") {
				lines += bytes.Count(text, []byte("\n"))
			}
		}
		if lines > 200 || lines < 80 {
			t.Errorf("%s: %d lines, want at most 200", mode, lines)
		}
	}
}

func TestCubesAreListedInTheirPlace(t *testing.T) {
	const head, tail = "package all\n\nimport (\n", ")\n"
	line := func(name, gap string) string {
		return "\t_ \"github.com/polycube/polycube/cubes/" + name + "\"" + gap + " // registers itself\n"
	}
	for _, tt := range []struct{ name, before, want string }{
		{"a", line("b", "") + line("d", ""), line("a", "") + line("b", "") + line("d", "")},
		{"c", line("b", "") + line("d", ""), line("b", "") + line("c", "") + line("d", "")},
		{"ee", line("b", "") + line("d", ""), line("b", " ") + line("d", " ") + line("ee", "")},
	} {
		got, err := enlist([]byte(head+tt.before+tail), tt.name)
		if want := head + tt.want + tail; err != nil || string(got) != want {
			t.Errorf("%s: error %v, got\n%s\nwant\n%s", tt.name, err, got, want)
		}
	}
}
