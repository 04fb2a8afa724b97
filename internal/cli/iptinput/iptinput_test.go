// SPDX-License-Identifier: Apache-2.0

package iptinput

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsRestored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, []byte("*filter\nCOMMIT\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args, text, rest string
	}{
		{"", "input", ""},
		{"-n", "input", "-n"},
		{"-w 5", "input", "-w 5"},
		{"-n " + file, "*filter\nCOMMIT\n", "-n"},
		{"--help", "", "--help"},
	} {
		text, rest, err := Restored(strings.NewReader("input"), strings.Fields(tt.args))
		if err != nil || text != tt.text || !slices.Equal(rest, strings.Fields(tt.rest)) {
			t.Errorf("%s: %q, %v, %v", tt.args, text, rest, err)
		}
	}
	if _, _, err := Restored(strings.NewReader(""), []string{file + "x"}); err == nil {
		t.Error("a file that does not exist is read")
	}
	if _, _, err := Restored(strings.NewReader(strings.Repeat("x", maxInput+1)), nil); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Errorf("what is too long: %v", err)
	}
}

func TestWhichTables(t *testing.T) {
	for input, want := range map[string]bool{"*nat\nCOMMIT": true, "*filter\nCOMMIT\n*nat \r\n": true, "*filter\n# *nat\n-A x -m comment --comment *nat\n": false, "": false} {
		if HasTable(input, "nat") != want {
			t.Errorf("%q has the table: %v", input, !want)
		}
	}
	for args, want := range map[string]bool{"": false, "-c": false, "-t nat": true, "-ct nat": true, "--table=nat": true, "--table nat": true, "--counters": false} {
		if NamesTable(strings.Fields(args)) != want {
			t.Errorf("%q names a table: %v", args, !want)
		}
	}
	for args, want := range map[string]bool{"": false, "-n -t": false, "-T nat": true, "--table=nat": true} {
		if RestoresOne(strings.Fields(args)) != want {
			t.Errorf("%q restores one table: %v", args, !want)
		}
	}
}
