// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/lint"
)

const root = "../.."

func quota(change func(*service)) service {
	s := service{Name: "quotas", Upper: "QUOTAS", Language: "go", Prefix: "/usr/local"}
	change(&s)
	return s
}

func TestServicesThatCannotBeAreNotWritten(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	below := t.TempDir()
	for _, tt := range []struct {
		dir, says string
		change    func(*service)
	}{
		{"new", "needs the language", func(s *service) { s.Language = "" }},
		{"new", "needs the language", func(s *service) { s.Language = "en_US.UTF-8" }},
		{"new", "needs a name", func(s *service) { s.Name = "" }},
		{"new", "2 to 24 lower-case letters", func(s *service) { s.Name = "Quota" }},
		{"new", "is reserved by", func(s *service) { s.Name = "topology" }},
		{"new", "cubes/nat already exists", func(s *service) { s.Name = "nat" }},
		{"new", "PREFIX must be", func(s *service) { s.Prefix = "opt" }},
		{"new", "PREFIX must be", func(s *service) { s.Prefix = "/my polycube" }},
		{full, "is not empty: choose another folder", func(*service) {}},
		{filepath.Join(full, "mine"), "create the folder", func(*service) {}},
	} {
		dir := tt.dir
		if dir == "new" {
			dir = filepath.Join(below, dir)
		}
		files, err := scaffoldService(root, dir, quota(tt.change))
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("files %v and error %v, want an error that says %q", files, err, tt.says)
		}
	}
	if entries, err := os.ReadDir(below); err != nil || len(entries) > 0 {
		t.Errorf("written were %v, %v", entries, err)
	}
	if entries, err := os.ReadDir(full); err != nil || len(entries) != 1 {
		t.Errorf("the folder that was in use has %v, %v", entries, err)
	}
}

func TestAFailureInTheMiddleLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{"a": nil, "b": nil, "no/such/folder": nil}
	if err := writeService(dir, files); err == nil {
		t.Error("a file was written to a folder that does not exist")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left are %v, %v", entries, err)
	}
}

func TestServicesKeepTheHouseRules(t *testing.T) {
	for _, language := range []string{"go", "python"} {
		for _, transparent := range []bool{false, true} {
			for _, name := range []string{"ab", strings.Repeat("w", nameLimit)} {
				s := quota(func(s *service) {
					s.Name, s.Upper, s.Language, s.Transparent = name, strings.ToUpper(name), language, transparent
				})
				dir := filepath.Join(t.TempDir(), "examples", "services", name)
				written, err := scaffoldService(root, dir, s)
				if err != nil {
					t.Fatal(err)
				}
				files := tree(t, filepath.Dir(filepath.Dir(filepath.Dir(dir))))
				if len(written) != len(files) || len(files) != 9 {
					t.Errorf("%s: written were %v, there are %v", language, written, slices.Sorted(maps.Keys(files)))
				}
				delete(files, "examples/services/"+name+"/go.sum")
				for _, rule := range lint.Rules() {
					for _, f := range rule.Check(files) {
						t.Errorf("%s, transparent %v: %v", language, transparent, f)
					}
				}
				for file, text := range files {
					if strings.Contains(string(text), "[[") && !strings.HasSuffix(file, ".toml") {
						t.Errorf("%s holds a placeholder:\n%s", file, text)
					}
				}
			}
		}
	}
}

func TestTheInstalledProgramIsWhereTheReadmeSays(t *testing.T) {
	got := []string{quota(func(s *service) { s.Language = "python" }).Program(), quota(func(*service) {}).Program()}
	want := []string{"/usr/local/lib/polycube/quotas/bin/polycube-quotas", "/usr/local/lib/polycube/quotas"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the programs are %v, want %v", got, want)
	}
}
