// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestHelp: help and completion of every kind of node and of every framework command,
// compared with a file that shows what a user gets.
func TestHelp(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	var out bytes.Buffer
	for _, path := range []string{
		"/", "/?completion",
		"/lab?help=NONE", "/lab?help=ADD", "/lab?help=NONE&completion", "/lab?help=ADD&completion",
		"/lab/l1?help=NONE", "/lab/new?help=ADD", "/lab/l1?help=SET", "/lab/l1?help=SHOW", "/lab/l1?help=DEL", "/lab/l1?help=ADD&completion", "/lab/l1/fdb?help=ADD",
		"/lab/l1?help=NONE&completion", "/lab/l1?help=SET&completion", "/lab/new?help=ADD&completion",
		"/lab/l1/fdb?help=NONE", "/lab/l1/fdb?help=SET", "/lab/l1/fdb?completion",
		"/lab/l1/fdb/entry?help=ADD", "/lab/l1/fdb/entry?help=DEL", "/lab/l1/fdb/entry?completion", "/lab/l1/fdb/entry?help=ADD&completion",
		"/lab/l1/fdb/entry/bb:bb:bb:bb:bb:bb?help=ADD", "/lab/l1/fdb/entry/aa:aa:aa:aa:aa:aa?help=SHOW",
		"/lab/l1/route?help=SHOW", "/lab/l1/route?help=NONE", "/lab/l1/route?completion", "/lab/l1/route/find", "/lab/l1/route/find?completion", "/lab/l1/route/10.0.0.0%2F8?help=SHOW", "/lab/l1/route/10.0.0.0%2F8?help=ADD&completion",
		"/lab/l1/route/10.0.0.0%2F8/1.1.1.1?help=SET&completion", "/lab/l1/route/x/y?help=ADD&completion",
		"/lab/l1/fdb/flush", "/lab/l1/fdb/flush?completion", "/lab/l1/fdb/flush/kind?completion",
		"/lab/l1/mode?completion", "/lab/l1/mode?help=SET", "/lab/l1/enabled?completion", "/lab/l1/fdb/aging-time?completion",
		"/tap/t1?help=NONE", "/tap/t1?help=SET",
		"/cubes?completion", "/cubes?help=ADD", "/services", "/services?help=ADD", "/netdevs?completion", "/topology?help=SHOW&completion", "/version",
		"/connect", "/connect?completion", "/connect/l1:p1?completion", "/attach", "/attach?completion", "/attach/t1?completion",
		"/attach/t1/veth1?completion", "/detach?completion",
	} {
		a := l.must(t, 200, "OPTIONS", path, "")
		if a.header.Get("Allow") == "" {
			t.Errorf("OPTIONS %s has no Allow", path)
		}
		fmt.Fprintf(&out, "OPTIONS %s\nAllow: %s\n", path, a.header.Get("Allow"))
		if strings.HasPrefix(a.body, "[") {
			out.WriteString(a.body)
		} else if err := json.Indent(&out, []byte(a.body), "", "  "); err != nil {
			t.Errorf("OPTIONS %s is not JSON: %v: %s", path, err, a.body)
		}
		out.WriteString("\n\n")
	}
	const golden = "testdata/help.golden"
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, expected := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(expected)) {
		if i >= len(got) || i >= len(expected) || got[i] != expected[i] {
			t.Fatalf("line %d differs from %s (accept with -update):\n%s", i+1, golden, strings.Join(got[max(0, i-3):min(len(got), i+8)], "\n"))
		}
	}
}
