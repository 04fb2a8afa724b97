// SPDX-License-Identifier: Apache-2.0

package sets

// Commands about several sets that are refused say why, and change nothing.

import (
	"errors"
	"strings"
	"testing"
)

func TestCommandsAboutSetsAreRefused(t *testing.T) {
	for _, c := range []struct {
		command, want string
		code          int
	}{
		{"swap t none", "the second set does not exist", problem},
		{"swap none t", "does not exist", problem},
		{"swap t six", "their type does not match", problem},
		{"swap t m", "their type does not match", problem},
		{"destroy none", noSet, problem},
		{"add none 192.0.2.1 -file", "missing argument of -file", parameter},
		{"list -output xml", `output format "xml" is not supported`, parameter},
		{"create x hash:none", `the set type "hash:none" is not supported`, parameter},
	} {
		d := newDaemon()
		if err := d.run(t, "create t hash:ip timeout 5\ncreate six hash:ip family inet6 timeout 5\ncreate m hash:mac\n", "restore"); err != nil {
			t.Fatal(err)
		}
		before := d.changes
		err := d.run(t, "", strings.Fields(c.command)...)
		var is *Error
		if !errors.As(err, &is) || is.Code != c.code || !strings.Contains(is.Text, c.want) {
			t.Errorf("%s: the error is %#v, want %d %s", c.command, err, c.code, c.want)
		}
		if before != 1 || d.changes != before {
			t.Errorf("%s: %d changes, and %d before", c.command, d.changes, before)
		}
	}
}
