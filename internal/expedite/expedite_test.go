// SPDX-License-Identifier: Apache-2.0

package expedite

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestExpeditedGracePeriodsAreSwitchedBack(t *testing.T) {
	ours := strconv.Itoa(Ours)
	cases := []struct {
		name           string
		before         string
		meanwhile      string // what somebody else writes during the change
		during, behind string
	}{
		{"off", "0\n", "", ours, "0"},
		{"somebody has it on", "1\n", "", "1", "1"},
		{"a killed daemon left it on", ours + "\n", "", ours, "0"},
		{"somebody switches it on meanwhile", "0\n", "1", ours, "1"},
		{"another daemon ends meanwhile", "0\n", "0", ours, "0"},
		{"somebody has it on, and goes", "1\n", "0", "1", "0"},
		{"not a number", "on\n", "", "on", "on"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := &expediter{file: filepath.Join(t.TempDir(), "rcu_expedited")}
			set := func(s string) {
				if err := os.WriteFile(e.file, []byte(s), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := func(when, want string) {
				t.Helper()
				got, err := os.ReadFile(e.file)
				// What is shorter does not cut a plain file, as it replaces a number in sysfs.
				if err != nil || !strings.HasPrefix(string(got), want) {
					t.Errorf("%s the file has %q, want %q (%v)", when, got, want, err)
				}
			}
			set(c.before)
			end := e.begin()
			want("during the change", c.during)
			inner := e.begin()
			inner()
			want("after a change beside it", c.during)
			if c.meanwhile != "" {
				set(c.meanwhile)
				e.renew()
				renewed := c.meanwhile
				if c.meanwhile == "0" && c.during == ours {
					renewed = ours
				}
				want("renewed", renewed)
			}
			end()
			end()
			want("after the change", c.behind)
		})
	}
}

func TestWithoutTheSwitchNothingIsDifferent(t *testing.T) {
	e := &expediter{file: filepath.Join(t.TempDir(), "none")}
	e.begin()()
	if _, err := os.Stat(e.file); !os.IsNotExist(err) {
		t.Errorf("the file was made: %v", err)
	}
}
