// SPDX-License-Identifier: Apache-2.0

// Scripts look at exit codes: 0 done, 1 no daemon, 2 refused, 64 not a command.

package e2e

import (
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.lab.Host("veth1", "")
	for _, c := range []struct {
		line           string
		code           int
		stdout, stderr string // parts of what is printed; "" is nothing at all
	}{
		{"simplebridge add br1", 0, "", ""},
		{"br1 ports add p1 peer=veth1", 0, "", ""},
		{"br1 show ports p1 peer", 0, "veth1\n", ""},
		{"simplebridge br1 show ports p1 status", 0, "UP\n", ""},
		{"br1 fdb flush", 0, "flushed: true\n", ""},
		{"br1 set fdb.aging-time=10", 0, "", ""},
		{"br1 show fdb aging-time", 0, "10\n", ""},
		{"version", 0, "polycubectl:", ""},
		{"?", 0, "simplebridge", ""},
		{"simplebridge add br1", 2, "", "br1"},
		{"nosuch show", 2, "", "nosuch"},
		{"br1 ports add p2 peer=nosuch", 2, "", "nosuch"},
		{"br1 set loglevel=LOUD", 2, "", "LOUD"},
		{"del br9", 2, "", "br9"},
		{"br1 show -nosuch", 64, "", "-nosuch"},
		{"br1 add del", 64, "", "polycubectl"},
		{"br1 set a=b=c", 64, "", "a=b=c"},
		{"br1 set a=1 a=2", 64, "", "a"},
		{"br1 set a=1 word", 64, "", "word"},
		{"connect br1:p1", 64, "", "connect"},
		{"attach th1 br1:p1 position=first before=th2", 64, "", "attach"},
		{"del br1", 0, "", ""},
	} {
		r := d.CLI(strings.Fields(c.line)...)
		if r.code != c.code || !says(r.stdout, c.stdout) || !says(r.stderr, c.stderr) {
			t.Errorf("want exit %d, stdout with %q, stderr with %q: %s", c.code, c.stdout, c.stderr, r)
		}
	}
	d.Stop()
	if r := d.CLI("cubes", "show"); r.code != 1 || !strings.Contains(r.stdout+r.stderr, d.socket()) {
		t.Errorf("without a daemon, want exit 1 and the place that was asked: %s", r)
	}
}

func says(text, part string) bool {
	if part == "" {
		return text == ""
	}
	return strings.Contains(text, part)
}
