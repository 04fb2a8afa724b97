// SPDX-License-Identifier: Apache-2.0

// What the client itself says to a mistake: the sentence has what to write.

package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAMistypedFlagOrFileGetsTheNearest(t *testing.T) {
	tests := []struct{ line, want string }{
		{"trace --cub r1", `unknown flag "--cub": did you mean --cube?`},
		{"capture veth1 --json", `unknown flag "--json": did you mean -json?`},
		{"events --tpye=port", `unknown flag "--tpye=port": did you mean --type?`},
		{"status --chekc", `unknown word "--chekc": did you mean --check?`},
		{"apply --dryrun -f x", `unknown flag "--dryrun": did you mean --dry-run?`},
		{"rollback 7 --yess", "did you mean --yes?"},
		{"history --frobnicate", `unknown flag "--frobnicate"` + "\n"},
		{"apply -f completion.bsh", "no such file or directory: did you mean completion.bash or completion.zsh?"},
		{"apply -f testdata/status.goldn", "did you mean testdata/status.golden?"},
	}
	for _, tt := range tests {
		d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
		r := d.run(words(tt.line)...)
		if r.code != ExitUsage || !strings.Contains(r.err, tt.want) {
			t.Errorf("%s: exit %d, stderr %q, want %q", tt.line, r.code, r.err, tt.want)
		}
		if n := len(d.requests()); n != 0 {
			t.Errorf("%s: %d requests were sent", tt.line, n)
		}
	}
}

// TestAFileThatTheShellTookForAQuestionMark: ? is a pattern that a file of one letter fits.
func TestAFileThatTheShellTookForAQuestionMark(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"x", "ü", "long"} {
		if err := os.WriteFile(filepath.Join(".", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const hint = "the shell made"
	tests := []struct {
		line   string
		status int
		code   Exit
		hint   bool
	}{
		{"r1 x", 404, ExitServer, true},
		{"r1 ports ü", 400, ExitServer, true},
		{"rollback x", 200, ExitUsage, true},
		{"r1 y", 404, ExitServer, false},
		{"r1 long", 404, ExitServer, false},
		{"r1 x", 200, ExitOK, false},
		{"x", 404, ExitServer, false},
	}
	for _, tt := range tests {
		d := newDaemon(t, "unix", reply(tt.status, "{}"))
		r := d.run(words(tt.line)...)
		if r.code != tt.code || strings.Contains(r.err, hint) != tt.hint {
			t.Errorf("%s, answered %d: exit %d, stderr %q", tt.line, tt.status, r.code, r.err)
		}
	}
}

// TestHelpOfOneParameter: behind key=, as the last word, and with ? as the value.
func TestHelpOfOneParameter(t *testing.T) {
	const level = `{"params":{"level":{"name":"level","type":"leaf","simpletype":"enumeration","description":"How much it says.",
		"example":"INFO","default":"INFO","values":["INFO","OFF"],"mandatory":true,"init-only":true}}}`
	const port = `{"params":{"port":{"name":"port","type":"leaf","simpletype":"uint16","typedef":"inet:port-number","description":"Where.","example":"80",
		"range":"1..9","units":"ports","candidates":["7","8"],"length":"1..2","pattern":["[0-9]+"]}}}`
	const names = `{"params":{"names":{"name":"names","type":"leaf","simpletype":"string[]","description":"Who.","example":"a"}}}`
	tests := []struct{ name, line, body, asks, want string }{
		{"behind the key", "r1 add p1 level= ?", level, "OPTIONS /r1/p1/level/?help=ADD&value",
			"level:        How much it says.\nType:         enumeration\nValues:       INFO, OFF\nDefault:      INFO\n" +
				"Given:        required, and only when it is added\nExample:      polycubectl r1 add p1 level=INFO\n"},
		{"as its value", "r1 p1 set port=?", port, "OPTIONS /r1/p1/port/?help=SET&value",
			"port:         Where.\nType:         port-number\nRange:        1..9\nLength:       1..2\nPattern:      [0-9]+\nUnits:        ports\n" +
				"Possible:     7, 8\nExample:      polycubectl r1 p1 set port=7\n"},
		{"as the last word", "r1 p1 set port ?", port, "OPTIONS /r1/p1/port/?help=SET", "Example:      polycubectl r1 p1 set port=7\n"},
		{"values with meanings", "r1 set mode= ?", `{"params":{"mode":{"type":"leaf","description":"How.","values":["A","LONG","NONE"],"value-descriptions":{"A":"The first.","LONG":"Another."}}}}`,
			"OPTIONS /r1/mode/?help=SET&value", "Values:       A     The first.\n              LONG  Another.\n              NONE\n"},
		{"to show", "r1 p1 show port ?", port, "OPTIONS /r1/p1/port/?help=SHOW", "Example:      7\n"},
		{"a list", "r1 set names= ?", names, "OPTIONS /r1/names/?help=SET&value",
			"Type:         list of string\nExample:      polycubectl r1 set names=a\nSeveral:      names=A,B, or as JSON, 'names=[\"A\",\"B\"]'\n"},
		{"a member of a container", "r1 set a.port= ?", port, "OPTIONS /r1/a/port/?help=SET&value", "Example:      polycubectl r1 set a.port=7\n"},
		{"others that are given", "r1 add p1 level=OFF ?", `{"params":{"level":{"type":"leaf"},"port":{"type":"leaf"}}}`, "OPTIONS /r1/p1/?help=ADD",
			"Parameters:\nKeyword  Type\nport=    leaf\n"},
		{"that is implied", "r add r1 ?", `{"params":{"a":{"type":"leaf"},"b":{"type":"leaf","implied":true}}}`, "OPTIONS /r/r1/?help=ADD",
			"Parameters:\nKeyword  Type\na=       leaf\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "unix", reply(http.StatusOK, tt.body))
			r := d.run(words(tt.line)...)
			if r.code != ExitOK || !strings.HasSuffix(r.out, tt.want) {
				t.Errorf("exit %d, stderr %q, got\n%s\nwant\n%s", r.code, r.err, r.out, tt.want)
			}
			seen := d.requests()
			if got := seen[0].method + " " + strings.TrimPrefix(seen[0].uri, "/polycube/v1"); len(seen) != 1 || got != tt.asks {
				t.Errorf("asked %v, want %s", seen, tt.asks)
			}
		})
	}
}

// TestHelpIsWrappedToTheTerminal, and only there.
func TestHelpIsWrappedToTheTerminal(t *testing.T) {
	const body = `{"params":{"peer":{"name":"peer","type":"leaf","simpletype":"string","description":"Network interface or port at the other end of the wire.","example":"veth1"}},
		"elements":["p1","a b"]}`
	tests := []struct {
		name  string
		width int
		want  string
	}{
		{"a narrow one", 60, `Parameters:
Keyword  Type    Description                       Example
peer=    string  Network interface or port at the  veth1
                 other end of the wire.
`},
		{"none", 0, `Parameters:
Keyword  Type    Description                                              Example
peer=    string  Network interface or port at the other end of the wire.  veth1

Existing elements:
  p1
  'a b'
`},
		{"one that is too narrow for anything", 20, `Parameters:
Keyword  Type    Description                                              Example
`},
	}
	for _, tt := range tests {
		var out strings.Builder
		if err := printHelp(&out, []byte(body), helpFor{verb: verbSet}, tt.width); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, out.String(), tt.want)
		}
		for line := range strings.Lines(out.String()) {
			if tt.width > narrowest && len(strings.TrimRight(line, "\n")) > tt.width {
				t.Errorf("%s: %q is wider", tt.name, line)
			}
		}
	}
}
